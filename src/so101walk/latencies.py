"""How late the streams of a rig are: measured by ``so101walk calibrate latency``, kept in ``calibration/``."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from .config import find_file, load, require
from .errors import ConfigError, nearest
from .rig import Rig

__all__ = ["Latencies", "load_latencies", "write_latencies"]

LONGEST_MS = 1000.0


@dataclass(frozen=True)
class Latencies:
    """Latencies of one rig.

    Args:
        name: Of the file.
        camera_ms: From capture to stamp, by camera. One that isn't named counts as 0.
        camera_interval_ms: Half width of the 95 % confidence interval of each.
        bus_ms: From a position's measurement in the servo to the middle of the read that brings it.
        measured: When, as a date.
    """

    name: str
    camera_ms: dict[str, float] = field(default_factory=dict)
    camera_interval_ms: dict[str, float] = field(default_factory=dict)
    bus_ms: float = 0.0
    measured: str = ""

    def __post_init__(self) -> None:
        for what, value in [*self.camera_ms.items(), ("bus_ms", self.bus_ms)]:
            require(
                math.isfinite(value) and abs(value) <= LONGEST_MS,
                f"{what} is {value}; it must be within {LONGEST_MS:g} ms of 0",
            )

    @property
    def camera_ns(self) -> dict[str, int]:
        """Each camera's latency [ns]."""
        return {name: round(ms * 1e6) for name, ms in self.camera_ms.items()}

    @property
    def bus_ns(self) -> int:
        """The bus's latency [ns]."""
        return round(self.bus_ms * 1e6)


def load_latencies(rig: Rig) -> Latencies:
    """The latencies that a rig names; all zero where it names none.

    Raises:
        UsageError: The file doesn't exist.
        ConfigError: It states something that can't be, or a camera that the rig doesn't have.
    """
    if not rig.latency:
        return Latencies("none")
    path = find_file("calibration", rig.latency)
    latencies = load(Latencies, path)
    for camera in latencies.camera_ms:
        if camera not in rig.cameras:
            raise ConfigError(f"{path}: camera_ms: the rig has no camera {camera!r}; {nearest(camera, rig.cameras)}")
    return latencies


def write_latencies(path: Path, latencies: Latencies) -> None:
    """Write a file that :func:`load_latencies` reads, in one step."""

    def table(title: str, values: dict[str, float]) -> list[str]:
        return ["", f"[{title}]", *(f"{name} = {value:.2f}" for name, value in values.items())]

    lines = [
        "# Latencies of a rig, measured by so101walk calibrate latency. From capture to stamp, in milliseconds.",
        f'name = "{latencies.name}"',
        f'measured = "{latencies.measured}"',
        f"bus_ms = {latencies.bus_ms:.2f}",
        *table("camera_ms", latencies.camera_ms),
        *table("camera_interval_ms", latencies.camera_interval_ms),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.replace(path)
