"""Pictures of the emulated arm: the simulated rig's scene, drawn for any pose."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..joints import JOINTS
from ..rig import CameraConfig

__all__ = ["Pictures", "views_of"]


def views_of(names: Sequence[str]) -> dict[str, str]:
    """The view of each camera: of its own name where there is one, else ``front`` for the first, else ``wrist``."""
    known = ("front", "wrist")
    return {name: name if name in known else known[min(i, 1)] for i, name in enumerate(names)}


class Pictures:
    """Draws any pose from any of the cameras. Belongs to the thread that made it.

    Args:
        names: The cameras.
        width: Image width [px].
        height: Image height [px].

    Raises:
        HardwareError: OpenGL can't be had; the message names the package to install.
    """

    def __init__(self, names: Sequence[str], width: int, height: int) -> None:
        from ..scene import gl

        gl.prepare()
        import mujoco

        from ..scene.model import load_model
        from ..scene.render import SceneRenderer

        views = views_of(names)
        cameras = {n: CameraConfig(width=width, height=height, view=v) for n, v in views.items()}  # type: ignore[arg-type]
        self._mujoco = mujoco
        self._model = load_model(cameras)
        self._data = mujoco.MjData(self._model)
        self._qpos = [int(self._model.joint(name).qposadr[0]) for name in JOINTS]
        self._renderer = SceneRenderer(self._model, cameras)

    def of(self, name: str, rad: ArrayLike) -> NDArray[np.uint8]:
        """The image of camera ``name`` for joint angles [rad] of shape (6,): (H, W, 3), to be drawn into."""
        self._data.qpos[self._qpos] = rad
        self._mujoco.mj_kinematics(self._model, self._data)
        self._mujoco.mj_comPos(self._model, self._data)
        self._mujoco.mj_camlight(self._model, self._data)
        return self._renderer.render(self._data, name).copy()
