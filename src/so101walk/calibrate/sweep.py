"""Ranges of motion from positions that were read while somebody moved the arm, seam or no seam. Pure.

An encoder counts 0 to 4095 and begins again. A joint that is swept across that seam seems to have gone through the
whole turn, which LeRobot's calibration then records. Followed from reading to reading, it can be told.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import HardwareError
from ..joints import JOINTS, MODEL_RANGE_RAD, TICKS_PER_TURN

__all__ = ["MIDDLE", "NARROWEST", "WIDEST", "Ranges", "Sweep", "settle"]

MIDDLE = TICKS_PER_TURN // 2 - 1
"""Where LeRobot's calibration puts the middle (half of 4095, cut)."""

LARGEST_OFFSET = 2047
"""What the servo's homing register holds, either way."""

NARROWEST, WIDEST = 0.6, 1.25
"""A joint's swept range in the model's: less is a sweep that was cut short, more one that went astray."""

FULL_TURN = "wrist_roll"
"""LeRobot's calibration gives this joint the whole turn; so do we, unless it was swept."""

_USUAL: NDArray[np.float64] = np.ptp(MODEL_RANGE_RAD, axis=1) * TICKS_PER_TURN / (2 * np.pi)


class Sweep:
    """Follows six joints from reading to reading; each must turn less than half a turn in between.

    Args:
        ticks: The first reading, shape (6,).
    """

    def __init__(self, ticks: ArrayLike) -> None:
        self._last = np.array(ticks, dtype=np.int64)
        self._unwrapped = self._last.copy()
        self.low, self.high = self._last.copy(), self._last.copy()

    def add(self, ticks: ArrayLike) -> None:
        """Take the next reading, shape (6,)."""
        now = np.array(ticks, dtype=np.int64)
        half = TICKS_PER_TURN // 2
        self._unwrapped += (now - self._last + half) % TICKS_PER_TURN - half
        self._last = now
        self.low = np.minimum(self.low, self._unwrapped)
        self.high = np.maximum(self.high, self._unwrapped)

    @property
    def shares(self) -> NDArray[np.float64]:
        """How much of the model's range each joint has been swept through. Shape (6,)."""
        return (self.high - self.low) / _USUAL


@dataclass(frozen=True)
class Ranges:
    """A calibration: homing offset and range of each joint, in ticks as LeRobot stores them."""

    homing_offset: tuple[int, ...]
    range_min: tuple[int, ...]
    range_max: tuple[int, ...]


def settle(homing_offset: ArrayLike, sweep: Sweep) -> Ranges:
    """The calibration that a sweep gives.

    A joint whose sweep crossed the seam gets another homing offset, which puts the middle of its range in the middle of
    the turn; the others keep theirs.

    Args:
        homing_offset: What the servos had during the sweep, shape (6,).
        sweep: All readings.

    Raises:
        HardwareError: A joint was not swept, or through more than it has; each is named.
    """
    offset = np.array(homing_offset, dtype=np.int64)
    low, high = sweep.low.copy(), sweep.high.copy()
    wrong = []
    for i, joint in enumerate(JOINTS):
        share = float(sweep.shares[i])
        if joint == FULL_TURN and share < NARROWEST:
            low[i], high[i] = 0, TICKS_PER_TURN - 1
        elif share < NARROWEST:
            wrong.append(
                f"{joint} was moved through {high[i] - low[i]} of about {_USUAL[i]:.0f} ticks: move it to both ends"
            )
        elif share > WIDEST:
            wrong.append(
                f"{joint} seems to span {high[i] - low[i]} ticks, usual are {_USUAL[i]:.0f}: move it more slowly"
            )
        elif low[i] < 0 or high[i] >= TICKS_PER_TURN:
            shift = int((low[i] + high[i]) // 2 - MIDDLE)
            offset[i] = _wrapped(int(offset[i]) + shift)
            low[i] -= shift
            high[i] -= shift
    if wrong:
        raise HardwareError("; ".join(wrong) + ". Nothing was changed but the homing offsets; do it again")
    return Ranges(*(tuple(int(v) for v in array) for array in (offset, low, high)))


def _wrapped(offset: int) -> int:
    """The same offset a whole turn on, where the register holds it."""
    half = TICKS_PER_TURN // 2
    wrapped = (offset + half) % TICKS_PER_TURN - half
    return max(wrapped, -LARGEST_OFFSET)
