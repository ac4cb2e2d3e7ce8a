"""Finding a safe envelope: search, then proof on a fresh sample, smaller again if the proof fails."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..config import require
from ..envelope import Envelope
from ..errors import EnvelopeError
from ..joints import MODEL_RANGE_RAD, rad_to_q
from ..scene.clearance import Clearance, ClearanceConfig
from .judge import Judgement, judge
from .search import search

__all__ = ["HAND_MADE_CENTER_RAD", "calibrate_envelope", "check_effort", "hand_made"]

HAND_MADE_CENTER_RAD = (0.0, -0.6, -0.3, 0.3, 0.0, 0.6)
"""Center of the first hand-made envelope (issue 2); its scale was a third of the way to the model's nearer limit."""

AIM = 0.88
"""Share of the allowed chance of leaving that the search first aims at: the rest is what a proof at 95 % needs."""

LEAVING_LEAST = 50
"""Poses of a proof that should leave: fewer, and their spread would force a much smaller walk than is allowed."""

SMALLER = 0.94
TRIES = 8


def check_effort(accept: float, samples: int) -> None:
    """Raise :class:`ConfigError` unless so many samples can prove such an acceptance."""
    require(0.5 <= accept <= 0.999, f"accept is {accept:g}; it must be 0.5 to 0.999")
    least = max(2000, round(LEAVING_LEAST / (1.0 - accept)))
    require(samples >= least, f"samples is {samples}; proving an acceptance of {accept:g} takes at least {least}")


def calibrate_envelope(
    name: str,
    limits: NDArray[np.float64],
    clearance: ClearanceConfig,
    accept: float,
    samples: int,
    seed: int,
    tick: Callable[[int], None] | None = None,
) -> tuple[Envelope, Judgement]:
    """The largest envelope (sum of log scales) that a Gaussian walk stays in with a chance of at least ``accept``.

    Center and scale are rounded to two decimals, as the file states them, before they are judged. The judgement's
    sample is independent of the search's, and the result is accepted only if the upper 95 % bound on the chance of
    leaving is within what is allowed; otherwise the search aims lower, on new samples.

    Args:
        name: Name of the envelope.
        limits: Joint limits, LeRobot units. Shape (6, 2).
        clearance: Margins and keep-out boxes.
        accept: Chance of staying inside that is asked for, 0.5 to 0.999.
        samples: Poses that the search draws, and again that the judgement does.
        seed: The result is a function of this and the other arguments.
        tick: Told of poses as they are judged.

    Raises:
        ConfigError: ``accept`` or ``samples`` is out of range.
        EnvelopeError: There is no such envelope.
    """
    check_effort(accept, samples)
    allowed = 1.0 - accept
    checker = Clearance(clearance)
    aim = AIM * allowed
    for attempt in range(TRIES):
        draws, proof = (np.random.default_rng(s) for s in np.random.SeedSequence((seed, attempt)).spawn(2))
        found = search(limits, checker, aim, samples, draws, tick)
        scale = np.floor(100.0 * found.scale) / 100.0
        envelope = Envelope(name, np.round(found.center, 2), scale, limits[:, 0], limits[:, 1], clearance)
        judgement = judge(envelope, samples, proof, tick)
        if judgement.leave_upper <= allowed:
            return envelope, judgement
        aim *= SMALLER
    raise EnvelopeError(
        f"no envelope could be shown to be left with a chance of at most {allowed:.3g}: the last was left with "
        f"{1 - judgement.accept:.3g} of {samples} poses. Raise --samples or lower --accept."
    )


def hand_made(limits: NDArray[np.float64], clearance: ClearanceConfig) -> Envelope:
    """The first hand-made choice of center and scale, under the same limits and clearance, to compare with."""
    center = np.array(HAND_MADE_CENTER_RAD)
    low, high = MODEL_RANGE_RAD.T
    scale = rad_to_q(center + np.minimum(center - low, high - center) / 3.0) - rad_to_q(center)
    return Envelope("hand-made", rad_to_q(center), scale, limits[:, 0], limits[:, 1], clearance)
