"""The evidence on a walk: at the waypoints that a dataset of ours marks, or in the frames of anyone's.

At waypoints the law is known to the last parameter, N(0, I) and the declared rho. In frames it is known only that,
under an isotropic walk, all joints have one autocorrelation function and nothing to do with each other; joints are
brought to mean 0 and variance 1, the common function is estimated, and the null are Gaussian processes that have it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .claims import Claims
from .reader import Dataset
from .walk_judge import Property, Sigreg, judge, judge_sigreg
from .walk_null import autocorrelation, chain, debiased_rho, process
from .walk_stats import (
    Layout,
    bootstrap_rho,
    correlated_pairs,
    correlations,
    effective_samples,
    kurtosis,
    pooled_rho,
    rho_hat,
    skew,
)

__all__ = ["Evidence", "from_frames", "from_waypoints"]

Floats = NDArray[np.float64]
Rows = Mapping[str, NDArray[Any]]

LAW = ("isotropy", "scale", "start", "mean", "dependence", "skew", "kurtosis")
STANDARDISED_LAW = ("isotropy", "start", "dependence", "skew", "kurtosis")
"""Mean and scale say nothing once they were taken from the data."""

MAX_POINTS = 4000
"""Tests look at no more waypoints, of evenly chosen episodes: more could only find what is too small to matter."""

MIN_STEPS = 20
"""With fewer steps nothing is said of a walk."""

MIN_EFFECTIVE, MIN_EPISODES = 20.0, 4
"""Without waypoints the common autocorrelation must be estimated, which takes some independent samples."""

STEP_CORRELATION = 0.9
"""Frames are thinned to the lag at which the common autocorrelation falls below this."""

CURVE_LAGS = (1, 2, 5, 10, 15, 30, 60, 120)


@dataclass(frozen=True)
class Evidence:
    """What is known about a walk. Arrays have one entry a moving joint, (m,).

    Attributes:
        source: Where it was measured, in words.
        at_waypoints: At waypoints, or else in frames.
        names: All joints.
        moving: Those that move.
        still: Those that don't though nothing says they shouldn't.
        episodes: Episodes.
        points: Waypoints, or frames after thinning.
        steps: Pairs of consecutive points.
        lag_frames: Frames between two points in frames; None at waypoints.
        rejected: Steps that kept the old state; None if unknown.
        effective: Effective sample size of a mean.
        pooled_rho: Correlation at the step over all joints.
        rho: Of each joint.
        rho_ci: Its 95 % interval, (m, 2).
        spread_ci: 95 % interval of the largest less the smallest rho.
        mean, std, skew, kurtosis: Of each joint; in z at waypoints, else in the units of the joints.
        strongest: The two joints with the largest correlation, its lag, its value.
        properties: What was tested.
        sigreg: The SIGReg statistic.
        curves: Autocorrelation of each joint at some lags in frames; None at waypoints.
    """

    source: str
    at_waypoints: bool
    names: tuple[str, ...]
    moving: tuple[str, ...]
    still: tuple[str, ...]
    episodes: int
    points: int
    steps: int
    lag_frames: int | None
    rejected: int | None
    effective: float
    pooled_rho: float
    rho: Floats
    rho_ci: Floats
    spread_ci: tuple[float, float]
    mean: Floats
    std: Floats
    skew: Floats
    kurtosis: Floats
    strongest: tuple[tuple[str, str], int, float] | None
    properties: dict[str, Property]
    sigreg: Sigreg | None
    curves: dict[str, Any] | None = None


def from_waypoints(rows: Mapping[int, Rows], claims: Claims, rng: np.random.Generator) -> Evidence | str:
    """Evidence from ``walk.z`` at the rows that ``walk.waypoint`` flags, or a text: why there is too little."""
    from ..joints import JOINTS

    chains = [c for r in rows.values() for c in _chains_of(r)]
    layout = Layout.of(chains)
    if len(layout.pairs) < MIN_STEPS if chains else True:
        return f"unknown: {len(layout.pairs) if chains else 0} steps between waypoints are too few to say anything"
    z = np.concatenate(chains)
    moves = np.ptp(z, axis=0) > 0
    off = np.zeros(len(moves), bool) if claims.active is None else ~claims.active
    rejected = int((np.diff(z, axis=0)[layout.pairs] == 0).all(1).sum())
    z = z[:, moves]
    if not moves.any():
        return "unknown: no joint moves"
    u, rho = _as_gaussian(z, claims), claims.rho
    if rho is not None and claims.alpha is not None:
        from ..policies.gennorm import copula_rho

        rho = copula_rho(rho, claims.alpha)
    properties, sigreg = _test_waypoints(u, z, chains, rho, rng)
    ci, spread_ci = bootstrap_rho(z, layout, rng)
    pooled = float(pooled_rho(z, layout))
    return Evidence(
        source="walk.z at waypoints",
        at_waypoints=True,
        names=JOINTS,
        moving=_where(JOINTS, moves),
        still=_where(JOINTS, ~moves & ~off),
        episodes=len(rows),
        points=layout.n,
        steps=len(layout.pairs),
        lag_frames=None,
        rejected=rejected if claims.is_walk else None,
        effective=effective_samples(layout.n, pooled),
        pooled_rho=pooled,
        rho=rho_hat(z, layout),
        rho_ci=ci,
        spread_ci=spread_ci,
        mean=z.mean(0),
        std=z.std(0),
        skew=skew(z),
        kurtosis=kurtosis(z),
        strongest=_strongest(z, layout, _where(JOINTS, moves)),
        properties=properties,
        sigreg=sigreg,
    )


def _where(names: tuple[str, ...], mask: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, chosen in zip(names, mask, strict=True) if chosen)


def _chains_of(rows: Rows) -> list[Floats]:
    """Waypoints of an episode, in pieces that each count on without a gap."""
    at = np.flatnonzero(rows["walk.waypoint"] >= 0)
    if not len(at):
        return []
    index, z = rows["walk.waypoint"][at], rows["walk.z"][at].astype(np.float64)
    return np.split(z, np.flatnonzero(np.diff(index) != 1) + 1)


def _as_gaussian(z: Floats, claims: Claims) -> Floats:
    if claims.alpha is None:
        return z
    from ..policies.gennorm import to_gaussian

    return to_gaussian(z, claims.alpha)


def _test_waypoints(
    u: Floats, z: Floats, chains: list[Floats], rho: float | None, rng: np.random.Generator
) -> tuple[dict[str, Property], Sigreg]:
    """Test ``u``, Gaussian if the policy is what it says; the law of ``z`` itself by SIGReg, skew and kurtosis."""
    keep = _spread_out([len(c) for c in chains])
    layout = Layout(tuple(len(chains[k]) for k in keep))
    rows = _rows_of([len(c) for c in chains], keep)
    u, z, d = u[rows], z[rows], z.shape[1]

    def null(at: float) -> Any:
        return lambda generator, shape, copies: chain(generator, at, shape, d, copies)

    given = rho if rho is not None else debiased_rho(u, layout, rng)
    properties = judge(u, layout, null(given), rng, LAW, rho)
    if "rho" in properties and properties["rho"].failed:
        given = debiased_rho(u, layout, rng)
        properties = {**judge(u, layout, null(given), rng, LAW), "rho": properties["rho"]}
    if z is not u:
        properties |= judge(z, layout, null(given), rng, ("skew", "kurtosis"))
    properties["sigreg"], sigreg = judge_sigreg(z, layout, null(given), rng)
    return properties, sigreg


def from_frames(dataset: Dataset, rows: Mapping[int, Rows], rng: np.random.Generator) -> Evidence | str:
    """Evidence from ``observation.state`` of every frame; a text that says why when there is too little."""
    state = "observation.state"
    if state not in dataset.features:
        return "unknown: the dataset has neither walk.z nor observation.state"
    series = [r[state].astype(np.float64) for r in rows.values() if len(r[state]) > 1]
    if len(series) < MIN_EPISODES:
        return f"unknown: without walk.z it takes {MIN_EPISODES} episodes or more; there are {len(series)}"
    names = tuple(n.removesuffix(".pos") for n in dataset.names(state))
    q = np.concatenate(series)
    moves = np.ptp(q, axis=0) > 1e-9
    if not moves.any():
        return "unknown: no joint moves"
    mean, std = q[:, moves].mean(0), q[:, moves].std(0)
    x = [(s[:, moves] - mean) / std for s in series]
    lags = max(2, int(0.9 * np.median([len(s) for s in x])))
    acf = autocorrelation(x, lags)
    common = acf.mean(1) * _fade(lags)
    effective = sum(len(s) for s in x) / max(1.0, 1.0 + 2.0 * float(common[1:].sum()))
    if effective < MIN_EFFECTIVE:
        return (
            f"unknown: without walk.z it takes {MIN_EFFECTIVE:.0f} independent samples; there are about {effective:.0f}"
        )
    below = np.flatnonzero(common < STEP_CORRELATION)
    lag = int(below[0]) if len(below) else lags - 1
    thin = [s[::lag] for s in x]
    moving = _where(names, moves)
    properties, sigreg = _test_frames(thin, common[::lag], rng)
    layout, z = Layout.of(thin), np.concatenate(thin)
    ci, spread_ci = bootstrap_rho(z, layout, rng)
    shown = [k for k in CURVE_LAGS if k < lags]
    curves = {"lags_frames": shown} | {n: [float(v) for v in acf[shown, j]] for j, n in enumerate(moving)}
    return Evidence(
        source=f"{state} at every {lag} frames" if lag > 1 else f"{state} at every frame",
        at_waypoints=False,
        names=names,
        moving=moving,
        still=_where(names, ~moves),
        episodes=len(series),
        points=layout.n,
        steps=len(layout.pairs),
        lag_frames=lag,
        rejected=None,
        effective=effective,
        pooled_rho=float(pooled_rho(z, layout)),
        rho=rho_hat(z, layout),
        rho_ci=ci,
        spread_ci=spread_ci,
        mean=mean,
        std=std,
        skew=skew(q[:, moves]),
        kurtosis=kurtosis(q[:, moves]),
        strongest=_strongest(z, layout, moving),
        properties=properties,
        sigreg=sigreg,
        curves=curves,
    )


def _test_frames(thin: list[Floats], acf: Floats, rng: np.random.Generator) -> tuple[dict[str, Property], Sigreg]:
    keep = _spread_out([len(s) for s in thin])
    layout = Layout(tuple(len(thin[k]) for k in keep))
    z = _standardised(np.concatenate([thin[k] for k in keep]))

    def draw(generator: np.random.Generator, shape: Layout, copies: int) -> Floats:
        return _standardised(process(generator, acf, shape, z.shape[1], copies))

    properties = judge(z, layout, draw, rng, STANDARDISED_LAW)
    properties["sigreg"], sigreg = judge_sigreg(z, layout, draw, rng)
    return properties, sigreg


def _standardised(z: Floats) -> Floats:
    centered = z - z.mean(-2, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(-2, keepdims=True))


def _fade(lags: int) -> Floats:
    """1 over the first half of the lags, then a cosine down to 0, against the noise at long lags. Shape (lags,)."""
    k = np.arange(lags) / lags
    return np.where(k <= 0.5, 1.0, 0.5 + 0.5 * np.cos(np.pi * (2 * k - 1)))


def _spread_out(lengths: list[int]) -> list[int]:
    """Positions of evenly chosen chains that together have at most :data:`MAX_POINTS` points."""
    total = sum(lengths)
    if total <= MAX_POINTS:
        return list(range(len(lengths)))
    count = max(1, int(len(lengths) * MAX_POINTS / total))
    return sorted({int(k) for k in np.linspace(0, len(lengths) - 1, count)})


def _rows_of(lengths: list[int], keep: list[int]) -> NDArray[np.int64]:
    ends = np.cumsum(lengths)
    return np.concatenate([np.arange(ends[k] - lengths[k], ends[k]) for k in keep])


def _strongest(z: Floats, layout: Layout, names: tuple[str, ...]) -> tuple[tuple[str, str], int, float] | None:
    if z.shape[1] < 2:
        return None
    values = np.nan_to_num(correlations(z, layout))
    k = int(np.abs(values).argmax())
    i, j, lag = correlated_pairs(z.shape[1])[k]
    return (names[i], names[j]), lag, float(values[k])
