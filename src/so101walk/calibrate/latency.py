"""How late each camera's images are against the joints, from the arm's own sharp moves; no target is needed.

Between two images that are stamped ``t0`` and ``t1`` a joint has turned by ``|q(t1 - L) - q(t0 - L)|`` if the stamps
are ``L`` late, and how much the images differ grows with that. So for each move the latency is where the differences of
the images and a power of the turns of the joint correlate best; the power, since differences saturate, is the one that
fits all moves best. Images may differ more at one end of a move than at the other,
which shifts the peak one way on the way out and the other way on the way back: the two are averaged. Every such pair
gives an estimate of its own; their scatter gives the confidence interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..errors import HardwareError

__all__ = ["Estimate", "MoveSeen", "estimate_latency"]

EARLIEST_S, LATEST_S = -0.1, 0.6
"""Latencies that are looked for [s]."""

STEP_S = 0.002
"""Spacing of the search; a parabola through the peak goes below it."""

POWERS = (1.0, 0.85, 0.7, 0.55, 0.4)
"""Image difference grows with about this power of the turn; 0.55 fitted best on the emulator (correlation 0.99)."""

LEAST_CORRELATION = 0.7
"""A move in which the images follow the joint less than this is left out: the camera doesn't see it."""

LEAST_PAIRS = 4

WIDEST_MS = 12.0
"""Half width of a confidence interval that still is worth writing down: a third of a frame at 30 fps."""


@dataclass(frozen=True)
class MoveSeen:
    """One move of one joint and what a camera saw of it. Times in seconds on one clock.

    Attributes:
        joint_s: When the joint was read, shape (n,).
        joint: Its positions, any unit, shape (n,).
        image_s: When the images were stamped, shape (m,).
        difference: How much each image differs from the one before, shape (m - 1,).
    """

    joint_s: NDArray[np.float64]
    joint: NDArray[np.float64]
    image_s: NDArray[np.float64]
    difference: NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A camera's latency.

    Attributes:
        latency_ms: From what an image shows to its stamp, against the joints' own times.
        half_width_ms: Of the 95 % confidence interval.
        moves: Moves that count, out and back.
        correlation: Their median correlation at the peak.
    """

    latency_ms: float
    half_width_ms: float
    moves: int
    correlation: float


def estimate_latency(camera: str, moves: Sequence[MoveSeen]) -> Estimate:
    """The latency that most pairs of moves agree on: their mean without outliers, with Student's interval.

    Args:
        camera: For messages.
        moves: Sharp moves, out and back in turn; image times must not be locked to them.

    Raises:
        HardwareError: The latency can't be resolved; says what was found.
    """
    turns = [_turned(move) for move in moves]
    by_power = [[_peak(t**p, m.difference) for t, m in zip(turns, moves, strict=True)] for p in POWERS]
    peaks = max(by_power, key=lambda found: float(np.median([r for _, r in found])))
    seen = [r >= LEAST_CORRELATION for _, r in peaks]
    pairs = [(peaks[k], peaks[k + 1]) for k in range(0, len(peaks) - 1, 2) if seen[k] and seen[k + 1]]
    if len(pairs) < max(LEAST_PAIRS, len(moves) // 4):
        raise HardwareError(
            f"camera {camera!r}: only in {sum(seen)} of {len(moves)} moves do the images follow the arm; its latency "
            "can't be resolved. Let the camera see the arm, with more light and nothing else that moves"
        )
    values = np.array([(a[0] + b[0]) / 2 for a, b in pairs]) * 1000
    middle = float(np.median(values))
    spread = 1.4826 * np.median(np.abs(values - middle))  # the median deviation of a normal law, as its sigma
    kept = values[np.abs(values - middle) <= max(3.5 * spread, 2.0)]
    half = float(stats.t.ppf(0.975, len(kept) - 1) * kept.std(ddof=1) / math.sqrt(len(kept)))
    if half > WIDEST_MS:
        raise HardwareError(
            f"camera {camera!r}: latency {kept.mean():.0f} ms give or take {half:.0f}; that is too vague to be of use "
            f"(limit {WIDEST_MS:g}). A steadier frame rate or more moves (--moves) would help"
        )
    correlation = float(np.median([p[1] for pair in pairs for p in pair]))
    return Estimate(float(kept.mean()), half, 2 * len(kept), correlation)


SHIFTS_S: NDArray[np.float64] = np.arange(EARLIEST_S, LATEST_S + STEP_S / 2, STEP_S).astype(np.float64)


def _turned(move: MoveSeen) -> NDArray[np.float64]:
    """How far the joint turned between the images if they were as late as each of :data:`SHIFTS_S`; (shifts, m - 1)."""
    at = np.interp(move.image_s[None, :] - SHIFTS_S[:, None], move.joint_s, move.joint)
    return np.abs(np.diff(at, axis=1))


def _peak(turned: NDArray[np.float64], difference: NDArray[np.float64]) -> tuple[float, float]:
    """Latency [s] of the best correlation and that correlation; (0, 0) where it lies at the end of the search."""
    correlation = _correlation(turned, difference)
    k = int(np.argmax(correlation))
    if k in (0, len(SHIFTS_S) - 1):
        return 0.0, 0.0
    left, top, right = correlation[k - 1 : k + 2]
    bend = left - 2 * top + right
    offset = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(SHIFTS_S[k] + offset * STEP_S), float(top)


def _correlation(rows: NDArray[np.float64], with_what: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's coefficient of each row (k, m) with a vector (m,); 0 where either is constant."""
    a = rows - rows.mean(axis=1, keepdims=True)
    b = with_what - with_what.mean()
    scale = np.linalg.norm(a, axis=1) * np.linalg.norm(b)
    return np.divide(a @ b, scale, out=np.zeros(len(rows)), where=scale > 1e-12)
