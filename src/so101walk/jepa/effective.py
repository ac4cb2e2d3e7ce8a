"""How many independent frames a dataset is worth: equal frame counts are not equal information."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["effective_size"]


def effective_size(x: NDArray[np.floating], episode: NDArray[np.int64], episodes: Iterable[int]) -> NDArray[np.float64]:
    """Effective sample size of the mean of each column: ``n / (1 + 2 sum_k rho_k)``.

    Autocorrelations are pooled over episodes about the mean of all; their sum ends where the sum of two consecutive
    ones first turns negative (Geyer's initial positive sequence, Stat. Sci. 7, 1992). For an AR(1) chain it is
    ``n (1 - rho) / (1 + rho)``.

    Args:
        x: One row a frame. Shape (n, m).
        episode: Episode of each row. Shape (n,).
        episodes: Which to count.

    Returns:
        Shape (m,); 0 for a column that doesn't vary.
    """
    parts = [x[episode == e].astype(np.float64) for e in episodes]
    n = sum(len(p) for p in parts)
    mean = sum(p.sum(axis=0) for p in parts) / max(n, 1)
    longest = max(len(p) for p in parts)
    size = 1 << (2 * longest - 1).bit_length()
    sums = np.zeros((longest, x.shape[1]))
    counts = np.zeros(longest)
    for p in parts:
        spectrum = np.abs(np.fft.rfft(p - mean, size, axis=0)) ** 2
        sums[: len(p)] += np.fft.irfft(spectrum, size, axis=0)[: len(p)]
        counts[: len(p)] += np.arange(len(p), 0, -1)
    covariance = sums / counts[:, None]
    return np.array([_of_one(covariance[:, j], n) for j in range(x.shape[1])])


def _of_one(covariance: NDArray[np.float64], n: int) -> float:
    if covariance[0] <= 1e-12:
        return 0.0
    rho = covariance / covariance[0]
    time = -1.0
    for k in range(0, len(rho) - 1, 2):
        pair = rho[k] + rho[k + 1]
        if pair <= 0.0:
            break
        time += 2.0 * pair
    return n / max(time, 1.0)
