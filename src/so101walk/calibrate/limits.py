"""The joint limits that an envelope is looked for within."""

import math

import numpy as np
from numpy.typing import NDArray

from ..config import require
from ..joints import GRIPPER, JOINTS, MODEL_RANGE_RAD, TickScale, rad_to_q

__all__ = ["GRIPPER_MARGIN_PERCENT", "LIMIT_MARGIN_DEG", "joint_limits"]

LIMIT_MARGIN_DEG = 5.0
"""Kept from either end of a joint's range: twice the 2.6 degrees that an arm is told to sag under load."""

GRIPPER_MARGIN_PERCENT = 5.0
"""Kept from either end of the gripper: closed on itself it would press, and a pressing gripper burns out."""

ROUNDING = 0.02
"""In hundredths of a unit: the model's radians are roundings of whole degrees, so 104.99988 is meant to be 105."""


def joint_limits(margin_deg: float = LIMIT_MARGIN_DEG, measured: TickScale | None = None) -> NDArray[np.float64]:
    """The joint ranges less a margin at both ends, in LeRobot units, rounded inwards to 0.01. Shape (6, 2).

    Args:
        margin_deg: Kept from either end; the gripper keeps :data:`GRIPPER_MARGIN_PERCENT`.
        measured: An arm's own calibration. A joint then has what lies in both its ranges, the model's and the measured
            one: clearances are known for the model's alone, and an arm may have a stop of its own, as some wrist rolls
            do. The gripper's 0 to 100 are the measured ends already.

    Raises:
        ConfigError: The margin is negative or leaves nothing of a joint.
    """
    require(
        math.isfinite(margin_deg) and 0.0 <= margin_deg <= 45.0,
        f"the margin from joint limits is {margin_deg:g} deg; it must be 0 to 45",
    )
    margin = np.full(len(JOINTS), margin_deg)
    margin[GRIPPER] = GRIPPER_MARGIN_PERCENT
    low, high = rad_to_q(MODEL_RANGE_RAD.T)
    if measured is not None:
        low = np.maximum(low, measured.to_units(measured.range_min))
        high = np.minimum(high, measured.to_units(measured.range_max))
    lower = np.ceil(100.0 * (low + margin) - ROUNDING) / 100.0
    upper = np.floor(100.0 * (high - margin) + ROUNDING) / 100.0
    for joint, least, most in zip(JOINTS, lower, upper, strict=True):
        require(
            least < most,
            f"{joint}: a margin of {margin_deg:g} deg leaves nothing of its range; calibrate the arm again",
        )
    return np.stack([lower, upper], axis=1)
