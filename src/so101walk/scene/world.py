"""The simulated world: physics, cameras and a virtual clock that moves them both.

Whoever waits on the clock makes time pass: the physics steps, and each camera that is capturing takes its image at the
step nearest to its due time. Nothing sleeps and nothing depends on the machine's speed, so what happens from a
:meth:`World.reset` on is a function of the pose and of what is commanded.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cameras.camera import Image
from ..clock import VirtualClock
from ..errors import ConfigError
from ..joints import N, q_to_rad, rad_to_q
from ..rig import Rig
from .model import load_model
from .render import SceneRenderer

__all__ = ["World"]

SETTLE_S = 0.5
"""After a reset the physics runs this long before time 0, so that the arm sags into its servos' hold: from a free pose
it is there to 2e-5 deg after 0.25 s (measured in four poses)."""


@dataclass
class _Stream:
    fps: float
    capturing: bool = False
    start_step: int = 0
    next_index: int = 0
    images: list[Image] = field(default_factory=list)


class _WorldClock(VirtualClock):
    def restart(self) -> None:
        self._now_ns = 0


class World:
    """A rig in MuJoCo.

    Args:
        rig: A simulated rig (a real one's :meth:`Rig.twin`).
        full_meshes: Draw the original meshes instead of the decimated ones.

    Attributes:
        rig: The rig.
        clock: Its virtual clock; it starts at 0 and starts again at each :meth:`reset`.
        model: The MuJoCo model.
        data: Its state.

    Raises:
        ConfigError: A camera is faster than the physics, or has no view.
    """

    def __init__(self, rig: Rig, full_meshes: bool = False) -> None:
        physics_hz = rig.arm.physics_hz
        for name, camera in rig.cameras.items():
            if camera.fps > physics_hz:
                raise ConfigError(
                    f"camera {name!r} takes {camera.fps:g} images a second and the physics {physics_hz:g} steps; "
                    f"raise physics_hz to at least {camera.fps:g}"
                )
        self.rig = rig
        self.model = load_model(rig.cameras, full_meshes=full_meshes, physics_hz=physics_hz)
        import mujoco

        self._mujoco = mujoco
        self.data = mujoco.MjData(self.model)
        self.clock: VirtualClock = _WorldClock(self._advance)
        self._physics_hz = physics_hz
        self._step = 0
        self._streams = {name: _Stream(camera.fps) for name, camera in rig.cameras.items()}
        self._renderer: SceneRenderer | None = None
        self.reset(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0]))

    def reset(self, q: ArrayLike) -> None:
        """Start anew: the arm at rest holding ``q`` (6,) [LeRobot units], time 0, no images, no camera capturing."""
        mujoco, data = self._mujoco, self.data
        mujoco.mj_resetData(self.model, data)
        self.torque(True)
        data.qpos[:N] = data.ctrl[:N] = q_to_rad(q)
        mujoco.mj_step(self.model, data, nstep=round(SETTLE_S * self._physics_hz))
        data.time = 0.0
        self._step = 0
        for stream in self._streams.values():
            stream.capturing = False
            stream.images.clear()
        assert isinstance(self.clock, _WorldClock)
        self.clock.restart()

    def command(self, q: ArrayLike) -> None:
        """Set the servos' goal to ``q`` (6,) [LeRobot units] from the present moment on."""
        self.data.ctrl[:N] = q_to_rad(q)

    def torque(self, on: bool) -> None:
        """Let the servos hold their goal, or let go."""
        self.model.opt.disableactuator = 0 if on else 1  # a bit a group; all actuators are in group 0

    def joints(self) -> NDArray[np.float64]:
        """The joints as they are, exactly, in LeRobot units. Shape (6,)."""
        return rad_to_q(self.data.qpos[:N])

    def load(self) -> NDArray[np.float64]:
        """Torque of each servo at the last physics step, percent of the most it can give, signed. Shape (6,)."""
        return 100.0 * self.data.actuator_force[:N] / self.model.actuator_forcerange[:N, 1]

    def start_capture(self, name: str) -> None:
        """Let camera ``name`` take images from now on, due ``k / fps`` after now, the first one at once.

        Raises:
            HardwareError: OpenGL can't be had; the message names the package to install.
        """
        if self._renderer is None:
            self._renderer = SceneRenderer(self.model, self.rig.cameras)
        stream = self._streams[name]
        if stream.capturing:
            return
        stream.capturing = True
        stream.start_step = self._step
        stream.next_index = 0
        self._capture_due()

    def stop_capture(self, name: str) -> None:
        """Take no more images with camera ``name`` and forget those not drained."""
        self._streams[name].capturing = False
        self._streams[name].images.clear()

    def drain(self, name: str) -> list[Image]:
        """Images of camera ``name`` since the last call, oldest first."""
        stream = self._streams[name]
        images, stream.images = stream.images, []
        return images

    def close(self) -> None:
        """Give back the renderer; the physics lives on. Safe to call more than once."""
        for stream in self._streams.values():
            stream.capturing = False
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _advance(self, t_ns: int) -> None:
        target = _nearest_step(t_ns * self._physics_hz / 1e9)
        while self._step < target:
            due = [self._due_step(s) for s in self._streams.values() if s.capturing]
            stop = min([target, *due])
            self._mujoco.mj_step(self.model, self.data, nstep=stop - self._step)
            self._step = stop
            self._capture_due()

    def _capture_due(self) -> None:
        due = [(n, s) for n, s in self._streams.items() if s.capturing and self._due_step(s) == self._step]
        if not due:
            return
        assert self._renderer is not None
        self._mujoco.mj_kinematics(self.model, self.data)  # mj_step leaves poses of before its last move
        self._mujoco.mj_camlight(self.model, self.data)
        t_ns = round(self._step * 1e9 / self._physics_hz)
        for name, stream in due:
            stream.images.append(Image(t_ns, self._renderer.render(self.data, name)))
            stream.next_index += 1

    def _due_step(self, stream: _Stream) -> int:
        return stream.start_step + _nearest_step(stream.next_index * self._physics_hz / stream.fps)


def _nearest_step(steps: float) -> int:
    return int(steps + 0.5)
