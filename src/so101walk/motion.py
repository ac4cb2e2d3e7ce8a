"""Waypoints to setpoints: minimum-jerk segments that arrive on a frame tick, stretched where a limit needs it.

Between two waypoints every joint follows ``q(t) = q0 + (q1 - q0) * m(t / T)`` with the minimum-jerk profile ``m(s) = 10
s^3 - 15 s^4 + 6 s^5`` (Flash and Hogan, J. Neurosci. 5(7), 1985): the arm starts and ends at rest, and moves along the
straight joint-space line that the envelope has checked. Nothing is ever clipped: a segment that would pass a velocity
or acceleration limit takes more frames.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UsageError
from .joints import JOINTS, N
from .rig import LimitsConfig

__all__ = ["PEAK_ACCELERATION", "PEAK_SPEED", "Path", "min_jerk", "move_time_s", "plan_path", "slow_path"]

PEAK_SPEED = 1.875
"""Peak of m'(s), at s = 1/2: a move of d in T seconds peaks at 1.875 d / T."""

PEAK_ACCELERATION = 10.0 / math.sqrt(3.0)
"""Peak of |m''(s)|, at s = 1/2 -+ sqrt(3)/6: a move of d in T seconds peaks at 5.774 d / T^2."""

_ROUNDING = 1e-9


def min_jerk(s: ArrayLike) -> NDArray[np.float64]:
    """The minimum-jerk profile: 0 before ``s = 0``, 1 after ``s = 1``, ``10 s^3 - 15 s^4 + 6 s^5`` between."""
    s = np.clip(np.asarray(s, dtype=np.float64), 0.0, 1.0)
    return s**3 * (10.0 - s * (15.0 - 6.0 * s))


def move_time_s(dq: ArrayLike, limits: LimitsConfig, factor: float = 1.0) -> float:
    """Shortest time [s] in which a minimum-jerk move by ``dq`` keeps every joint within its limits.

    Args:
        dq: Joint displacement in LeRobot units. Shape (6,).
        limits: Velocity and acceleration limits.
        factor: Both limits are multiplied by this first (0.25 moves at a quarter of the speed limit).
    """
    d = np.abs(np.asarray(dq, dtype=np.float64))
    by_speed = PEAK_SPEED * d / (factor * limits.velocity())
    by_acceleration = np.sqrt(PEAK_ACCELERATION * d / (factor * limits.acceleration()))
    return float(np.max(np.maximum(by_speed, by_acceleration)))


@dataclass(frozen=True, eq=False)
class Path:
    """Setpoints as a function of time: segments between waypoints, each followed by a hold.

    Attributes:
        q: The waypoints in LeRobot units. Shape (n, 6), read-only.
        start_s: When each segment begins to move [s]. Shape (n - 1,).
        move_s: How long each segment moves [s]; it holds still from then to the next start. Shape (n - 1,).
        arrivals: Frame index at which each waypoint counts as reached: at the end of its hold. Shape (n,); the first
            is 0. Empty for a path that is not recorded.
        stretched: Frames that each segment takes beyond ``frames_per_step``. Shape (n - 1,), 0 where it fits.
        duration_s: Time of the last arrival [s].
    """

    q: NDArray[np.float64]
    start_s: NDArray[np.float64]
    move_s: NDArray[np.float64]
    arrivals: NDArray[np.int64]
    stretched: NDArray[np.int64]
    duration_s: float

    def __post_init__(self) -> None:
        for array in (self.q, self.start_s, self.move_s, self.arrivals, self.stretched):
            array.setflags(write=False)

    def at(self, t_s: ArrayLike) -> NDArray[np.float64]:
        """The setpoint at time ``t_s`` in LeRobot units: the first waypoint before the path, the last one after it.

        Args:
            t_s: Seconds since the path's beginning, any shape (...).

        Returns:
            Shape (..., 6).
        """
        if isinstance(t_s, float):
            return self._at_once(t_s)
        t = np.asarray(t_s, dtype=np.float64)
        if len(self.q) == 1:
            return np.broadcast_to(self.q[0], (*t.shape, N)).copy()
        k = np.clip(np.searchsorted(self.start_s, t, side="right") - 1, 0, len(self.start_s) - 1)
        s = (t - self.start_s[k]) / self.move_s[k]
        m = min_jerk(np.where(s > 1.0 - _ROUNDING, 1.0, s))[..., None]
        q0, q1 = self.q[k], self.q[k + 1]
        return np.where(m == 1.0, q1, q0 + (q1 - q0) * m)

    def _at_once(self, t_s: float) -> NDArray[np.float64]:
        """:meth:`at` for one moment, ten times as fast as by arrays: control loops call it at every tick."""
        k = int(self.start_s.searchsorted(t_s, side="right")) - 1
        if k < 0:
            return self.q[0].copy()
        s = (t_s - self.start_s[k]) / self.move_s[k]
        if s > 1.0 - _ROUNDING:
            return self.q[k + 1].copy()
        return self.q[k] + (self.q[k + 1] - self.q[k]) * (s * s * s * (10.0 - s * (15.0 - 6.0 * s)))


