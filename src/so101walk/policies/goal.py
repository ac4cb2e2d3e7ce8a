"""The goal-directed baseline: pick-and-place reaches as a demonstrator makes them, for comparison with the walk.

One reach is home, over a target on the table, down, close, up, over a second place, down, release, up, home. Targets
are drawn uniformly on a ring sector of the table; positions are reached with pan, lift and elbow alone (inverse
kinematics on the scene's model), while wrist flex and wrist roll keep a fixed posture with a little jitter a reach. So
the first three joints move a lot and the wrist hardly, as in teleoperated demonstrations. Only reaches whose every
segment is inside the envelope are used. The law is neither stationary nor isotropic: that is its purpose.
"""

import itertools
import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..config import require
from ..envelope import Envelope
from ..errors import EnvelopeError
from ..joints import GRIPPER
from ..scene.kinematics import Kinematics
from .fields import check_frames

__all__ = ["Goal", "GoalConfig"]

WRIST_FLEX, WRIST_ROLL = 3, 4
MAX_TRIES = 200
"""Reaches to draw before giving up; with the shipped files about one in two is used."""

SEED_Q = np.array([0.0, -30.0, 30.0, 0.0, 0.0, 0.0])
"""Where inverse kinematics starts [LeRobot units]: the elbow up, so that every solution is on that branch."""
SEED_Q.setflags(write=False)


@dataclass(frozen=True)
class GoalConfig:
    """A policy file of kind ``goal``.

    Attributes:
        home_m: Tip of the gripper at home, in the frame of the arm's base [m].
        radius_m: Nearest and farthest target from the pan axis's foot (the frame's origin) [m].
        azimuth_deg: Targets lie within this of straight ahead.
        grasp_m: Height of the tip when it closes and when it releases [m].
        hover_m: Height of the tip over a target before and after [m].
        wrist_flex_deg: Posture of the wrist: 70 points the fingers down over most of the ring.
        wrist_roll_deg: Posture of the wrist.
        jitter_deg: Standard deviation of both wrist joints from reach to reach.
        open_percent: Gripper before the grasp and after the release.
        closed_percent: Gripper around what it carries.
    """

    kind: Literal["goal"] = "goal"
    name: str = "goal"
    frames_per_step: int = 15
    settle_frames: int = 2
    home_m: tuple[float, float, float] = (0.22, 0.0, 0.14)
    radius_m: tuple[float, float] = (0.20, 0.32)
    azimuth_deg: float = 50.0
    grasp_m: float = 0.04
    hover_m: float = 0.09
    wrist_flex_deg: float = 70.0
    wrist_roll_deg: float = 0.0
    jitter_deg: float = 2.0
    open_percent: float = 60.0
    closed_percent: float = 12.0

    def __post_init__(self) -> None:
        check_frames(self.frames_per_step, self.settle_frames)
        low, high = self.radius_m
        require(
            0.05 <= low < high <= 0.5, f"radius_m is {list(self.radius_m)}; it must be two rising values, 0.05 to 0.5 m"
        )
        require(0.0 <= self.azimuth_deg <= 100.0, f"azimuth_deg is {self.azimuth_deg:g}; it must be 0 to 100")
        require(
            0.0 <= self.grasp_m < self.hover_m <= 0.4,
            f"grasp_m is {self.grasp_m:g} and hover_m {self.hover_m:g}; they must rise, 0 to 0.4 m",
        )
        require(0.0 <= self.jitter_deg <= 20.0, f"jitter_deg is {self.jitter_deg:g}; it must be 0 to 20")
        require(
            0.0 <= self.closed_percent < self.open_percent <= 100.0,
            f"closed_percent is {self.closed_percent:g}, open_percent {self.open_percent:g}; they must rise, 0 to 100",
        )
        for name in ("wrist_flex_deg", "wrist_roll_deg"):
            require(math.isfinite(getattr(self, name)), f"{name} is {getattr(self, name)}; it must be a finite number")
        require(all(map(math.isfinite, self.home_m)), f"home_m is {list(self.home_m)}; it must be three finite numbers")

    def make(self) -> "Goal":
        """A fresh policy for one episode."""
        return Goal(self)


