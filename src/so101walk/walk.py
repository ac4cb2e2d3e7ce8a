"""One episode's plan: the policy proposes, the envelope disposes, motion makes a path of it. Pure and seeded."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .envelope import Envelope
from .errors import EnvelopeError, So101WalkError
from .joints import JOINTS, N
from .motion import Path, plan_path
from .policies.policy import Policy
from .rig import LimitsConfig

__all__ = ["Plan", "episode_rng", "plan_episode"]

START_TRIES = 100
"""Draws of a first waypoint that may be unreachable from the center in a straight line before we give up."""


@dataclass(frozen=True)
class Plan:
    """What one episode will do. Waypoints are in order of time; ``n`` is their number.

    Attributes:
        z: Latent of each waypoint, shape (n, 6).
        q: Joints of each waypoint, LeRobot units, shape (n, 6).
        refusals: For each waypoint why its proposal was refused and the old state kept (``"limit:shoulder_lift"``), or
            "" where it was accepted; the first is "".
        path: Setpoints over time; ``path.arrivals`` (n,) is the frame at which each waypoint is reached.
        frames: Dataset frames of the episode.
        redrawn_starts: First waypoints thrown away since no straight move from the center reaches them.
    """

    z: NDArray[np.float64]
    q: NDArray[np.float64]
    refusals: tuple[str, ...]
    path: Path
    frames: int
    redrawn_starts: int

    @property
    def steps(self) -> int:
        """Proposals made whose waypoints lie within the episode."""
        return int(self._within()[1:].sum())

    @property
    def causes(self) -> dict[str, int]:
        """How often each cause refused one of these proposals, for example ``{"limit:shoulder_lift": 3}``."""
        within = self._within()
        return dict(Counter(r for r, inside in zip(self.refusals, within, strict=True) if r and inside))

    def waypoint_at(self) -> NDArray[np.int64]:
        """Index of the waypoint reached at each frame, else -1. Shape (frames,)."""
        reached = np.full(self.frames, -1, dtype=np.int64)
        within = self._within()
        reached[self.path.arrivals[within]] = np.flatnonzero(within)
        return reached

    def _within(self) -> NDArray[np.bool_]:
        return np.asarray(self.path.arrivals) < self.frames


def episode_rng(seed: int, walk_index: int, attempt: int = 0) -> np.random.Generator:
    """The generator of one episode: any episode can be made again alone.

    Args:
        seed: The session's seed.
        walk_index: Which episode of the walk, from 0.
        attempt: How often this episode has failed before; a second try draws anew.
    """
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(walk_index, attempt)))


def plan_episode(
    policy: Policy,
    envelope: Envelope,
    limits: LimitsConfig,
    fps: int,
    frames: int,
    rng: np.random.Generator,
) -> Plan:
    """Draw one episode's waypoints and the path through them.

    A proposal outside the envelope, or one that can't be reached by a safe straight move, keeps the old state and is
    counted: that chain is reversible, so its stationary law is the policy's own restricted to the safe set
    (Metropolis; Hastings, Biometrika 57, 1970).

    Args:
        policy: A fresh policy object, for this episode alone.
        envelope: The safe set.
        limits: Speed limits; a step that would pass them takes more frames.
        fps: Dataset frames a second.
        frames: Dataset frames of the episode, at least 1.
        rng: See :func:`episode_rng`.

    Raises:
        EnvelopeError: No reachable first waypoint was found.
        So101WalkError: The policy proposed something that is not six finite numbers.
    """
    z, redrawn = _reachable_start(policy, envelope, rng)
    zs, refusals = [z], [""]
    # Stretching only makes steps longer, so this many waypoints always fill the episode.
    for _ in range(-(-frames // policy.frames_per_step)):
        proposal = _checked(policy, policy.propose(z.copy(), rng))
        refusal = envelope.why_not_segment(envelope.z_to_q(z), envelope.z_to_q(proposal))
        if refusal is None:
            z = proposal
        zs.append(z)
        refusals.append("" if refusal is None else refusal.cause)
    waypoints = np.stack(zs)
    q = envelope.z_to_q(waypoints)
    path = plan_path(q, fps, policy.frames_per_step, policy.settle_frames, limits)
    return Plan(waypoints, q, tuple(refusals), path, frames, redrawn)


def _reachable_start(policy: Policy, envelope: Envelope, rng: np.random.Generator) -> tuple[NDArray[np.float64], int]:
    refusal = None
    for tries in range(START_TRIES):
        z = _checked(policy, policy.start(rng, envelope))
        refusal = envelope.why_not_segment(envelope.center, envelope.z_to_q(z))
        if refusal is None:
            return z, tries
    raise EnvelopeError(
        f"policy {policy.name!r}: none of {START_TRIES} first waypoints can be reached from the envelope's center; "
        f"the last was refused: {refusal.message if refusal else ''} Lower the envelope's scale."
    )


def _checked(policy: Policy, z: NDArray[np.float64]) -> NDArray[np.float64]:
    array = np.asarray(z, dtype=np.float64)
    if array.shape != (N,):
        raise So101WalkError(f"policy {policy.name!r} proposed a waypoint of shape {array.shape}; it must be ({N},)")
    if not np.isfinite(array).all():
        bad = [j for j, ok in zip(JOINTS, np.isfinite(array), strict=True) if not ok]
        raise So101WalkError(f"policy {policy.name!r} proposed a value that is not finite for {', '.join(bad)}")
    return array.copy()
