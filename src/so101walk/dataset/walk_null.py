"""Isotropic Gaussian walks drawn by Monte Carlo, as many episodes of the same lengths as the data has.

What a statistic of so few and so dependent samples does by chance is thus known exactly, whatever its bias: no formula
that holds only for long chains is relied on, and the effective sample size is right by construction.
"""

import math

import numpy as np
from numpy.typing import NDArray

from .walk_stats import Layout, pooled_rho

__all__ = ["autocorrelation", "chain", "debiased_rho", "process"]

Floats = NDArray[np.float64]


def chain(rng: np.random.Generator, rho: float, layout: Layout, d: int, copies: int) -> Floats:
    """Stationary Ornstein-Uhlenbeck chains of d independent joints (science.md). Shape (copies, n, d)."""
    episodes, longest = len(layout.lengths), max(layout.lengths)
    z = rng.standard_normal((longest, copies, episodes, d))
    kick = math.sqrt(1 - rho * rho)
    for t in range(1, longest):
        z[t] = rho * z[t - 1] + kick * z[t]
    return _concatenate(np.moveaxis(z, 0, 2), layout)


def process(rng: np.random.Generator, acf: Floats, layout: Layout, d: int, copies: int) -> Floats:
    """Stationary Gaussian processes of d independent joints with one autocorrelation function.

    By circulant embedding (Davies and Harte 1987), negative eigenvalues set to 0 and the variance brought back to 1.

    Args:
        rng: Generator.
        acf: Autocorrelation at lags 0, 1, ...; 0 beyond its end. ``acf[0]`` is 1.
        layout: Lengths of the episodes.
        d: Joints.
        copies: Monte-Carlo copies.

    Returns:
        Shape (copies, n, d).
    """
    longest = max(layout.lengths)
    size = 2 ** math.ceil(math.log2(2 * max(longest, len(acf))))
    row = np.zeros(size)
    row[: len(acf)] = acf
    row[size - len(acf) + 1 :] = acf[:0:-1]
    power = np.clip(np.fft.rfft(row).real, 0.0, None)
    power /= (2 * power.sum() - power[0] - power[-1]) / size
    white = np.fft.rfft(rng.standard_normal((copies, len(layout.lengths), d, size)))
    z = np.fft.irfft(np.sqrt(power) * white, n=size)[..., :longest]
    return _concatenate(np.moveaxis(z, -1, 2), layout)


def _concatenate(z: Floats, layout: Layout) -> Floats:
    """Padded episodes (copies, episodes, longest, d) to waypoints one after another (copies, n, d)."""
    inside = np.arange(max(layout.lengths)) < np.array(layout.lengths)[:, None]
    return z[:, inside]


def debiased_rho(z: Floats, layout: Layout, rng: np.random.Generator, copies: int = 200) -> float:
    """The correlation whose chains show, on average, the pooled rho hat of ``z`` (n, d). In [0, 0.9999].

    The bias of :func:`~so101walk.dataset.walk_stats.pooled_rho` is measured on such chains and taken off.
    """
    seen = float(np.clip(pooled_rho(z, layout), 0.0, 0.9999))
    by_chance = float(np.mean(pooled_rho(chain(rng, seen, layout, z.shape[-1], copies), layout)))
    return float(np.clip(2 * seen - by_chance, 0.0, 0.9999))


def autocorrelation(x: list[Floats], lags: int) -> Floats:
    """Autocorrelation of each joint of standardised series, at lags 0 to ``lags`` - 1.

    Args:
        x: One array (m, d) an episode, of mean 0 over all together.
        lags: At most the longest episode.

    Returns:
        Shape (lags, d). Products are divided by their number, so that the curve isn't pulled down at long lags.
    """
    size = 2 ** math.ceil(math.log2(2 * max(len(e) for e in x)))
    total = np.zeros((lags, x[0].shape[1]))
    count = np.zeros(lags)
    for e in x:
        spectrum = np.fft.rfft(e, n=size, axis=0)
        total += np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=0)[:lags]
        count += np.clip(len(e) - np.arange(lags), 0, None)
    with np.errstate(invalid="ignore", divide="ignore"):
        curve = total / np.maximum(count, 1)[:, None]
        return curve / curve[0]
