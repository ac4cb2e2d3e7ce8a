"""Where the gripper's tip is for given joints, and which joints bring it to a given place, on the scene's model.

MuJoCo is imported when a :class:`Kinematics` is made, not before.
"""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..joints import MODEL_RANGE_RAD, N, q_to_rad, rad_to_q

__all__ = ["Kinematics"]

DAMPING = 1e-3
"""Weight of damped least squares [m]: small against the arm's 0.1 to 0.4 m levers, so it bends only singular steps."""

TOLERANCE_M = 1e-4
MAX_STEP_RAD = 0.3
MAX_ITERATIONS = 60


class Kinematics:
    """Forward and inverse kinematics of the gripper's tip, the model's site ``gripperframe``. Not for two threads at
    once.

    Raises:
        HardwareError: The SO-101's model is not installed.
    """

    def __init__(self) -> None:
        import mujoco

        from .model import GRIPPER_SITE, load_model

        self._model = load_model(visuals=False)
        self._data = mujoco.MjData(self._model)
        self._site = self._model.site(GRIPPER_SITE).id

    @classmethod
    @functools.cache
    def shared(cls) -> "Kinematics":
        """The process's own, made at the first call: loading the model takes longer than a hundred solutions."""
        return cls()

    def tip_m(self, q: ArrayLike) -> NDArray[np.float64]:
        """Position of the tip in the arm's base frame [m], shape (..., 3), at joints ``q`` (..., 6), LeRobot units."""
        q = np.asarray(q, dtype=np.float64)
        flat = np.array([self._tip_of(q_to_rad(pose)) for pose in q.reshape(-1, N)])
        return flat.reshape(*q.shape[:-1], 3)

    def solve(self, target_m: ArrayLike, q: ArrayLike, joints: Sequence[int] = (0, 1, 2)) -> NDArray[np.float64] | None:
        """Joints that bring the tip to ``target_m``, by damped least squares (Wampler, IEEE Trans. SMC 16(1), 1986).

        Args:
            target_m: Where the tip should be, in the frame of the arm's base [m]. Shape (3,).
            q: Where to start from, LeRobot units; joints not in ``joints`` stay as they are here. Shape (6,).
            joints: Indices of the joints that may move.

        Returns:
            LeRobot units, shape (6,), within the model's ranges and 0.1 mm of the target; None if there is no such pose
            near the start.
        """
        import mujoco

        target = np.asarray(target_m, dtype=np.float64)
        rad = q_to_rad(q)
        free = list(joints)
        low, high = MODEL_RANGE_RAD[free].T
        jacobian = np.zeros((3, self._model.nv))
        for _ in range(MAX_ITERATIONS):
            error = target - self._tip_of(rad)
            if np.linalg.norm(error) < TOLERANCE_M:
                return rad_to_q(rad)
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, jacobian, None, self._site)
            j = jacobian[:, free]
            step = j.T @ np.linalg.solve(j @ j.T + DAMPING**2 * np.eye(3), error)
            step *= min(1.0, MAX_STEP_RAD / max(float(np.abs(step).max()), 1e-12))
            rad[free] = np.clip(rad[free] + step, low, high)
        return None

    def _tip_of(self, rad: NDArray[np.float64]) -> NDArray[np.float64]:
        import mujoco

        self._data.qpos[:] = rad
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.site_xpos[self._site].copy()
