"""What a walk is made of, in numbers: correlation at the step, scale, independence and Gaussianity of each joint.

All functions take latents ``z`` of shape (..., n, d): ``n`` waypoints of all episodes one after another (a
:class:`Layout` says where each begins) and ``d`` joints; leading axes are Monte-Carlo copies, so that the same code
measures the data and its null. The law is known under the walk, N(0, I) (science.md), so correlation and scale are
taken about 0, which spares the bias that an estimated mean brings to short chains.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Layout",
    "bootstrap_rho",
    "correlated_pairs",
    "correlations",
    "effective_samples",
    "kurtosis",
    "pooled_rho",
    "rho_hat",
    "sigreg",
    "skew",
    "statistics",
]

KNOTS = 17
LAST_KNOT = 3.0
"""SIGReg compares characteristic functions at 17 knots on [0, 3] (science.md, the paper's recipe)."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """How waypoints of several episodes lie one after another: the number of each episode's. At least 1 each."""

    lengths: tuple[int, ...]

    @classmethod
    def of(cls, chains: Sequence[Floats]) -> "Layout":
        """The layout of chains (m, d) that are to be concatenated."""
        return cls(tuple(len(c) for c in chains))

    @property
    def n(self) -> int:
        """Waypoints in all."""
        return sum(self.lengths)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Index of each episode's first waypoint. Shape (episodes,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Indices t such that t and t + 1 are consecutive waypoints of one episode. Shape (n - episodes,)."""
        inside = np.ones(self.n, dtype=bool)
        inside[self.first + np.array(self.lengths) - 1] = False
        return np.flatnonzero(inside)

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """1 where a waypoint has a next one in its episode, else 0; and in how many pairs each is. Shapes (n,)."""
        inside = np.zeros(self.n)
        inside[self.pairs] = 1.0
        ends = inside.copy()
        ends[1:] += inside[:-1]
        return inside, ends


def rho_hat(z: Floats, layout: Layout) -> Floats:
    """Correlation of each joint from one waypoint to the next, about the known mean 0. Shape (..., d).

    2 sum z z' / sum (z^2 + z'^2), which lies in [-1, 1]. NaN for a joint that is 0 throughout.
    """
    product, square = _pair_sums(z, layout)
    with np.errstate(invalid="ignore"):
        return product / square


def pooled_rho(z: Floats, layout: Layout) -> Floats:
    """One correlation for all joints together, each weighted by its variance. Shape (...)."""
    product, square = _pair_sums(z, layout)
    with np.errstate(invalid="ignore"):
        return product.sum(-1) / square.sum(-1)


def _pair_sums(z: Floats, layout: Layout) -> tuple[Floats, Floats]:
    a, b = z[..., layout.pairs, :], z[..., layout.pairs + 1, :]
    return 2 * (a * b).sum(-2), (a * a + b * b).sum(-2)


def bootstrap_rho(
    z: Floats, layout: Layout, rng: np.random.Generator, level: float = 0.95, draws: int = 2000
) -> tuple[Floats, tuple[float, float]]:
    """Confidence intervals of :func:`rho_hat` and of its spread, by resampling whole episodes.

    Percentile intervals, widened for few episodes by using the quantiles of a t law (the "expanded percentile" of
    Hesterberg 2015, "What teachers should know about the bootstrap", arXiv 1411.5279). With one episode nothing can be
    resampled and the intervals are NaN.

    Returns:
        Interval of each joint, shape (d, 2), and the interval of the largest minus the smallest rho hat.
    """
    from scipy import special

    episodes, d = len(layout.lengths), z.shape[-1]
    if episodes < 2:
        return np.full((d, 2), np.nan), (math.nan, math.nan)
    owner = np.searchsorted(layout.first, layout.pairs, side="right") - 1
    a, b = z[layout.pairs], z[layout.pairs + 1]
    product, square = np.zeros((episodes, d)), np.zeros((episodes, d))
    np.add.at(product, owner, 2 * a * b)
    np.add.at(square, owner, a * a + b * b)
    weight = rng.multinomial(episodes, np.full(episodes, 1 / episodes), size=draws).astype(float)
    with np.errstate(invalid="ignore"):
        rho = (weight @ product) / (weight @ square)
    t = special.stdtrit(episodes - 1, (1 - level) / 2) * math.sqrt(episodes / (episodes - 1))
    tail = float(special.ndtr(t))
    spread = np.quantile(rho.max(1) - rho.min(1), [tail, 1 - tail])
    return np.quantile(rho, [tail, 1 - tail], axis=0).T, (float(spread[0]), float(spread[1]))


def correlated_pairs(d: int) -> list[tuple[int, int, int]]:
    """What :func:`correlations` lists: (i, j, lag), lag 0 for each pair i < j, lag 1 (i leads j) for each i != j."""
    at_once = [(i, j, 0) for i in range(d) for j in range(i + 1, d)]
    return at_once + [(i, j, 1) for i in range(d) for j in range(d) if i != j]


def correlations(z: Floats, layout: Layout) -> Floats:
    """Correlation between different joints, at one waypoint and one step apart; all 0 under the walk.

    Returns:
        One value for each of :func:`correlated_pairs`. Shape (..., d (d - 1) / 2 + d (d - 1)).
    """
    d = z.shape[-1]
    now = z[..., :-1, :] * layout.weights[0][:-1, None]
    same = np.swapaxes(z, -1, -2) @ z / max(layout.n, 1)
    next_ = np.swapaxes(now, -1, -2) @ z[..., 1:, :] / max(len(layout.pairs), 1)
    scale = np.sqrt(np.einsum("...ii->...i", same))
    norm = scale[..., :, None] * scale[..., None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        same, next_ = same / norm, next_ / norm
    i, j, lag = np.array(correlated_pairs(d), dtype=int).reshape(-1, 3).T
    return np.where(lag == 0, same[..., i, j], next_[..., i, j])


def effective_samples(n: int, rho: float) -> float:
    """How many independent draws n waypoints of a walk are worth for a mean: n (1 - rho) / (1 + rho) (science.md)."""
    return n * (1 - rho) / (1 + rho)


def skew(z: Floats) -> Floats:
    """Skewness of each joint, 0 for a Gaussian. Shape (..., d); NaN where a joint is constant."""
    x, variance = _centered(z)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x * x * x).mean(-2) / variance**1.5


def kurtosis(z: Floats) -> Floats:
    """Kurtosis of each joint, 3 for a Gaussian. Shape (..., d); NaN where a joint is constant."""
    x, variance = _centered(z)
    square = x * x
    with np.errstate(invalid="ignore", divide="ignore"):
        return (square * square).mean(-2) / variance**2


def _centered(z: Floats) -> tuple[Floats, Floats]:
    x = z - z.mean(-2, keepdims=True)
    return x, (x * x).mean(-2)


def sigreg(z: Floats, directions: Floats) -> Floats:
    """The SIGReg statistic of each direction: n times the weighted squared distance of characteristic functions.

    For each unit direction the empirical characteristic function of the projection is compared with exp(-t^2/2) at 17
    knots on [0, 3]; the weights are the trapezoid's, doubled by symmetry, times exp(-t^2/2) (science.md).

    Args:
        z: Latents (..., n, d).
        directions: Unit vectors (d, k).

    Returns:
        Shape (..., k). Their mean over random directions is SIGReg.
    """
    t = np.linspace(0.0, LAST_KNOT, KNOTS)
    gauss = np.exp(-t * t / 2)
    weight = np.full(KNOTS, 2 * (t[1] - t[0]))
    weight[[0, -1]] /= 2
    turn = np.exp(1j * (t[1] - t[0]) * (z @ directions)).astype(np.complex64)
    wave = np.ones_like(turn)
    total = np.zeros(turn.shape[:-2] + turn.shape[-1:])
    for k in range(1, KNOTS):
        wave *= turn
        total += weight[k] * gauss[k] * np.abs(wave.mean(-2) - gauss[k]) ** 2
    return total * z.shape[-2]


def statistics(z: Floats, layout: Layout) -> dict[str, Floats]:
    """Everything that is tested against a null, on scales where the null is nearly normal.

    Sums over waypoints are matrix products and each power of ``z`` is formed once: this runs on thousands of copies.

    Returns:
        ``isotropy`` (..., d): rho hat of each joint against the median joint's; ``rho`` (..., 1): the pooled one, both
        by Fisher's transform; ``scale`` and ``start`` (..., d): log mean square over all waypoints and over the first
        of each episode; ``mean`` (..., d); ``dependence``: Fisher's transform of :func:`correlations`; ``skew``
        (..., d); ``kurtosis`` (..., d): its log.
    """
    n = layout.n
    inside, ends = layout.weights
    square = z * z
    product = 2 * (inside[:-1] @ (z[..., :-1, :] * z[..., 1:, :]))
    power = ends @ square
    one, two = z.mean(-2), square.mean(-2)
    three, four = np.full(n, 1 / n) @ (square * z), np.full(n, 1 / n) @ (square * square)
    variance = two - one**2
    third = three - 3 * one * two + 2 * one**3
    fourth = four - 4 * one * three + 6 * one**2 * two - 3 * one**4
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = np.arctanh(product / power)
        return {
            "isotropy": rho - np.median(rho, axis=-1, keepdims=True),
            "rho": np.arctanh(product.sum(-1) / power.sum(-1))[..., None],
            "scale": np.log(two),
            "start": np.log((z[..., layout.first, :] ** 2).mean(-2)),
            "mean": one,
            "dependence": np.arctanh(np.clip(correlations(z, layout), -0.999999, 0.999999)),
            "skew": third / variance**1.5,
            "kurtosis": np.log(fourth / variance**2),
        }