def plan_path(
    q_waypoints: ArrayLike, fps: float, frames_per_step: int, settle_frames: int, limits: LimitsConfig
) -> Path:
    """A recorded path through waypoints, one arrival every ``frames_per_step`` frames unless stretched.

    A step moves for ``frames_per_step - settle_frames`` frames and holds for ``settle_frames``; where a joint would
    pass a limit the move takes as many whole frames more as it needs. Equal consecutive waypoints are a dwell of one
    step.

    Args:
        q_waypoints: Waypoints in LeRobot units, finite. Shape (n, 6), n >= 1.
        fps: Dataset frames a second.
        frames_per_step: Frames from one waypoint to the next.
        settle_frames: The last of these frames, held still.
        limits: Velocity and acceleration limits.

    Raises:
        UsageError: A waypoint is not finite, or the step leaves no frame to move in.
    """
    q = np.array(q_waypoints, dtype=np.float64)
    if q.ndim != 2 or q.shape[1] != N or len(q) == 0:
        raise UsageError(f"waypoints have shape {q.shape}; a path needs (n, {N}) with n of at least 1")
    if not np.isfinite(q).all():
        row, joint = np.argwhere(~np.isfinite(q))[0]
        raise UsageError(
            f"waypoint {row} asks {JOINTS[joint]} for {q[row, joint]}; every joint must be a finite number"
        )
    if settle_frames < 0 or frames_per_step - settle_frames < 1:
        raise UsageError(
            f"frames_per_step {frames_per_step} with settle_frames {settle_frames} leaves no frame to move in; "
            "settle_frames must be 0 to frames_per_step - 1"
        )
    needed = [math.ceil(move_time_s(dq, limits) * fps - _ROUNDING) for dq in np.diff(q, axis=0)]
    usual = frames_per_step - settle_frames
    stretched = np.maximum(np.array(needed, dtype=np.int64) - usual, 0)
    arrivals = np.concatenate([[0], np.cumsum(frames_per_step + stretched)]).astype(np.int64)
    return Path(q, arrivals[:-1] / fps, (usual + stretched) / fps, arrivals, stretched, float(arrivals[-1] / fps))


def slow_path(q0: ArrayLike, q1: ArrayLike, limits: LimitsConfig, factor: float = 0.25) -> Path:
    """An unrecorded move from ``q0`` to ``q1`` (6,) within ``factor`` times the limits. Its ``arrivals`` are empty.

    Raises:
        UsageError: ``factor`` is not above 0 and at most 1, or a joint is not finite.
    """
    if not 0.0 < factor <= 1.0:
        raise UsageError(f"the speed factor of a slow move is {factor}; it must be above 0 and at most 1")
    q = np.array([q0, q1], dtype=np.float64)
    if q.shape != (2, N) or not np.isfinite(q).all():
        raise UsageError(f"a move needs two poses of {N} finite joints, not {q.tolist()}")
    move_s = max(move_time_s(q[1] - q[0], limits, factor), 1e-3)
    nothing = np.zeros(0, dtype=np.int64)
    return Path(q, np.zeros(1), np.array([move_s]), nothing, np.zeros(1, dtype=np.int64), move_s)
