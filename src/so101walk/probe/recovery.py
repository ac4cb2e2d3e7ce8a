"""How well a readout recovers the joints on held-out episodes: the measures of science.md, each with its definition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import intervals
from .intervals import EpisodeSums, Interval
from .ridge import Readout, fit

__all__ = [
    "TURNS_FAR_DEG",
    "Recovery",
    "angle_targets",
    "from_sums",
    "orthogonality_error",
    "plain_r2",
    "recovery",
    "reverse_r2",
    "whitened",
    "within_r2",
    "within_share",
]

Floats = NDArray[np.float64]

TURNS_FAR_DEG = 120.0
"""A joint that covers more than this is also scored by its sine and cosine: over a small range these are as good as
linear."""


@dataclass(frozen=True)
class Recovery:
    """R^2 of every joint on held-out frames, with intervals that resample episodes.

    Attributes:
        joints: Names, m of them.
        r2: R^2 of each; NaN for a joint that doesn't move in the held-out episodes.
        mean: Mean over the joints that move.
        anisotropy: Best minus worst among them.
        within: R^2 of each joint about its mean in each episode: what is read beyond telling the episodes apart.
            Shape (m,).
        sums: What the intervals are made from.
    """

    joints: tuple[str, ...]
    r2: tuple[Interval, ...]
    mean: Interval
    anisotropy: Interval
    within: Floats
    sums: EpisodeSums


def recovery(
    joints: Sequence[str],
    y: Floats,
    predicted: Floats,
    episode_index: NDArray[np.int64],
    rng: np.random.Generator,
) -> Recovery:
    """Score predictions of held-out frames.

    Args:
        joints: Names, m of them.
        y: True joints. Shape (n, m).
        predicted: Shape (n, m).
        episode_index: Episode of each frame. Shape (n,).
        rng: For the resamples.
    """
    sums = EpisodeSums.of(y, predicted, episode_index)
    return from_sums(joints, sums, within_r2(y, predicted, episode_index), rng)


def from_sums(joints: Sequence[str], sums: EpisodeSums, within: Floats, rng: np.random.Generator) -> Recovery:
    """As :func:`recovery`, from the sums of an earlier run."""
    moving = [j for j in range(len(joints)) if np.isfinite(sums.r2()[0][0, j])]
    each = tuple(_capped(intervals.estimate(sums, intervals.of_joint(j), rng), high=1.0) for j in range(len(joints)))
    if not moving:
        none = Interval(float("nan"), None, None)
        return Recovery(tuple(joints), each, none, none, within, sums)
    mean = _capped(intervals.estimate(sums, intervals.mean(moving), rng), high=1.0)
    spread = _capped(intervals.estimate(sums, intervals.anisotropy(moving), rng), low=0.0)
    return Recovery(tuple(joints), each, mean, spread, within, sums)


def _capped(figure: Interval, low: float = -np.inf, high: float = np.inf) -> Interval:
    """The interval cut to the values that the figure can take."""
    if figure.low is None or figure.high is None:
        return figure
    return Interval(figure.value, max(figure.low, low), min(figure.high, high))


def within_r2(y: Floats, predicted: Floats, episode_index: NDArray[np.int64]) -> Floats:
    """R^2 of each target after the mean of each episode is taken from truth and prediction alike. Shape (m,)."""
    residual, spread = np.zeros(y.shape[1]), np.zeros(y.shape[1])
    for e in np.unique(episode_index):
        mine = episode_index == e
        error = y[mine] - predicted[mine]
        residual += ((error - error.mean(axis=0)) ** 2).sum(axis=0)
        spread += ((y[mine] - y[mine].mean(axis=0)) ** 2).sum(axis=0)
    return np.where(spread > 0, 1.0 - residual / np.where(spread > 0, spread, 1.0), np.nan)


def within_share(y: Floats, episode_index: NDArray[np.int64]) -> Floats:
    """Share of each joint's variance that lies within episodes; the rest is between their means. Shape (m,)."""
    within = np.zeros(y.shape[1])
    for e in np.unique(episode_index):
        mine = y[episode_index == e]
        within += ((mine - mine.mean(axis=0)) ** 2).sum(axis=0)
    total = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    return np.where(total > 0, within / np.where(total > 0, total, 1.0), np.nan)


