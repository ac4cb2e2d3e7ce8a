"""The way home: poses that lead from wherever the arm is to the envelope's center and to rest, through checked space.

An episode's waypoints are joined by straight moves that the envelope has checked, beginning at its center. So the way
back that is always known to be free is the way the arm came; where a straight move is clear, it is shorter.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..envelope import Envelope
from ..scene.clearance import Clearance, ClearanceConfig

__all__ = ["WayHome"]

NEAR_M = 0.002
"""A move home may come this near to anything [m]: it is slow, and the arm often rests on the table to begin with."""

SLACK_M = 0.0015
"""What already is nearer at either end of a move may come so much nearer still on the way [m]."""

STEP_DEG = 3.0
"""A move is looked at every so many degrees of its fastest joint: 20 mm at full reach, a third of a link's width."""

Poses = list[NDArray[np.float64]]


class WayHome:
    """Finds ways over the model's collision geometry. Not for use by two threads at once.

    Args:
        envelope: Its center is where every episode begins; its keep-out boxes count here too.
        rest_q: Where the arm is let go, LeRobot units, shape (6,).
    """

    def __init__(self, envelope: Envelope, rest_q: ArrayLike) -> None:
        boxes = envelope.clearance.keep_out if envelope.clearance is not None else ()
        self._clearance = Clearance(ClearanceConfig(NEAR_M, NEAR_M, boxes))
        self.center = np.array(envelope.center, dtype=np.float64)
        self.rest_q = np.array(rest_q, dtype=np.float64)
        self._trail: Poses = [self.center]

    def walked(self, waypoints: Sequence[ArrayLike]) -> None:
        """Tell which straight moves, all checked, the arm makes from the center on: the waypoints of an episode."""
        self._trail = [self.center, *(np.array(q, dtype=np.float64) for q in waypoints)]

    def blocked(self, q0: ArrayLike, q1: ArrayLike) -> str | None:
        """Which pair of geometries a straight move between two poses (6,) brings too near, or None."""
        a, b = np.asarray(q0, np.float64), np.asarray(q1, np.float64)
        within = 2 * NEAR_M
        allowed = np.minimum(
            NEAR_M, np.minimum(self._clearance.distances_m(a, within), self._clearance.distances_m(b, within)) - SLACK_M
        )
        pieces = max(2, int(np.ceil(np.abs(b - a).max() / STEP_DEG)))
        for k in range(1, pieces):
            distance = self._clearance.distances_m(a + (b - a) * (k / pieces), within)
            if (distance < allowed).any():
                first, second = self._clearance.pairs[int(np.argmax(allowed - distance))]
                return f"{first} and {second}"
        return None

    def to_center(self, q: ArrayLike) -> Poses:
        """Poses to go through from ``q`` (6,) to the center, the center last: straight, or back along the trail."""
        back = self._back(np.asarray(q, dtype=np.float64))
        through = [np.asarray(q, dtype=np.float64), *back]
        for i, pose in enumerate(through):
            if self.blocked(pose, self.center) is None:
                return [*through[1 : i + 1], self.center]
        return [*back, self.center]

    def to_rest(self, q: ArrayLike) -> Poses:
        """Poses to go through from ``q`` (6,) to rest, the rest pose last: straight where that is clear."""
        if self.blocked(q, self.rest_q) is None:
            return [self.rest_q]
        return [*self.to_center(q), self.rest_q]

    def _back(self, q: NDArray[np.float64]) -> Poses:
        """The trail's waypoints back to the center's neighbour, from the stretch of it on that is nearest to ``q``."""
        trail = self._trail
        if len(trail) < 2:
            return []
        away = [_distance(q, a, b) for a, b in itertools.pairwise(trail)]
        return trail[int(np.argmin(away)) : 0 : -1]


def _distance(q: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """From a pose to a straight stretch of the trail, in joint space."""
    d = b - a
    length = float(d @ d)
    share = 0.0 if length == 0.0 else float(np.clip((q - a) @ d / length, 0.0, 1.0))
    return float(np.linalg.norm(q - a - share * d))
