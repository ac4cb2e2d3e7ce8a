"""Ridge regression from latents to joints: streamed in chunks, its strength chosen for each joint by grouped folds.

The model is y = b + W^T (x - mean) / scale, with W minimising sum ||y - b - W^T s||^2 + alpha ||W||^2 over the training
rows (Hoerl and Kennard, Technometrics 12, 1970): scikit-learn's ``Ridge`` on standardised latents, to which the tests
hold it. Only sums of products are kept, so memory is folds * d^2, whatever the number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

__all__ = ["MAX_WIDTH", "STRENGTHS", "Readout", "fit", "folds_of", "solve"]

Floats = NDArray[np.float64]

STRENGTHS: tuple[float, ...] = tuple(float(s) for s in np.logspace(-7, 3, 21))
"""Strengths tried, per training row: alpha = strength * n. The standardised features have unit variance, so strength 1
halves a direction of average variance; the ends are as good as no penalty and as good as predicting the mean."""

MAX_WIDTH = 8192
"""Widest system solved: a matrix of products of 8192^2 float64 takes 0.5 GB, and there are folds + 1 of them."""

LEAST_SCALE = 0.3
"""A latent value is divided by its standard deviation, but by no less than this share of the typical one (root mean
square over the values). One that hardly moved in training, such as a pixel that nothing passed over, would else be
blown up where it moves in a held-out episode: 1,536 pixels of a synthetic walk score 0.155 without the limit and 0.890
with it on 6 training episodes, 0.735 and 0.962 on 16. A random CNN, whose values move alike, scores 0.376 both ways.
"""

CHUNK_ROWS = 4096


@dataclass(frozen=True)
class Readout:
    """A fitted linear map from latents (d,) to targets (m,).

    Attributes:
        mean: Of each latent value over the training rows. Shape (d,).
        scale: Standard deviation of each latent value over the training rows, see ``LEAST_SCALE``. Shape (d,).
        weights: On standardised latents. Shape (d, m).
        intercept: Shape (m,).
        alpha: Ridge strength of each target. Shape (m,).
        cv_r2: R^2 of each target by cross-validation at each of ``STRENGTHS``; empty if ``alpha`` was given. Shape
            (s, m).
        components: Leading principal directions of the standardised training latents, by variance. Shape (d, k).
    """

    mean: Floats
    scale: Floats
    weights: Floats
    intercept: Floats
    alpha: Floats
    cv_r2: Floats
    components: Floats

    def predict(self, x: NDArray[Any], rows: NDArray[np.int64] | None = None) -> Floats:
        """Targets predicted for latents ``x`` (n, d), or for ``x[rows]``. Shape (n, m) or (len(rows), m)."""
        rows = np.arange(len(x)) if rows is None else rows
        out = np.empty((len(rows), self.weights.shape[1]))
        for part in _parts(len(rows)):
            out[part] = self.project(x[rows[part]], self.weights)
        return out + self.intercept

    def of_targets(self, first: int, last: int) -> "Readout":
        """The readout of targets ``first`` to ``last - 1`` alone."""
        one = slice(first, last)
        return Readout(
            self.mean,
            self.scale,
            self.weights[:, one],
            self.intercept[one],
            self.alpha[one],
            self.cv_r2[:, one],
            self.components,
        )

    def project(self, x: NDArray[Any], directions: Floats) -> Floats:
        """Standardised latents times ``directions`` (d, k). Shape (n, k)."""
        return ((x - self.mean) / self.scale) @ directions


@dataclass(frozen=True)
class _Sums:
    """Sums of products over some rows of standardised latents (n, d) and centred targets (n, m)."""

    n: float
    x: Floats  # (d,)
    y: Floats  # (m,)
    xx: Floats  # (d, d)
    xy: Floats  # (d, m)
    yy: Floats  # (m,)

    def plus(self, other: "_Sums", sign: float = 1.0) -> "_Sums":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Sums(*(a + sign * b for a, b in pairs))


def folds_of(episode_index: NDArray[np.int64], frame_index: NDArray[np.int64], count: int = 5) -> NDArray[np.int64]:
    """Fold of each training row: whole episodes, spread so that folds are of equal size; seedless and repeatable.

    With a single training episode the folds are ``count`` stretches of time, the best that can be done with one.

    Args:
        episode_index: Episode of each row. Shape (n,).
        frame_index: Frame of each row within its episode. Shape (n,).
        count: Number of folds, fewer if there are fewer episodes.

    Returns:
        Fold number of each row, from 0. Shape (n,).
    """
    episodes, rows = np.unique(episode_index, return_counts=True)
    if len(episodes) == 1:
        rank = np.argsort(np.argsort(frame_index, kind="stable"), kind="stable")
        return (rank * count // len(frame_index)).astype(np.int64)
    count = min(count, len(episodes))
    load = np.zeros(count)
    fold = {}
    for i in np.argsort(-rows, kind="stable"):
        lightest = int(np.argmin(load))
        fold[episodes[i]] = lightest
        load[lightest] += rows[i]
    return np.array([fold[e] for e in episode_index], dtype=np.int64)


def fit(
    x: NDArray[Any],
    y: Floats,
    rows: NDArray[np.int64],
    folds: NDArray[np.int64],
    strengths: Sequence[float] = STRENGTHS,
    components: int = 0,
) -> Readout:
    """Fit the ridge on ``x[rows]`` to ``y[rows]``, choosing the strength of each target by cross-validation over folds.

    Args:
        x: Latents, in memory or memory-mapped. Shape (N, d).
        y: Targets. Shape (N, m).
        rows: The training rows. Shape (n,).
        folds: Fold of each training row, see :func:`folds_of`. Shape (n,).
        strengths: Candidates for alpha / n.
        components: How many leading principal directions to keep.

    Raises:
        UsageError: More than ``MAX_WIDTH`` latent values and as many rows.
    """
    system = _Standard.of(x, y, rows)
    sums = [system.sums(rows[folds == k]) for k in np.unique(folds)]
    total = sums[0]
    for s in sums[1:]:
        total = total.plus(s)
    grid = np.asarray(strengths, dtype=float)
    cv_r2 = 1.0 - sum(_held_out_errors(total.plus(s, -1.0), s, grid) for s in sums) / np.maximum(total.yy, 1e-300)
    best = grid[np.argmax(cv_r2, axis=0)] * len(rows)
    return system.readout(total, best, cv_r2, components)


def solve(x: NDArray[Any], y: Floats, rows: NDArray[np.int64], alpha: Floats) -> Readout:
    """Fit the ridge on ``x[rows]`` to ``y[rows]`` at given strengths ``alpha`` (m,). See :func:`fit`."""
    system = _Standard.of(x, y, rows)
    return system.readout(system.sums(rows), np.asarray(alpha, dtype=float), np.empty((0, y.shape[1])), 0)


@dataclass(frozen=True)
class _Standard:
    """Training data with the standardisation of its latents; rotated into the rows' span where rows are fewer than
    values.

    Ridge weights lie in the span of the training rows, so nothing is lost by it (representer theorem).
    """

    x: NDArray[Any]
    y: Floats
    mean: Floats
    scale: Floats
    y_mean: Floats
    span: Floats | None  # (d, r), orthonormal

    @classmethod
    def of(cls, x: NDArray[Any], y: Floats, rows: NDArray[np.int64]) -> "_Standard":
        if min(x.shape[1], len(rows)) > MAX_WIDTH:
            raise UsageError(
                f"the latent has {x.shape[1]} values a frame; the ridge takes at most {MAX_WIDTH} on so many frames. "
                "Pool or project it in the encoder"
            )
        mean, scale = _moments(x, rows)
        y_mean = np.zeros(y.shape[1]) if len(rows) == 0 else y[rows].mean(axis=0)
        plain = cls(x, y, mean, scale, y_mean, None)
        if len(rows) > x.shape[1]:
            return plain
        _, _, vt = np.linalg.svd(np.concatenate(list(plain.chunks(rows))), full_matrices=False)
        return cls(x, y, mean, scale, y_mean, np.ascontiguousarray(vt.T))

    def chunks(self, rows: NDArray[np.int64]) -> Iterator[Floats]:
        for part in _parts(len(rows)):
            s = (self.x[rows[part]].astype(np.float64) - self.mean) / self.scale
            yield s if self.span is None else s @ self.span

    def sums(self, rows: NDArray[np.int64]) -> _Sums:
        d = self.x.shape[1] if self.span is None else self.span.shape[1]
        m = self.y.shape[1]
        x, y, yy = np.zeros(d), np.zeros(m), np.zeros(m)
        xx, xy = np.zeros((d, d)), np.zeros((d, m))
        for part, s in zip(_parts(len(rows)), self.chunks(rows), strict=True):
            t = self.y[rows[part]] - self.y_mean
            x += s.sum(axis=0)
            y += t.sum(axis=0)
            yy += (t * t).sum(axis=0)
            xx += s.T @ s
            xy += s.T @ t
        return _Sums(float(len(rows)), x, y, xx, xy, yy)

    def readout(self, total: _Sums, alpha: Floats, cv_r2: Floats, components: int) -> Readout:
        values, vectors, projected = _eigen(total)
        weights = vectors @ (projected / (values[:, None] + alpha))
        intercept = self.y_mean + total.y / total.n - (total.x / total.n) @ weights
        leading = vectors[:, ::-1][:, :components]
        if self.span is not None:
            weights, leading = self.span @ weights, self.span @ leading
        return Readout(self.mean, self.scale, weights, intercept, alpha, cv_r2, leading)


def _eigen(s: _Sums) -> tuple[Floats, Floats, Floats]:
    """Eigenvalues (d,) ascending and vectors (d, d) of the centred products of x, and centred xy in that basis (d,
    m)."""
    from scipy.linalg import eigh

    centred = s.xx - np.outer(s.x, s.x) / s.n
    values, vectors = eigh(centred, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(values, 0.0), vectors, vectors.T @ (s.xy - np.outer(s.x, s.y) / s.n)


def _held_out_errors(train: _Sums, held: _Sums, strengths: Floats) -> Floats:
    """Squared error on the held-out fold of ridges fit on the others, from sums alone. Shape (s, m)."""
    values, vectors, projected = _eigen(train)
    n_x, n_y = train.x / train.n, train.y / train.n
    # Products of the held-out rows about the training means, in the training fold's eigenbasis.
    xx = held.xx - np.outer(held.x, n_x) - np.outer(n_x, held.x) + held.n * np.outer(n_x, n_x)
    xy = held.xy - np.outer(held.x, n_y) - np.outer(n_x, held.y) + held.n * np.outer(n_x, n_y)
    yy = held.yy - 2.0 * held.y * n_y + held.n * n_y**2
    xx, xy = vectors.T @ xx @ vectors, vectors.T @ xy
    errors = np.empty((len(strengths), len(yy)))
    for i, strength in enumerate(strengths):
        w = projected / (values[:, None] + strength * (train.n + held.n))
        errors[i] = yy - 2.0 * (w * xy).sum(axis=0) + (w * (xx @ w)).sum(axis=0)
    return np.maximum(errors, 0.0)


def _moments(x: NDArray[Any], rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
    mean = np.zeros(x.shape[1])
    for part in _parts(len(rows)):
        mean += x[rows[part]].sum(axis=0, dtype=np.float64)
    mean /= max(len(rows), 1)
    square = np.zeros(x.shape[1])
    for part in _parts(len(rows)):
        square += ((x[rows[part]] - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / max(len(rows), 1))
    typical = float(np.sqrt((deviation**2).mean()))
    return mean, np.maximum(deviation, LEAST_SCALE * typical) if typical > 0 else np.ones_like(deviation)


def _parts(n: int) -> Iterator[slice]:
    for start in range(0, n, CHUNK_ROWS):
        yield slice(start, min(start + CHUNK_ROWS, n))
