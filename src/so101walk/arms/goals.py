"""From what motion asks to what goes on the wire: six ticks that are always safe to send. Pure."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..joints import N, TickScale

__all__ = ["Goals"]


class Goals:
    """The last goal sent, and the next one from a request.

    A joint that isn't asked for (NaN, infinite) keeps its goal. A goal is at most a step away from the one before, and
    within the calibrated range, where the servo itself would clamp it without a word.

    Args:
        scale: Ticks and LeRobot units of this arm.
        max_step: Farthest step of a goal, LeRobot units, shape (6,), above 0.
    """

    def __init__(self, scale: TickScale, max_step: NDArray[np.float64]) -> None:
        self._scale = scale
        self._low, self._high = np.array(scale.range_min), np.array(scale.range_max)
        self._max_step = max_step
        self.ticks: NDArray[np.int64] = np.zeros(N, np.int64)

    @property
    def sent(self) -> NDArray[np.float64]:
        """The last goal as it went on the wire, decoded from its ticks: LeRobot units, shape (6,)."""
        return self._scale.to_units(self.ticks)

    def hold(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Begin at a pose: the goal is where the joints are, in ticks (6,), within the calibrated range."""
        self.ticks = np.clip(ticks, self._low, self._high)
        return self.ticks

    def toward(self, request: ArrayLike) -> NDArray[np.int64]:
        """The next goal in ticks (6,), as near to a request (6,) in LeRobot units as one step allows."""
        asked = np.asarray(request, dtype=np.float64)
        if asked.shape != (N,):
            raise ValueError(f"a setpoint has shape {asked.shape}; it must be ({N},)")
        sent = self.sent
        known = np.isfinite(asked)
        step = np.where(known, asked, sent) - sent
        near = np.abs(step) <= self._max_step
        next_q = np.where(near & known, asked, sent + np.clip(step, -self._max_step, self._max_step))
        ticks = np.clip(self._scale.to_ticks(next_q), self._low, self._high)
        self.ticks = np.where(known, ticks, self.ticks)
        return self.ticks
