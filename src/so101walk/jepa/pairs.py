"""Which frames make pairs (for ``lejepa``) or windows (for ``lewm``): row numbers only, no image and no joint value."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError

__all__ = ["Pairs", "Timeline", "correlation", "pairs_of", "windows_of"]


@dataclass(frozen=True)
class Timeline:
    """Where each row stands in its episode; rows are in order of episode and frame.

    Attributes:
        episode: Shape (n,).
        frame: Number within the episode, from 0 without gaps. Shape (n,).
        waypoint: Index of the waypoint reached at the frame, else -1; None where the dataset has none. Shape (n,).
        step_frames: Frames from one waypoint to the next unless stretched; 0 where the dataset doesn't say.
    """

    episode: NDArray[np.int64]
    frame: NDArray[np.int64]
    waypoint: NDArray[np.int64] | None = None
    step_frames: int = 0


@dataclass(frozen=True)
class Pairs:
    """Rows of the two frames of each pair, and its lag in steps. Shapes (m,)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    lag: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)


def pairs_of(
    timeline: Timeline, episodes: Iterable[int], unit: str, lags: Iterable[float], step_frames: int = 0
) -> Pairs:
    """All pairs of a timeline within the given episodes.

    Args:
        timeline: Rows of the dataset.
        episodes: Which episodes to take.
        unit: ``frame`` or ``waypoint``, see :class:`so101walk.jepa.recipe.PairsConfig`.
        lags: In steps.
        step_frames: Frames a step where the timeline doesn't say.

    Raises:
        DatasetError: The unit is waypoints and there are none; frames a step are unknown; or no pair is that far apart.
    """
    lags = tuple(lags)
    chosen = np.isin(timeline.episode, list(episodes))
    if unit == "waypoint":
        if timeline.waypoint is None:
            raise DatasetError(
                'the dataset marks no waypoints; set unit = "frame" and step_frames in the recipe\'s [pairs]'
            )
        chosen &= timeline.waypoint >= 0
        hops = [int(lag) for lag in lags]
    else:
        per_step = timeline.step_frames or step_frames
        if per_step <= 0:
            raise DatasetError(
                "the dataset doesn't say how many frames a step has; set step_frames in the recipe's [pairs]"
            )
        hops = [max(1, round(lag * per_step)) for lag in lags]
    rows = np.flatnonzero(chosen)
    found = []
    for lag, hop in zip(lags, hops, strict=True):
        first, second = rows[:-hop], rows[hop:]
        same = timeline.episode[first] == timeline.episode[second]
        found.append((first[same], second[same], np.full(int(same.sum()), lag)))
    first, second, lag_of = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(first):
        longest = max(hops)
        raise DatasetError(f"no two frames of an episode are {longest} {unit}s apart; lower the recipe's lags")
    return Pairs(first.astype(np.int64), second.astype(np.int64), lag_of)


def windows_of(timeline: Timeline, episodes: Iterable[int], length: int, stride: int) -> NDArray[np.int64]:
    """Rows of the first frame of every window of ``length`` frames, ``stride`` apart, with the actions after each.

    A window reaches over ``(length - 1) * stride`` frames; the last of them needs no action after it. Shape (m,).

    Raises:
        DatasetError: No episode is that long.
    """
    last_frame = np.full(timeline.episode.max() + 1, -1)
    np.maximum.at(last_frame, timeline.episode, timeline.frame)
    reach = (length - 1) * stride
    fits = timeline.frame + reach <= last_frame[timeline.episode]
    rows = np.flatnonzero(fits & np.isin(timeline.episode, list(episodes)))
    if not len(rows):
        raise DatasetError(
            f"no episode has the {reach + 1} frames that a window takes; lower the recipe's history or stride"
        )
    return rows.astype(np.int64)


def correlation(x: NDArray[np.floating], pairs: Pairs, leading: int) -> float:
    """Correlation of the two ends of the pairs, averaged over the ``leading`` slowest directions of ``x`` (n, d).

    Both ends are centred and whitened by the covariance of all of them; the directions are those of the symmetrised
    lagged covariance. For ``x = z`` of a stationary isotropic walk it is the walk's own correlation.
    """
    a, b = x[pairs.first].astype(np.float64), x[pairs.second].astype(np.float64)
    both = np.concatenate([a, b])
    mean = both.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(both.T).reshape(x.shape[1], x.shape[1]))
    kept = values > 1e-8 * max(float(values[-1]), 1e-30)
    white = vectors[:, kept] / np.sqrt(values[kept])
    a, b = (a - mean) @ white, (b - mean) @ white
    lagged = a.T @ b / len(a)
    return float(np.linalg.eigvalsh((lagged + lagged.T) / 2)[::-1][:leading].mean())
