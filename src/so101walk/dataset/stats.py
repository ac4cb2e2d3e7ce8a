"""Statistics of columns as LeRobot v3 keeps them: min, max, mean, std, count and five quantiles, an episode and in all.

Quantiles of an episode are exact (linear interpolation); over episodes they are averaged by weight, as LeRobot 0.6.1
does (``datasets/compute_stats.py``), and so only an estimate there. Image values are scaled to 0..1, shape (3, 1, 1).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["QUANTILES", "STATISTICS", "ImageStats", "Stats", "aggregate", "of_column"]

Stats = dict[str, NDArray[np.float64] | NDArray[np.int64]]
"""One column's statistics by name; ``count`` is (1,) int64, the others have the column's shape."""

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

STATISTICS = ("min", "max", "mean", "std", "count", *QUANTILES)
"""The names, in LeRobot's order."""

STRIDE = 4
"""Image statistics look at every fourth pixel of every fourth row of every image; LeRobot samples too."""


@np.errstate(invalid="ignore")
def of_column(values: ArrayLike) -> Stats:
    """Statistics over the rows of a column.

    Args:
        values: Shape (n, d), or (n,) for a scalar column, whose statistics have shape (1,).
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    found: Stats = {
        "min": array.min(axis=0),
        "max": array.max(axis=0),
        "mean": array.mean(axis=0),
        "std": array.std(axis=0),
        "count": np.array([len(array)], dtype=np.int64),
    }
    found.update(zip(QUANTILES, np.quantile(array, list(QUANTILES.values()), axis=0), strict=True))
    return found


class ImageStats:
    """Gathers the statistics of a stream of images from a histogram a channel; ``count`` is the number of images."""

    def __init__(self) -> None:
        self._histogram = np.zeros((3, 256), dtype=np.int64)
        self._images = 0

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Take one image, (H, W, 3) uint8."""
        sample = rgb[::STRIDE, ::STRIDE]
        for channel in range(3):
            self._histogram[channel] += np.bincount(sample[..., channel].ravel(), minlength=256)
        self._images += 1

    def result(self) -> Stats:
        """The statistics so far, each (3, 1, 1) except ``count`` (1,). At least one image must have been added."""
        levels = np.arange(256) / 255.0
        weight = self._histogram / self._histogram.sum(axis=1, keepdims=True)
        mean = weight @ levels
        variance = (weight * (levels - mean[:, None]) ** 2).sum(axis=1)
        rising = np.cumsum(weight, axis=1)
        seen = self._histogram > 0
        values = {
            "min": levels[seen.argmax(axis=1)],
            "max": levels[255 - seen[:, ::-1].argmax(axis=1)],
            "mean": mean,
            "std": np.sqrt(variance),
        }
        for name, share in QUANTILES.items():
            values[name] = levels[(rising >= share - 1e-12).argmax(axis=1)]
        shaped: Stats = {name: v.reshape(3, 1, 1) for name, v in values.items()}
        shaped["count"] = np.array([self._images], dtype=np.int64)
        return {name: shaped[name] for name in STATISTICS}


@np.errstate(invalid="ignore")
def aggregate(episodes: Mapping[str, NDArray[Any]]) -> Stats:
    """Statistics over all episodes from those of each.

    Means and variances are pooled exactly (Chan, Golub, LeVeque 1979); quantiles are averaged by count.

    Args:
        episodes: By statistic, the values of all episodes: (episodes, *shape), ``count`` (episodes, 1).
    """
    counts = episodes["count"][:, 0]
    weight = (counts / counts.sum()).reshape(-1, *[1] * (episodes["mean"].ndim - 1))
    mean = (weight * episodes["mean"]).sum(axis=0)
    variance = (weight * (episodes["std"] ** 2 + (episodes["mean"] - mean) ** 2)).sum(axis=0)
    total: Stats = {
        "min": episodes["min"].min(axis=0),
        "max": episodes["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(variance),
        "count": np.array([counts.sum()], dtype=np.int64),
    }
    total.update({name: (weight * episodes[name]).sum(axis=0) for name in QUANTILES})
    return total