def reverse_r2(
    y: Floats, latents: NDArray[Any], train: NDArray[np.int64], val: NDArray[np.int64], folds: NDArray[np.int64]
) -> float:
    """R^2 from joints to latent on held-out frames: how much of the latent's variance the joints explain linearly.

    Squared errors and variances are summed over the latent's values, so a value counts as much as it varies.
    """
    width = latents.shape[1]
    error, spread = 0.0, 0.0
    for start in range(0, width, 512):
        columns = np.asarray(latents[:, start : start + 512], dtype=np.float64)
        predicted = fit(y, columns, train, folds).predict(y, val)
        held = columns[val]
        error += float(((held - predicted) ** 2).sum())
        spread += float(((held - held.mean(axis=0)) ** 2).sum())
    return 1.0 - error / spread if spread > 0 else float("nan")


def angle_targets(y_deg: Floats) -> Floats:
    """Sine and cosine of angles [deg] (n, m), as targets of a readout: (n, 2 m), the sines first."""
    radians = np.radians(y_deg)
    return np.concatenate([np.sin(radians), np.cos(radians)], axis=1)


def plain_r2(y: Floats, predicted: Floats) -> Floats:
    """R^2 of each target (m,), NaN where it doesn't vary."""
    spread = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    floor = 1e-12 * (y**2).sum(axis=0)
    return np.where(
        spread > floor, 1.0 - ((y - predicted) ** 2).sum(axis=0) / np.where(spread > floor, spread, 1.0), np.nan
    )


def orthogonality_error(
    readout: Readout,
    latents: NDArray[Any],
    y: Floats,
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    moving: list[int],
) -> float:
    """How far the whitened readout is from a rotation of the whitened joints, on held-out frames (orthogonal
    Procrustes).

    Readout h and joints z are whitened by their training means and covariances, Q = argmin over orthogonal matrices of
    E||h - z Q||^2 on the training frames (Schoenemann 1966), and the held-out E||h - z Q||^2 / m is told: 0 for a
    latent that holds the joints up to a rotation, about 2 for one that holds nothing.

    Args:
        readout: Fitted on the training frames.
        latents: Shape (n, d).
        y: Joints. Shape (n, m).
        train: Places of the training frames.
        val: Places of the held-out frames.
        moving: The joints that move; the others can't be whitened.
    """
    h_train, h_val = (readout.predict(latents, rows)[:, moving] for rows in (train, val))
    z_train, z_val = y[train][:, moving], y[val][:, moving]
    whiten_h, whiten_z = _whitening(h_train), _whitening(z_train)
    if whiten_h is None or whiten_z is None:
        return float("nan")
    (h_mean, h_map), (z_mean, z_map) = whiten_h, whiten_z
    h, z = (h_train - h_mean) @ h_map, (z_train - z_mean) @ z_map
    u, _, vt = np.linalg.svd(z.T @ h)
    residual = (h_val - h_mean) @ h_map - (z_val - z_mean) @ z_map @ (u @ vt)
    return float((residual**2).sum(axis=1).mean() / len(moving))


def whitened(x: Floats, train: NDArray[np.int64]) -> Floats | None:
    """``x`` (n, m) with mean 0 and unit covariance over its rows ``train``; None where that covariance is singular."""
    found = _whitening(x[train])
    return None if found is None else (x - found[0]) @ found[1]


def _whitening(x: Floats) -> tuple[Floats, Floats] | None:
    """Mean and symmetric map that give unit covariance, None where the covariance is singular."""
    mean = x.mean(axis=0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(x.T)))
    if len(values) == 0 or values[0] <= 1e-10 * values[-1] or values[-1] <= 0:
        return None
    return mean, vectors / np.sqrt(values) @ vectors.T
