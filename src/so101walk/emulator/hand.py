"""A hand that moves a limp arm: what a person does with a leader, or while calibrating. Pure functions of time."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError, nearest
from ..joints import MODEL_RANGE_RAD

__all__ = ["GESTURES", "SWEEP_S", "Gesture", "Hand"]

Gesture = Literal["still", "sway", "sweep"]
GESTURES: tuple[Gesture, ...] = ("still", "sway", "sweep")

SWAY_RAD = math.radians(15.0)
SWAY_S: tuple[float, ...] = (5.0, 6.1, 7.3, 4.3, 3.7, 8.9)
"""A sway of 15 deg each way; periods that don't divide one another, so no two joints move alike. Fastest: 25 deg/s."""

SWEEP_S = 2.0
"""Time for one joint's sweep: middle, lower end, upper end, middle."""

_MIDDLE = MODEL_RANGE_RAD.mean(axis=1)
_HALF = np.diff(MODEL_RANGE_RAD, axis=1)[:, 0] / 2


class Hand:
    """One gesture, begun at ``t = 0``.

    * ``still`` holds the pose.
    * ``sway`` moves every joint about the pose, smoothly, for ever.
    * ``sweep`` takes each joint in turn from the middle through its whole range and back, then holds the middle.

    Args:
        gesture: Which.
        pose_rad: Where ``still`` and ``sway`` are: the model's joint angles [rad], shape (6,). Default: mid-range.

    Raises:
        UsageError: There is no such gesture.
    """

    def __init__(self, gesture: str, pose_rad: ArrayLike | None = None) -> None:
        if gesture not in GESTURES:
            raise UsageError(f"unknown gesture {gesture!r}; {nearest(gesture, GESTURES)}")
        self.gesture = gesture
        self._pose = _MIDDLE.copy() if pose_rad is None else np.array(pose_rad, np.float64)

    def at(self, t_s: float) -> NDArray[np.float64]:
        """Joint angles [rad] at ``t_s`` seconds, shape (6,). Always within the model's ranges."""
        if self.gesture == "sway":
            # sin^2 growth over the first second, so that the motion starts from rest
            grown = math.sin(min(t_s, 1.0) * math.pi / 2) ** 2
            swing = SWAY_RAD * grown * np.sin(2 * np.pi * t_s / np.array(SWAY_S))
            return np.clip(self._pose + swing, MODEL_RANGE_RAD[:, 0], MODEL_RANGE_RAD[:, 1])
        if self.gesture == "sweep":
            rad = _MIDDLE.copy()
            joint, phase = divmod(t_s / SWEEP_S, 1.0)
            if joint < len(rad):
                rad[int(joint)] -= _HALF[int(joint)] * math.sin(2 * math.pi * phase)
            return rad
        return self._pose.copy()
