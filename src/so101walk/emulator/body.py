"""The arm behind the registers: MuJoCo's physics with the servos' torques, or a hand that holds it."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..joints import JOINTS, MODEL_RANGE_RAD
from .hand import Hand
from .motor import DAMPING_NM_S

if TYPE_CHECKING:
    import mujoco

__all__ = ["FOLDED_RAD", "PHYSICS_HZ", "Body"]

PHYSICS_HZ = 1000
"""Steps a second: the servo's own loop runs at about 1 kHz, and so does the log."""

FOLDED_RAD: NDArray[np.float64] = np.radians([0.0, -97.0, 93.0, 70.0, 0.0, -5.0])
"""A folded arm, near where an SO-101 lies when it is limp; :meth:`Body.settle` lets it find its own rest from here."""
FOLDED_RAD.setflags(write=False)


class Body:
    """Six joints that fall, collide and are driven. Angles are the model's [rad], arrays of shape (6,)."""

    def __init__(self) -> None:
        from ..scene.model import load_model

        self.model: mujoco.MjModel = load_model(visuals=False, physics_hz=PHYSICS_HZ)
        self.dt_s = 1.0 / PHYSICS_HZ
        self.hand: Hand | None = None
        self._hand_s = 0.0
        self._take_over_model()
        self.settle(FOLDED_RAD)

    def _take_over_model(self) -> None:
        """Leave the model's position actuators without effect: torques come from the servos. Damping is the servo's."""
        import mujoco

        model = self.model
        model.actuator_gainprm[:] = 0.0
        model.actuator_biasprm[:] = 0.0
        self.data = mujoco.MjData(model)
        joints = [model.joint(name) for name in JOINTS]
        qpos = [int(j.qposadr[0]) for j in joints]
        dofs = [int(j.dofadr[0]) for j in joints]
        model.dof_damping[dofs] = DAMPING_NM_S
        self._qpos = slice(qpos[0], qpos[-1] + 1)
        self._dofs = slice(dofs[0], dofs[-1] + 1)
        self._step = mujoco.mj_step
        self._forward = mujoco.mj_forward

    @property
    def rad(self) -> NDArray[np.float64]:
        """Joint angles now: a view, don't keep it."""
        return self.data.qpos[self._qpos]

    @property
    def rad_s(self) -> NDArray[np.float64]:
        """Joint speeds now: a view, don't keep it."""
        return self.data.qvel[self._dofs]

    def step(self, torque_nm: ArrayLike) -> None:
        """One step of 1/:data:`PHYSICS_HZ` seconds under the servos' torques, or after the hand that holds the arm."""
        if self.hand is not None:
            self._hand_s += self.dt_s
            rad = self.hand.at(self._hand_s)
            self.data.qvel[self._dofs] = (rad - self.rad) / self.dt_s
            self.data.qpos[self._qpos] = rad
            return
        self.data.qfrc_applied[self._dofs] = torque_nm
        self._step(self.model, self.data)

    def take(self, hand: Hand | None) -> None:
        """Let a hand take the arm (its gesture starts now), or let go of it, at rest."""
        self.hand = hand
        self._hand_s = 0.0
        if hand is not None:
            self.data.qpos[self._qpos] = hand.at(0.0)
        self.data.qvel[:] = 0.0

    def place(self, rad: ArrayLike) -> None:
        """Put the arm at these angles, at rest, cut to the model's ranges."""
        self.data.qpos[self._qpos] = np.clip(rad, MODEL_RANGE_RAD[:, 0], MODEL_RANGE_RAD[:, 1])
        self.data.qvel[:] = 0.0
        self.data.qacc_warmstart[:] = 0.0
        self._forward(self.model, self.data)

    def settle(self, rad: ArrayLike, seconds: float = 3.0) -> None:
        """Put the limp arm at these angles and let it come to rest."""
        self.place(rad)
        for _ in range(round(seconds * PHYSICS_HZ)):
            self.step(0.0)
        self.data.qvel[:] = 0.0
