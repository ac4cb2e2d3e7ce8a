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

__all__ = ["ArmConfig", "CameraConfig", "LimitsConfig", "Rig", "SafetyConfig", "load_rig"]

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
    """Which arm, and how its loop runs.

    Args:
        type: ``simulated``, or ``so101_follower`` as LeRobot calls the real one.
        control_hz: Reads and setpoints a second.
        physics_hz: Simulated only: a multiple of 30 fps and of 100 Hz, near the model's own 5 ms step.
        port: Real only: the serial port of the arm's bus, best by its name in ``/dev/serial/by-id``.
        id: Real only: LeRobot's id of the arm; its calibration is ``<id>.json``.
        calibration_dir: Where that file lies. Empty: ``calibration/`` here, what ships with so101walk, then LeRobot's
            own folder.
        max_step_deg: Real only: farthest that a goal may be from the one before it. A path within the speed limits
            never comes near it; it is for what went wrong.
        reply_ms: Real only: a reply that takes longer than this is lost. Told: 1 ms, 2 at worst; LeRobot waits for 50,
            in which a dataset at 30 fps loses two frames' readings to one lost reply.
        rest: Real only: the pose in which the arm is let go, LeRobot units. Empty: folded over its base.
    """

    type: Literal["simulated", "so101_follower"] = "simulated"
    control_hz: float = 100.0
    physics_hz: float = 300.0
    port: str = ""
    id: str = ""
    calibration_dir: str = ""
    max_step_deg: float = 5.0
    rest: tuple[float, ...] = ()
    reply_ms: float = 25.0

    def __post_init__(self) -> None:
        require(10 <= self.control_hz <= 250, f"control_hz is {self.control_hz}; it must be 10 to 250")
        require(
            self.physics_hz >= 2 * self.control_hz and self.physics_hz <= 2000,
            f"physics_hz is {self.physics_hz}; it must be at least twice control_hz and at most 2000",
        )
        require(
            math.isfinite(self.max_step_deg) and self.max_step_deg > 0,
            f"max_step_deg is {self.max_step_deg}; it must be a finite number above 0",
        )
        require(2 <= self.reply_ms <= 500, f"reply_ms is {self.reply_ms}; it must be 2 to 500")
        require(
            not self.rest or (len(self.rest) == len(JOINTS) and all(math.isfinite(q) for q in self.rest)),
            f"rest is {list(self.rest)}; it must be six finite numbers, one for each joint",
        )

    def max_step(self) -> NDArray[np.float64]:
        """The farthest step of a goal in LeRobot units, of each joint. Shape (6,)."""
        return _per_joint(self.max_step_deg)


@dataclass(frozen=True)
class SafetyConfig:
    """What ends an episode on a real arm. Each threshold that has a duration must be passed for that long.

    Args:
        tracking_deg: Farthest that a joint may be from its goal: the arm pushes against something. The servo's own lag
            (about 80 ms, 10 deg at full speed) and sag (told: 2.6 deg) are within it.
        tracking_s: For how long.
        current_ma: Current of one servo, of about 2400 when it stalls at 7.4 V.
        current_s: For how long.
        hot_c: Temperature at which an episode ends to let the arm cool down; a servo cuts out at 70.
        cool_c: Temperature below which it goes on.
        bad_ticks: Consecutive ticks of the loop with a joint that can't be read.
        stall_s: The loop itself stood still: the arm has held its last goal, and doesn't rush after the path.
        camera_silence_s: No image of a camera for so long.
        frozen_images: Images in a row with the same bytes: the camera repeats itself.
        max_minutes: A session ends tidily after this long; 0 for no limit.
        work_minutes: Duty cycle: after so long at work the arm is brought to rest...
        rest_minutes: ...for so long. 0 for no breaks.
    """

    tracking_deg: float = 20.0
    tracking_s: float = 0.5
    current_ma: float = 1500.0
    current_s: float = 1.0
    hot_c: float = 60.0
    cool_c: float = 50.0
    bad_ticks: int = 10
    stall_s: float = 0.25
    camera_silence_s: float = 1.0
    frozen_images: int = 5
    max_minutes: float = 0.0
    work_minutes: float = 20.0
    rest_minutes: float = 0.0

    def __post_init__(self) -> None:
        allowed_zero = ("tracking_s", "current_s", "max_minutes", "rest_minutes")
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            zero_ok = f.name in allowed_zero
            require(
                math.isfinite(value) and (value > 0 or (zero_ok and value == 0)),
                f"{f.name} is {value}; it must be a finite number {'of 0 or more' if zero_ok else 'above 0'}",
            )
        require(self.cool_c < self.hot_c, f"cool_c is {self.cool_c}; it must be below hot_c, {self.hot_c}")

    def tracking(self) -> NDArray[np.float64]:
        """The tracking threshold in LeRobot units, of each joint. Shape (6,)."""
        return _per_joint(self.tracking_deg)


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
    """An arm and its cameras, as one TOML file in ``collect/`` states them.

    ``latency`` names a file in ``calibration/`` that ``so101walk calibrate latency`` wrote; empty means 0 everywhere.
    """

    name: str
    fps: int = 30
    envelope: str = "so101-tabletop"
    task: str = "Random walk in joint space."
    arm: ArmConfig = field(default_factory=ArmConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    cameras: dict[str, CameraConfig] = field(default_factory=dict)
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    latency: str = ""

    def __post_init__(self) -> None:
        require(1 <= self.fps <= 120, f"fps is {self.fps}; it must be 1 to 120")
        require(bool(self.cameras), "no [cameras.<name>] table; a rig needs at least one camera")
        for name in self.cameras:
            require(name.isidentifier(), f"camera name {name!r} must be letters, digits and underscores")
        simulated = self.arm.type == "simulated"
        for name, camera in self.cameras.items():
            require(
                (camera.type == "simulated") == simulated,
                f"camera {name!r} is {camera.type} but the arm is {self.arm.type}; "
                "a rig is simulated or real as a whole",
            )

    @property
    def simulated(self) -> bool:
        """Whether the arm and its cameras are MuJoCo's."""
        return self.arm.type == "simulated"

    def to_dict(self) -> dict[str, Any]:
        """What defines the rig's data, as plain values for JSON: not where it is plugged in, nor what guards it."""
        values = dataclasses.asdict(self)
        del values["safety"]
        unused: tuple[str, ...] = ("port", "calibration_dir", "physics_hz", "reply_ms")
        if self.simulated:
            unused = ("port", "calibration_dir", "id", "max_step_deg", "rest", "reply_ms")
            del values["latency"]
        for name in unused:
            del values["arm"][name]
        if not self.simulated:
            for camera in values["cameras"].values():
                del camera["options"]
        return values

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