class Goal:
    """Repeated reaches until the episode ends. See :class:`so101walk.policies.policy.Policy`."""

    def __init__(self, config: GoalConfig) -> None:
        self.config = config
        self.name = config.name
        self.frames_per_step = config.frames_per_step
        self.settle_frames = config.settle_frames
        self._ahead: deque[NDArray[np.float64]] = deque()
        self._envelope: Envelope | None = None

    def start(self, rng: np.random.Generator, envelope: Envelope) -> NDArray[np.float64]:
        """Home, from where a whole reach inside the envelope is known. Shape (6,).

        Raises:
            EnvelopeError: No home or no reach is inside the envelope.
        """
        self._envelope = envelope
        home = self._solve(self.config.home_m, self._wrist(rng))
        if home is None or not envelope.contains(home):
            why = "out of reach" if home is None else envelope.why_not(home)
            raise EnvelopeError(f"policy {self.name!r}: its home pose can't be used: {why}")
        self._ahead = self._reach(home, rng)
        return envelope.q_to_z(home)

    def propose(self, z: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """The next via-point of the reach, or the first of a new one. Shape (6,)."""
        assert self._envelope is not None, "start comes before propose"
        if not self._ahead:
            self._ahead = self._reach(self._envelope.z_to_q(z), rng)
        return self._envelope.q_to_z(self._ahead.popleft())

    def _reach(self, q: NDArray[np.float64], rng: np.random.Generator) -> deque[NDArray[np.float64]]:
        assert self._envelope is not None
        for _ in range(MAX_TRIES):
            points = self._via_points(rng)
            if points and all(self._envelope.segment_ok(a, b) for a, b in itertools.pairwise([q, *points])):
                return deque(points)
        raise EnvelopeError(
            f"policy {self.name!r}: none of {MAX_TRIES} reaches lies in the envelope ({self._envelope.source}). "
            "Raise grasp_m, narrow radius_m or azimuth_deg, or widen the envelope."
        )

    def _via_points(self, rng: np.random.Generator) -> list[NDArray[np.float64]] | None:
        c = self.config
        wrist = self._wrist(rng)
        (x0, y0), (x1, y1) = self._target(rng), self._target(rng)
        places = [(x0, y0, c.hover_m), (x0, y0, c.grasp_m), (x1, y1, c.hover_m), (x1, y1, c.grasp_m), c.home_m]
        solved = [self._solve(place, wrist) for place in places]
        if any(q is None for q in solved):
            return None
        over, down, over_drop, down_drop, home = (q for q in solved if q is not None)
        opened, closed = c.open_percent, c.closed_percent
        steps = [
            (over, opened), (down, opened), (down, closed), (over, closed), (over_drop, closed), (down_drop, closed),
            (down_drop, opened), (over_drop, opened), (home, opened),
        ]  # fmt: skip
        return [_with_gripper(q, gripper) for q, gripper in steps]

    def _target(self, rng: np.random.Generator) -> tuple[float, float]:
        low, high = self.config.radius_m
        radius = math.sqrt(rng.uniform(low * low, high * high))
        azimuth = math.radians(rng.uniform(-self.config.azimuth_deg, self.config.azimuth_deg))
        return radius * math.cos(azimuth), radius * math.sin(azimuth)

    def _wrist(self, rng: np.random.Generator) -> NDArray[np.float64]:
        posture = (self.config.wrist_flex_deg, self.config.wrist_roll_deg)
        return np.array(posture) + self.config.jitter_deg * rng.standard_normal(2)

    def _solve(self, place_m: tuple[float, float, float], wrist: NDArray[np.float64]) -> NDArray[np.float64] | None:
        seed = SEED_Q.copy()
        seed[[WRIST_FLEX, WRIST_ROLL]] = wrist
        return Kinematics.shared().solve(place_m, _with_gripper(seed, self.config.open_percent))


def _with_gripper(q: NDArray[np.float64], percent: float) -> NDArray[np.float64]:
    out = q.copy()
    out[GRIPPER] = percent
    return out
