"""The six joints of the SO-101: names, order, units, ticks. Every number with its source.

Everywhere in so101walk a joint vector ``q`` has shape (6,), in this order and in LeRobot's units: degrees for the first
five (0 is the middle of the calibrated range) and 0 to 100 for the gripper (0 closed, 100 open).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FEATURE_NAMES",
    "GRIPPER",
    "GRIPPER_RANGE_RAD",
    "JOINTS",
    "MODEL_RANGE_RAD",
    "ROBOT_TYPE",
    "TICKS_PER_TURN",
    "UNITS",
    "N",
    "TickScale",
    "q_to_rad",
    "rad_to_q",
]

JOINTS: tuple[str, ...] = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
"""Names in bus order, ids 1 to 6 (LeRobot 0.6.1, ``robots/so_follower/so_follower.py``)."""

N = len(JOINTS)
GRIPPER = 5

UNITS: tuple[str, ...] = ("deg", "deg", "deg", "deg", "deg", "%")

FEATURE_NAMES: tuple[str, ...] = tuple(f"{j}.pos" for j in JOINTS)
"""Names of ``observation.state`` and ``action`` as stock LeRobot writes them for this arm."""

ROBOT_TYPE = "so_follower"
"""``SO101Follower.name`` in LeRobot 0.6.1: what ``lerobot-record`` writes as ``robot_type``."""

TICKS_PER_TURN = 4096
"""STS3215 magnetic encoder, 12 bit (LeRobot 0.6.1, ``motors/feetech/tables.py``)."""

MODEL_RANGE_RAD: NDArray[np.float64] = np.array(
    [
        [-1.91986, 1.91986],
        [-1.7453293, 1.7453293],
        [-1.69, 1.69],
        [-1.658063, 1.658063],
        [-2.7438473, 2.7438473],
        [-0.174533, 1.7453292],
    ]
)
"""Joint ranges of the Menagerie model ``robotstudio_so101`` [rad], shape (6, 2). Tested against the XML."""
MODEL_RANGE_RAD.setflags(write=False)

GRIPPER_RANGE_RAD: tuple[float, float] = (float(MODEL_RANGE_RAD[GRIPPER, 0]), float(MODEL_RANGE_RAD[GRIPPER, 1]))
"""The gripper's row of :data:`MODEL_RANGE_RAD` [rad]: what 0 and 100 mean."""


def q_to_rad(q: ArrayLike) -> NDArray[np.float64]:
    """Joints in LeRobot units to the model's joint angles [rad]. Shape (..., 6) to (..., 6).

    The gripper's 0 to 100 maps linearly on the model's gripper range; the others are degrees.
    """
    q = np.asarray(q, dtype=np.float64)
    rad = np.radians(q)
    low, high = GRIPPER_RANGE_RAD
    rad[..., GRIPPER] = low + q[..., GRIPPER] / 100.0 * (high - low)
    return rad


def rad_to_q(rad: ArrayLike) -> NDArray[np.float64]:
    """The model's joint angles [rad] to LeRobot units; the inverse of :func:`q_to_rad`. Shape (..., 6) to (..., 6)."""
    rad = np.asarray(rad, dtype=np.float64)
    q = np.degrees(rad)
    low, high = GRIPPER_RANGE_RAD
    q[..., GRIPPER] = (rad[..., GRIPPER] - low) / (high - low) * 100.0
    return q


@dataclass(frozen=True)
class TickScale:
    """Ticks to LeRobot units and back, for one calibration: the arithmetic of LeRobot's ``MotorsBus``.

    Args:
        range_min: Lowest calibrated tick of each joint. Shape (6,).
        range_max: Highest calibrated tick of each joint. Shape (6,).
    """

    range_min: tuple[int, ...]
    range_max: tuple[int, ...]
    _low: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _high: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _middle: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        low, high = np.array(self.range_min, float), np.array(self.range_max, float)
        object.__setattr__(self, "_low", low)
        object.__setattr__(self, "_high", high)
        object.__setattr__(self, "_middle", (low + high) / 2.0)

    @classmethod
    def of_model(cls) -> "TickScale":
        """The scale of an arm calibrated exactly to the model's ranges, centred on tick 2047."""
        half = (MODEL_RANGE_RAD[:, 1] - MODEL_RANGE_RAD[:, 0]) / 2.0 * TICKS_PER_TURN / (2 * np.pi)
        return cls(tuple(round(2047 - h) for h in half), tuple(round(2047 + h) for h in half))

    def to_units(self, ticks: ArrayLike) -> NDArray[np.float64]:
        """Ticks to LeRobot units, (..., 6) each, as ``MotorsBus._normalize``: degrees at mid-range, gripper 0-100."""
        t = np.asarray(ticks, dtype=np.float64)
        low, high = self._low[GRIPPER], self._high[GRIPPER]
        q = (t - self._middle) * (360.0 / (TICKS_PER_TURN - 1))
        q[..., GRIPPER] = (np.minimum(np.maximum(t[..., GRIPPER], low), high) - low) / (high - low) * 100.0
        return q

    def to_ticks(self, q: ArrayLike) -> NDArray[np.int64]:
        """LeRobot units (..., 6) to ticks (..., 6), truncated as LeRobot's ``MotorsBus._unnormalize`` does."""
        q = np.asarray(q, dtype=np.float64)
        low, high = self._low[GRIPPER], self._high[GRIPPER]
        t = q * (TICKS_PER_TURN - 1) / 360.0 + self._middle
        t[..., GRIPPER] = np.minimum(np.maximum(q[..., GRIPPER], 0.0), 100.0) / 100.0 * (high - low) + low
        return t.astype(np.int64)
