"""A real rig, from a closed port to an arm that may move, and back to a limp one at rest, whatever happens between."""

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .arms.follower import Follower
from .cameras.lerobot import LerobotCamera
from .doctor import examine_arm, examine_cameras, refuse
from .envelope import Envelope
from .latencies import Latencies, load_latencies
from .rig import Rig
from .safety.way import WayHome

__all__ = ["RealRig", "calibration_digest", "open_real"]


@dataclass(frozen=True)
class RealRig:
    """An arm that has been found fit, and its cameras.

    Attributes:
        arm: Connected and limp; ``prepare`` switches torque on.
        cameras: Open, by name.
        way: Ways to the envelope's center and to rest.
        latencies: Measured ones, or zeros.
    """

    arm: Follower
    cameras: dict[str, LerobotCamera]
    way: WayHome
    latencies: Latencies


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


@contextlib.contextmanager
def open_real(
    rig: Rig,
    envelope: Envelope,
    *,
    faults: Path | None = None,
    say: Callable[[str], None] = _to_stderr,
    with_cameras: bool = True,
) -> Iterator[RealRig]:
    """Open, examine and connect a real rig; on the way out the arm is brought to rest and let go, always.

    Args:
        rig: A real one.
        envelope: Where it may move.
        faults: Folder for the black box's files.
        say: Told what the user should hear at once.
        with_cameras: Leave the cameras closed where False.

    Raises:
        HardwareError: Something is not fit to move; the port is closed again, torque was never switched on.
        UsageError: The rig names latencies that don't exist.
    """
    latencies = load_latencies(rig)
    cameras: dict[str, LerobotCamera] = {}
    arm = Follower(rig, faults=faults, say=say)
    way = WayHome(envelope, arm.rest_q)
    arm.way = way.to_rest
    try:
        arm.open()
        refuse(examine_arm(arm.wire, rig, way))
        if with_cameras:
            for name, config in rig.cameras.items():
                cameras[name] = LerobotCamera(name, config, rig.safety.camera_silence_s)
            refuse(examine_cameras(cameras, rig))
            if not rig.latency:
                say("camera latencies are not measured and count as zero; so101walk calibrate latency measures them")
        arm.connect()
        yield RealRig(arm, cameras, way, latencies)
    finally:
        try:
            arm.close()
        finally:
            for camera in cameras.values():
                camera.close()


def calibration_digest(rig: Rig) -> str:
    """SHA-256 of the arm's calibration file, as hex: what a resume must agree with.

    Raises:
        HardwareError: There is no such file.
    """
    from .arms.servos import calibration_file

    return hashlib.sha256(calibration_file(rig.arm).read_bytes()).hexdigest()
