"""Is it an isotropic Gaussian walk? Each property is tested against walks drawn by chance, and the joints named.

A property fails when two things hold: it is further off than chance brings, and further off than matters. The first is
a test against Monte-Carlo walks of the same lengths, by the largest deviation over all joints (or pairs of joints), so
that the chance of any false alarm in a sound dataset is at most :data:`ALPHA` over all properties together. The second
keeps a very long walk from failing for what no one would notice, such as the truncation to the safe set.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .walk_stats import Layout, correlated_pairs, correlations, kurtosis, pooled_rho, rho_hat, sigreg, skew, statistics

__all__ = ["ALPHA", "MATTERS", "Property", "Sigreg", "judge", "judge_sigreg"]

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, Layout, int], Floats]
"""Draws isotropic walks of a layout: (rng, layout, copies) to (copies, n, d)."""

ALPHA = 0.01
"""Chance that a sound walk fails any of the properties."""

COPIES, MANY_POINTS = 2000, 1000
"""Monte-Carlo walks: enough to resolve ALPHA shared by nine properties; half of them for walks of many waypoints."""

SIGREG_COPIES = 400
"""Fewer for SIGReg, which costs more; its tail is that of a gamma law with the three moments seen."""

DIRECTIONS = 48
"""Random directions of SIGReg here; the paper trains with 256 to 1024, but in 6 dimensions these are dense enough."""

BLOCK = 1_500_000
"""Numbers drawn at once, to bound memory to some tens of MB."""

MATTERS: dict[str, float] = {
    "isotropy": 0.01,
    "rho": 0.01,
    "scale": 0.05,
    "start": 0.15,
    "mean": 0.1,
    "dependence": 0.05,
    "skew": 0.15,
    "kurtosis": 0.4,
    "sigreg": 1e-3,
}
"""How far off is too little to matter: in rho hat, in standard deviations (scale, start, mean), in correlation, in skew
and kurtosis; for SIGReg a distance of characteristic functions a sample, that of a Gaussian 5 % too wide."""

WORDS: dict[str, str] = {
    "isotropy": "rho differs between joints",
    "rho": "rho is not the declared one",
    "scale": "the spread is not 1 in z",
    "start": "episodes don't begin at a draw from the stationary law",
    "mean": "the mean is not 0 in z",
    "dependence": "joints depend on each other",
    "skew": "skewed, not Gaussian",
    "kurtosis": "tails not Gaussian",
    "sigreg": "not Gaussian (SIGReg)",
}


@dataclass(frozen=True)
class Property:
    """One property of a walk, tested.

    Attributes:
        name: A key of :data:`MATTERS`.
        p: Chance that an isotropic Gaussian walk of this size deviates as much in any joint.
        failed: Whether it is too far off by chance and by what matters.
        joints: Which of the d joints are too far off, by position.
        resolution: The smallest deviation that this many samples can tell from chance, on the scale of
            :func:`~so101walk.dataset.walk_stats.statistics`.
    """

    name: str
    p: float
    failed: bool
    joints: tuple[int, ...]
    resolution: float

    @property
    def words(self) -> str:
        """What a failure means."""
        return WORDS[self.name]


@dataclass(frozen=True)
class Sigreg:
    """The SIGReg statistic of a walk beside its null: what isotropic Gaussian walks of the same size have."""

    statistic: float
    null_mean: float
    null_q99: float
    p: float


def judge(
    z: Floats,
    layout: Layout,
    draw: Draw,
    rng: np.random.Generator,
    names: tuple[str, ...],
    declared_rho: float | None = None,
) -> dict[str, Property]:
    """Test the named properties, apart from ``sigreg`` which has :func:`judge_sigreg`.

    Args:
        z: Latents (n, d).
        layout: Their episodes.
        draw: The null.
        rng: Generator of the Monte-Carlo walks.
        names: Keys of :data:`MATTERS`.
        declared_rho: With it, ``rho`` is tested too: the pooled correlation against this one, which ``draw`` has.
    """
    copies = COPIES if layout.n <= MANY_POINTS else COPIES // 2
    blocks = _blocks(copies, max(1, BLOCK // (layout.n * z.shape[-1])))
    parts = [statistics(draw(rng, layout, n), layout) for n in blocks]
    seen, off = statistics(z, layout), _deviations(z, layout)
    if declared_rho is not None:
        off["rho"] = np.abs(np.atleast_1d(pooled_rho(z, layout)) - declared_rho)
        names = (*names, "rho")
    null = {name: np.concatenate([p[name] for p in parts]) for name in names}
    return {name: _property(name, seen[name], null[name], off[name], z.shape[-1]) for name in names}


def judge_sigreg(z: Floats, layout: Layout, draw: Draw, rng: np.random.Generator) -> tuple[Property, Sigreg]:
    """Whether the law at waypoints is N(0, I) by the SIGReg statistic, over random directions and along each joint."""
    from scipy import special

    d = z.shape[-1]
    directions = rng.standard_normal((d, DIRECTIONS))
    both = np.concatenate([directions / np.linalg.norm(directions, axis=0), np.eye(d)], axis=1)
    block = max(1, BLOCK // (layout.n * both.shape[1]))
    parts = [sigreg(draw(rng, layout, n), both) for n in _blocks(SIGREG_COPIES, block)]
    null, seen = np.concatenate(parts), sigreg(z, both)
    over_all, along = null[:, :DIRECTIONS].mean(1), null[:, DIRECTIONS:].ravel()
    statistic = float(seen[:DIRECTIONS].mean())
    share = ALPHA / len(MATTERS)
    p = _gamma_tail(statistic, over_all)
    p_joint = np.array([_gamma_tail(float(s), along) for s in seen[DIRECTIONS:]])
    matters = np.maximum(statistic, seen[DIRECTIONS:]) / layout.n >= MATTERS["sigreg"]
    joints = np.flatnonzero((p_joint < share / (2 * d)) & matters)
    jointly = p < share / 2 and statistic / layout.n >= MATTERS["sigreg"]
    both_p = float(min(1.0, 2 * min(p, d * p_joint.min(initial=1.0))))
    shape, scale, shift = _gamma(over_all)
    q99 = float(special.gammaincinv(shape, 0.99) * scale + shift)
    resolution = float(special.gammaincinv(shape, 1 - share / 2) * scale + shift)
    found = Property("sigreg", both_p, bool(jointly or len(joints)), tuple(int(j) for j in joints), resolution)
    return found, Sigreg(statistic, float(over_all.mean()), q99, p)


def _blocks(total: int, size: int) -> list[int]:
    return [size] * (total // size) + ([total % size] if total % size else [])


def _deviations(z: Floats, layout: Layout) -> dict[str, Floats]:
    """How far off each joint or pair is, in the units of :data:`MATTERS`."""
    rho = rho_hat(z, layout)
    return {
        "isotropy": np.abs(rho - np.median(rho)),
        "scale": np.abs(np.sqrt((z * z).mean(0)) - 1),
        "start": np.abs(np.sqrt((z[layout.first] ** 2).mean(0)) - 1),
        "mean": np.abs(z.mean(0)),
        "dependence": np.abs(correlations(z, layout)),
        "skew": np.abs(skew(z)),
        "kurtosis": np.abs(kurtosis(z) - 3),
    }


def _property(name: str, seen: Floats, null: Floats, off: Floats, d: int) -> Property:
    """A max-T test (Westfall and Young 1993): components are exchangeable under the null, so they share one scale."""
    if not len(seen):
        return Property(name, 1.0, False, (), math.inf)
    center, spread = null.mean(), null.std()
    largest = (np.abs(null - center) / spread).max(1)
    t = np.nan_to_num(np.abs(seen - center) / spread, nan=0.0, posinf=np.inf)
    p = float((1 + (largest >= t.max()).sum()) / (1 + len(largest)))
    rank = math.ceil((1 + len(largest)) * (1 - ALPHA / len(MATTERS)))
    limit = float(np.sort(largest)[min(rank, len(largest)) - 1])
    wrong = np.flatnonzero((t > limit) & (off >= MATTERS[name]))
    joints = wrong if name != "dependence" else np.unique([correlated_pairs(d)[k][:2] for k in wrong]).astype(int)
    named = tuple(int(j) for j in joints) if name != "rho" else ()
    return Property(name, p, bool(len(wrong)), named, limit * float(spread))


def _gamma(null: Floats) -> tuple[float, float, float]:
    """Shape, scale and shift of the gamma law with the null's mean, variance and skewness.

    SIGReg is asymptotically a weighted sum of chi-squares, whose far tail this fits well (Solomon and Stephens 1977).
    """
    mean, std = float(null.mean()), float(null.std())
    lean = max(float(((null - mean) ** 3).mean()) / std**3, 0.1)
    return 4 / lean**2, std * lean / 2, mean - 2 * std / lean


def _gamma_tail(statistic: float, null: Floats) -> float:
    from scipy import special

    shape, scale, shift = _gamma(null)
    return float(special.gammaincc(shape, max(0.0, (statistic - shift) / scale)))
