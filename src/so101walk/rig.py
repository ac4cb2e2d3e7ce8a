"""A rig: which arm, which cameras, at which rates, within which limits. Read from a TOML file in ``collect/``."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .config import find_file, load, require
from .joints import GRIPPER, JOINTS, MODEL_RANGE_RAD

__all__ = ["ArmConfig", "CameraConfig", "LimitsConfig", "Rig", "load_rig"]

GRIPPER_PERCENT_PER_DEG = 100.0 / math.degrees(MODEL_RANGE_RAD[GRIPPER, 1] - MODEL_RANGE_RAD[GRIPPER, 0])
"""The gripper's 0-100 covers the model's 110 degrees, so a limit in deg/s times this is one in %/s."""


@dataclass(frozen=True)
class LimitsConfig:
    """Speed limits of setpoints, one number for every joint (the gripper's are the same angle, told in percent).

    The defaults are a third of an STS3215's no-load speed at 7.4 V (about 50 rpm = 300 deg/s) with room to accelerate.
    """

    velocity_deg_s: float = 120.0
    acceleration_deg_s2: float = 600.0

    def __post_init__(self) -> None:
        for name in ("velocity_deg_s", "acceleration_deg_s2"):
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, f"{name} is {value}; it must be a finite number above 0")

    def velocity(self) -> NDArray[np.float64]:
        """Velocity limit of each joint in LeRobot units a second. Shape (6,)."""
        return _per_joint(self.velocity_deg_s)

    def acceleration(self) -> NDArray[np.float64]:
        """Acceleration limit of each joint in LeRobot units a second squared. Shape (6,)."""
        return _per_joint(self.acceleration_deg_s2)


def _per_joint(limit_deg: float) -> NDArray[np.float64]:
    limits = np.full(len(JOINTS), limit_deg)
    limits[GRIPPER] *= GRIPPER_PERCENT_PER_DEG
    return limits


@dataclass(frozen=True)
class ArmConfig:
    """Which arm, and how its loop runs."""

    type: Literal["simulated", "so101_follower"] = "simulated"
    control_hz: float = 100.0
    physics_hz: float = 300.0  # simulated only: a multiple of 30 fps and of 100 Hz, near the model's own 5 ms step

    def __post_init__(self) -> None:
        require(10 <= self.control_hz <= 250, f"control_hz is {self.control_hz}; it must be 10 to 250")
        require(
            self.physics_hz >= 2 * self.control_hz and self.physics_hz <= 2000,
            f"physics_hz is {self.physics_hz}; it must be at least twice control_hz and at most 2000",
        )


@dataclass(frozen=True)
class CameraConfig:
    """One camera. ``type`` is ``simulated`` or the name of a LeRobot camera, with its ``options`` passed through.

    ``view`` says which simulated view stands in for it in a dry run.
    """

    type: str = "simulated"
    width: int = 224
    height: int = 224
    fps: float = 30.0
    view: Literal["front", "wrist"] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            value = getattr(self, name)
            require(16 <= value <= 4096 and value % 2 == 0, f"{name} is {value}; it must be even, 16 to 4096 px")
        require(1 <= self.fps <= 240, f"fps is {self.fps}; it must be 1 to 240")


@dataclass(frozen=True)
class Rig:
    """An arm and its cameras, as one TOML file in ``collect/`` states them."""

    name: str
    fps: int = 30
    envelope: str = "so101-tabletop"
    task: str = "Random walk in joint space."
    arm: ArmConfig = field(default_factory=ArmConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    cameras: dict[str, CameraConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(1 <= self.fps <= 120, f"fps is {self.fps}; it must be 1 to 120")
        require(bool(self.cameras), "no [cameras.<name>] table; a rig needs at least one camera")
        for name in self.cameras:
            require(name.isidentifier(), f"camera name {name!r} must be letters, digits and underscores")
        simulated = self.arm.type == "simulated"
        for name, camera in self.cameras.items():
            require(
                (camera.type == "simulated") == simulated,
                f"camera {name!r} is {camera.type} but the arm is {self.arm.type}; a rig is simulated or real as a whole",
            )

    @property
    def simulated(self) -> bool:
        """Whether the arm and its cameras are MuJoCo's."""
        return self.arm.type == "simulated"

    def to_dict(self) -> dict[str, Any]:
        """What defines the rig, as plain values for JSON."""
        return dataclasses.asdict(self)

    def twin(self) -> "Rig":
        """The simulated twin of this rig: the same rates, limits and camera names, sizes and views, all in MuJoCo."""
        if self.simulated:
            return self
        views: tuple[Literal["front", "wrist"], ...] = ("front", "wrist")
        cameras = {
            name: dataclasses.replace(c, type="simulated", options={}, view=c.view or views[min(i, 1)])
            for i, (name, c) in enumerate(self.cameras.items())
        }
        arm = ArmConfig(control_hz=self.arm.control_hz)
        return dataclasses.replace(self, arm=arm, cameras=cameras)


def load_rig(name_or_path: str | Path) -> Rig:
    """The rig that a name (in ``collect/``) or a path means.

    Raises:
        UsageError: No such rig; the nearest names are offered.
        ConfigError: The file states something that can't be.
    """
    return load(Rig, find_file("collect", name_or_path))
