"""Images of the simulated cameras: one OpenGL context for all of them, and nothing drawn that isn't seen.

Against ``mujoco.Renderer`` with its defaults: no shadow maps, no reflections, no multisampling, no collision
geometries, buffers made once. What is left is the rasterizer's own time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rig import CameraConfig
from . import gl
from .model import VISUAL_GROUP, view_of

if TYPE_CHECKING:
    import mujoco

__all__ = ["SceneRenderer"]

MAX_GEOMS = 100
"""Room for the geometries of a scene: 25 with the original meshes."""

SHOWN_GROUPS = (0, VISUAL_GROUP)
"""The room's geometries and the arm's visible ones."""


class SceneRenderer:
    """Draws the views of a rig's cameras. Belongs to the thread that made it.

    Args:
        model: From :func:`so101walk.scene.model.load_model` with the same cameras.
        cameras: A rig's cameras by name.

    Raises:
        HardwareError: OpenGL can't be had; the message names the package to install.
    """

    def __init__(self, model: "mujoco.MjModel", cameras: Mapping[str, CameraConfig]) -> None:
        import mujoco

        self._mujoco = mujoco
        self._model = model
        self._gl = gl.open_context(self)
        self._context: Any = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
        self._scene = mujoco.MjvScene(model, maxgeom=MAX_GEOMS)
        self._scene.flags[:] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_CULL_FACE] = 1
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = [g in SHOWN_GROUPS for g in range(len(self._option.geomgroup))]
        self._option.sitegroup[:] = 0
        self._views = {name: self._view(name, camera) for name, camera in cameras.items()}

    def _view(self, name: str, camera: CameraConfig) -> tuple[Any, Any, NDArray[np.uint8]]:
        mujoco = self._mujoco
        eye = mujoco.MjvCamera()
        eye.type = mujoco.mjtCamera.mjCAMERA_FIXED
        eye.fixedcamid = self._model.camera(view_of(name, camera)).id
        rect = mujoco.MjrRect(0, 0, camera.width, camera.height)
        return eye, rect, np.empty((camera.height, camera.width, 3), dtype=np.uint8)

    def render(self, data: "mujoco.MjData", name: str) -> NDArray[np.uint8]:
        """The image of camera ``name`` for the positions in ``data`` (kinematics and camera poses computed).

        Returns:
            A new read-only array, shape (H, W, 3), uint8, top row first.

        Raises:
            RuntimeError: The renderer is closed.
        """
        if self._context is None:
            raise RuntimeError("render after close")
        mujoco = self._mujoco
        eye, rect, upside_down = self._views[name]
        # Another renderer may have drawn last, in this context or in one of its own.
        self._gl.make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, eye, mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
        )
        mujoco.mjr_render(rect, self._scene, self._context)
        mujoco.mjr_readPixels(upside_down, None, rect, self._context)
        image = np.ascontiguousarray(upside_down[::-1])
        image.setflags(write=False)
        return image

    def close(self) -> None:
        """Free the OpenGL objects; safe to call more than once."""
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._context = None
