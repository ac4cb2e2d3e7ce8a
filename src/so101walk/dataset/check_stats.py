"""Are the stored statistics there, and those of the rows? Policies normalise by them: a wrong one spoils a training."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .findings import Finding
from .reader import IMAGE_DTYPES, Dataset

__all__ = ["RunningStats", "check_stats"]

NUMBERING = ("index", "episode_index", "task_index")
"""LeRobot's editing tools leave these as they were; nobody normalises by them, so they count in our datasets alone."""

IMAGE_TOLERANCE = 0.03
"""Of a channel's mean in 0..1. LeRobot samples every few frames, and the codec changes colours a little."""

Floats = NDArray[np.float64]


class RunningStats:
    """Count, mean, variance, min and max of a column, gathered an episode at a time (Chan, Golub, LeVeque 1979)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Floats = np.zeros(0)
        self._square: Floats = np.zeros(0)
        self.min: Floats = np.zeros(0)
        self.max: Floats = np.zeros(0)

    def add(self, values: NDArray[Any]) -> None:
        """Take the rows of an episode, (n, ...) with n of at least 1."""
        x = values.astype(np.float64).reshape(len(values), -1)
        n, mean = len(x), x.mean(0)
        square = ((x - mean) ** 2).sum(0)
        if self.count == 0:
            self.count, self.mean, self._square, self.min, self.max = n, mean, square, x.min(0), x.max(0)
            return
        gap = mean - self.mean
        total = self.count + n
        self.mean = self.mean + gap * n / total
        self._square = self._square + square + gap**2 * self.count * n / total
        self.count, self.min, self.max = total, np.minimum(self.min, x.min(0)), np.maximum(self.max, x.max(0))

    @property
    def std(self) -> Floats:
        """Standard deviation, of the population as LeRobot takes it."""
        return np.sqrt(self._square / max(self.count, 1))


def check_stats(dataset: Dataset, columns: dict[str, RunningStats], cameras: dict[str, Floats]) -> list[Finding]:
    """Compare ``meta/stats.json`` with what the rows have, and see that each episode has statistics.

    Args:
        dataset: Whose.
        columns: What the rows of all episodes have, by column.
        cameras: Mean of each channel in 0..1, shape (3,), by camera column; of those that were decoded whole.
    """
    stats = dataset.stats
    if stats is None:
        return [Finding("stats.missing", "error", f"there is no meta/stats.json{dataset.repair_hint}")]
    found: list[Finding] = []
    for name, true in columns.items():
        if len(dataset.features[name]["shape"]) > 1 or (dataset.meta is None and name in NUMBERING):
            continue
        if name not in stats:
            found.append(_missing(dataset, name))
        else:
            found.extend(_wrong(name, stats[name], true, dataset.repair_hint))
    for name in dataset.cameras:
        if name not in stats or "mean" not in stats[name]:
            found.append(_missing(dataset, name))
        elif name in cameras:
            stated = stats[name]["mean"].ravel()
            if stated.shape != (3,) or np.abs(stated - cameras[name]).max() > IMAGE_TOLERANCE:
                text = f"stats of {name}: mean is {_numbers(stated)}, the images have {_numbers(cameras[name])}"
                found.append(Finding("stats.wrong", "error", text + dataset.repair_hint))
    return [*found, *_episodes_without(dataset)]


def _wrong(name: str, stated: dict[str, Floats], true: RunningStats, hint: str) -> Iterable[Finding]:
    size = np.maximum(np.abs(true.min), np.abs(true.max))
    tolerance = {
        "min": 1e-5 * size + 1e-6,
        "max": 1e-5 * size + 1e-6,
        "mean": 1e-3 * true.std + 1e-4 * size + 1e-6,
        "std": 1e-2 * true.std + 1e-3 * size + 1e-6,
    }
    for key, allowed in tolerance.items():
        value = getattr(true, key)
        if key not in stated:
            yield Finding("stats.missing", "error", f"meta/stats.json has no {key} of {name}{hint}")
        elif stated[key].size != value.size or not (np.abs(stated[key].ravel() - value) <= allowed).all():
            text = f"stats of {name}: {key} is {_numbers(stated[key].ravel())}, the rows have {_numbers(value)}{hint}"
            yield Finding("stats.wrong", "error", text)
    if "count" in stated and int(stated["count"].ravel()[0]) != true.count:
        text = f"stats of {name}: count is {int(stated['count'].ravel()[0])}, there are {true.count} rows{hint}"
        yield Finding("stats.wrong", "error", text)


def _episodes_without(dataset: Dataset) -> Iterable[Finding]:
    known = dataset.episode_stats()
    needed = [n for n, f in dataset.features.items() if f["dtype"] in (*IMAGE_DTYPES, "float32", "float64")]
    for e in dataset.episodes:
        lacking = [n for n in needed if "mean" not in known.get(e.index, {}).get(n, {})]
        if lacking:
            text = f"the metadata has no statistics of {', '.join(lacking[:3])}{dataset.repair_hint}"
            yield Finding("stats.missing", "error", text, e.index)


def _missing(dataset: Dataset, name: str) -> Finding:
    return Finding("stats.missing", "error", f"meta/stats.json has no statistics of {name}{dataset.repair_hint}")


def _numbers(values: Floats) -> str:
    return "[" + ", ".join(f"{v:.4g}" for v in values[:6]) + (", ...]" if len(values) > 6 else "]")
