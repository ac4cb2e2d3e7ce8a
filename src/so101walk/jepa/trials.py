"""Ranking trials (the study's G1b).

A start, a goal some frames later, the true chunk of actions between and its rivals.

Pure bookkeeping on row numbers and distances; who predicts is the business of :mod:`.rank`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError, UsageError
from .pairs import Timeline

__all__ = ["Top1", "Trials", "draw_trials", "hits", "top1"]

RESAMPLES = 2000


@dataclass(frozen=True)
class Trials:
    """n trials of K chunks; the true chunk is column 0.

    Attributes:
        start: Row of the start frame. Shape (n,).
        goal: Row of the goal frame, ``reach`` rows later. Shape (n,).
        episode: Their episode. Shape (n,).
        chunks: First row of each chunk of ``reach`` actions; column 0 equals ``start``. Shape (n, K).
        same: Whether a chunk comes from the trial's own episode; column 0 does. Shape (n, K).
        reach: Rows from start to goal.
    """

    start: NDArray[np.int64]
    goal: NDArray[np.int64]
    episode: NDArray[np.int64]
    chunks: NDArray[np.int64]
    same: NDArray[np.bool_]
    reach: int

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Top1:
    """Share of trials in which the true chunk came first, with a 95 % interval that resamples episodes.

    ``low`` and ``high`` are None with a single episode.
    """

    value: float
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, float | None]:
        """``value``, ``low``, ``high``."""
        return vars(self).copy()


def draw_trials(
    timeline: Timeline, episodes: Iterable[int], reach: int, rivals: int, count: int, rng: np.random.Generator
) -> Trials:
    """Trials at random starts of the given episodes.

    Half of the rivals (rounded down) are chunks of the same episode whose start is at least ``reach`` rows from the
    true one, so that no frame is shared; the others come from other episodes among those given.

    Args:
        timeline: Rows of the dataset.
        episodes: Which episodes to take starts and rivals from.
        reach: Rows from start to goal.
        rivals: K - 1, at least 1.
        count: Trials wanted; every possible start is taken once if there are fewer.
        rng: Chooses starts and rivals.

    Raises:
        UsageError: ``rivals`` or ``reach`` is below 1.
        DatasetError: Too few episodes, or none long enough to hold two chunks.
    """
    if reach < 1 or rivals < 1:
        raise UsageError(f"reach is {reach} frames with {rivals} rivals; both must be 1 or more")
    chosen = sorted(set(episodes))
    usable = {e: _starts(timeline, e, reach) for e in chosen}
    usable = {e: rows for e, rows in usable.items() if len(rows) > 2 * reach}
    if len(usable) < 2:
        raise DatasetError(
            f"{len(usable)} of the {len(chosen)} episodes to rank in are longer than {3 * reach} frames; "
            "ranking needs two. Lower --horizon, or hold out more episodes"
        )
    starts = np.concatenate(list(usable.values()))
    start = np.sort(rng.permutation(starts)[:count])
    episode = timeline.episode[start]
    own = rivals // 2
    chunks, same = [], []
    for row, e in zip(start, episode, strict=True):
        near = usable[int(e)]
        far = near[np.abs(near - row) >= reach]
        others = starts[timeline.episode[starts] != e]
        mine = rng.choice(far, size=own, replace=len(far) < own)
        theirs = rng.choice(others, size=rivals - own, replace=len(others) < rivals - own)
        chunks.append(np.concatenate([[row], mine, theirs]))
        same.append(np.arange(rivals + 1) <= own)
    return Trials(start, start + reach, episode, np.stack(chunks), np.stack(same), reach)


def _starts(timeline: Timeline, episode: int, reach: int) -> NDArray[np.int64]:
    rows = np.flatnonzero(timeline.episode == episode)
    return rows[: max(0, len(rows) - reach)]


def hits(distance: NDArray[np.floating], among: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """For each trial 1 if the true chunk (column 0) is nearest, 0 if not; a tie of k chunks for first counts 1 / k.

    Args:
        distance: From each chunk's prediction to the goal. Shape (n, K).
        among: Which chunks compete, column 0 always; all if None. Shape (n, K).

    Returns:
        Shape (n,).
    """
    d = np.asarray(distance, dtype=np.float64)
    if among is not None:
        d = np.where(among | (np.arange(d.shape[1]) == 0), d, np.inf)
    first = d.min(axis=1, keepdims=True)
    tied = d == first
    return np.where(tied[:, 0], 1.0 / tied.sum(axis=1), 0.0)


def top1(hit: NDArray[np.floating], episode: NDArray[np.int64], rng: np.random.Generator) -> Top1:
    """Mean of the hits with a percentile bootstrap over whole episodes.

    Args:
        hit: See :func:`hits`. Shape (n,).
        episode: Shape (n,).
        rng: For the resamples.
    """
    names, place = np.unique(episode, return_inverse=True)
    sums, counts = np.bincount(place, weights=hit), np.bincount(place)
    value = float(sums.sum() / counts.sum())
    if len(names) < 2:
        return Top1(value, None, None)
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=RESAMPLES)
    low, high = np.quantile((weights @ sums) / (weights @ counts), [0.025, 0.975])
    return Top1(value, float(low), float(high))
