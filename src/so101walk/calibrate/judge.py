"""What an envelope is worth, measured on fresh samples: acceptance, causes of refusal, coverage, and a walk in it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envelope import Envelope
from ..joints import JOINTS, MODEL_RANGE_RAD, N, rad_to_q
from ..motion import plan_path
from ..policies.ou import OU
from ..rig import LimitsConfig

__all__ = ["Judgement", "WalkJudgement", "judge", "judge_walk", "upper_bound"]

EPISODE_STEPS = 24
"""Steps of a judged chain before it starts afresh: an episode of 12 s with half-second steps."""

CHUNK = 1000


@dataclass(frozen=True)
class Judgement:
    """Independent poses ``z ~ N(0, I)`` against an envelope.

    Attributes:
        samples: How many poses.
        accept: Share of them in the safe set.
        leave_upper: One-sided 95 % upper bound (Clopper-Pearson) on the chance of leaving.
        leave_by_limit: Chance that each joint is outside its limits, by name (exact, from the normal law).
        causes: Share of poses refused for each cause, as :class:`so101walk.envelope.Refusal` names them, most frequent
            first.
        coverage: Share of each joint's whole range in the model that lies within two scales of the center and within
            the limits, by name.
    """

    samples: int
    accept: float
    leave_upper: float
    leave_by_limit: dict[str, float]
    causes: dict[str, float]
    coverage: dict[str, float]


@dataclass(frozen=True)
class WalkJudgement:
    """An OU chain in an envelope, segments checked as a whole.

    Attributes:
        steps: How many steps were proposed.
        rho: Correlation of consecutive waypoints.
        rejected: Share of proposals that the walk refused.
        rejected_between: Share refused although both ends are safe.
        causes: Share of proposals refused for each cause, most frequent first.
        step_s: Mean time of a step, stretching and dwelling included [s].
        stretched: Share of steps that take more frames than the policy asks for.
    """

    steps: int
    rho: float
    rejected: float
    rejected_between: float
    causes: dict[str, float]
    step_s: float
    stretched: float


def upper_bound(failures: int, samples: int, confidence: float = 0.95) -> float:
    """One-sided upper confidence bound on a chance, from ``failures`` in ``samples`` (Clopper and Pearson, 1934)."""
    from scipy.stats import beta

    return 1.0 if failures >= samples else float(beta.ppf(confidence, failures + 1, samples - failures))


def judge(
    envelope: Envelope, samples: int, rng: np.random.Generator, tick: Callable[[int], None] | None = None
) -> Judgement:
    """Judge an envelope on ``samples`` fresh draws of ``z ~ N(0, I)``; ``tick`` is told of poses as they are judged."""
    inside, causes = 0, Counter[str]()
    for n in _chunks(samples):
        q = envelope.z_to_q(rng.standard_normal((n, N)))
        ok = envelope.contains_each(q)
        inside += int(ok.sum())
        causes.update(r.cause for r in map(envelope.refusal, q[~ok]) if r is not None)
        if tick is not None:
            tick(n)
    return Judgement(
        samples,
        inside / samples,
        upper_bound(samples - inside, samples),
        _named(_chance_outside(envelope)),
        _shares(causes, samples),
        _named(_coverage(envelope)),
    )


def judge_walk(
    envelope: Envelope,
    rho: float,
    steps: int,
    limits: LimitsConfig,
    fps: float,
    rng: np.random.Generator,
    tick: Callable[[int], None] | None = None,
) -> WalkJudgement:
    """Walk the OU chain in an envelope for about ``steps`` steps, in episodes, as ``collect`` does.

    Args:
        envelope: The safe set.
        rho: Correlation of consecutive waypoints.
        steps: Steps to propose, rounded up to whole episodes of :data:`EPISODE_STEPS`.
        limits: The rig's speed limits, which stretch steps.
        fps: The rig's frames a second.
        rng: Source of the chain.
        tick: Told of steps as they are judged.

    Raises:
        EnvelopeError: No start pose is inside.
    """
    policy = OU(rho)
    causes = Counter[str]()
    between, stretched, frames, episodes = 0, 0, 0, -(-steps // EPISODE_STEPS)
    for _ in range(episodes):
        z = policy.start(rng, envelope)
        waypoints = [envelope.z_to_q(z)]
        for _ in range(EPISODE_STEPS):
            proposal = policy.propose(z, rng)
            q = envelope.z_to_q(proposal)
            refusal = envelope.why_not_segment(waypoints[-1], q)
            if refusal is None:
                z = proposal
            else:
                causes[refusal.cause] += 1
                between += int(envelope.contains(q))
            waypoints.append(envelope.z_to_q(z))
        path = plan_path(waypoints, fps, policy.frames_per_step, policy.settle_frames, limits)
        stretched += int((path.stretched > 0).sum())
        frames += int(path.arrivals[-1])
        if tick is not None:
            tick(EPISODE_STEPS)
    total = episodes * EPISODE_STEPS
    rejected = causes.total() / total
    return WalkJudgement(
        total, rho, rejected, between / total, _shares(causes, total), frames / total / fps, stretched / total
    )


def _chunks(samples: int) -> list[int]:
    return [min(CHUNK, samples - i) for i in range(0, samples, CHUNK)]


def _shares(causes: Counter[str], total: int) -> dict[str, float]:
    return {cause: n / total for cause, n in causes.most_common()}


def _named(values: NDArray[np.float64]) -> dict[str, Any]:
    return {joint: float(v) for joint, v in zip(JOINTS, values, strict=True)}


def _chance_outside(envelope: Envelope) -> NDArray[np.float64]:
    from scipy.special import ndtr

    return ndtr(envelope.q_to_z(envelope.lower)) + ndtr(-envelope.q_to_z(envelope.upper))


def _coverage(envelope: Envelope) -> NDArray[np.float64]:
    low, high = rad_to_q(MODEL_RANGE_RAD.T)
    from_q = np.maximum(envelope.center - 2.0 * envelope.scale, envelope.lower)
    to_q = np.minimum(envelope.center + 2.0 * envelope.scale, envelope.upper)
    return (to_q - from_q) / (high - low)
