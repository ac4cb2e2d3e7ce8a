"""The simulated cameras: views of the MuJoCo world, taken when the virtual clock passes their due times."""

from ..arms.simulated import SimulatedArm
from ..rig import Rig
from ..scene.world import World
from .camera import Image

__all__ = ["SimulatedCamera", "make_simulated"]


class SimulatedCamera:
    """One view of a simulated world. It costs nothing while it isn't started.

    Args:
        world: What it looks at.
        name: Its name in the world's rig.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.width = world.rig.cameras[name].width
        self.height = world.rig.cameras[name].height

    def start(self) -> None:
        """Begin to capture: an image now, the next ones each ``1 / fps`` later.

        Raises:
            HardwareError: OpenGL can't be had; the message names the package to install.
        """
        self._world.start_capture(self.name)

    def drain(self) -> list[Image]:
        """The images captured since the last call, oldest first."""
        return self._world.drain(self.name)

    def stop(self) -> None:
        """Stop capturing and forget what was not drained. Safe to call more than once."""
        self._world.stop_capture(self.name)

    def close(self) -> None:
        """As :meth:`stop`; the world's renderer goes with the arm."""
        self.stop()


def make_simulated(rig: Rig, full_meshes: bool = False) -> tuple[SimulatedArm, dict[str, SimulatedCamera]]:
    """The arm and the cameras of a rig in one simulated world, on one virtual clock.

    Args:
        rig: A simulated rig, or the :meth:`~so101walk.rig.Rig.twin` of a real one.
        full_meshes: Draw the original meshes instead of the decimated ones.

    Raises:
        HardwareError: The model's files are missing.
        ConfigError: The rig asks for what can't be simulated.
    """
    world = World(rig, full_meshes)
    return SimulatedArm(world), {name: SimulatedCamera(world, name) for name in rig.cameras}
