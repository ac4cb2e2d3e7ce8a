"""R^2 and what is made of it, with intervals that resample whole episodes.

Frames of one episode are nearly the same frame many times over, so an episode is the unit of chance (block bootstrap,
Kuensch, Ann. Statist. 17, 1989). Everything is computed from a few sums per episode, so a resample is a weighting of
them. The interval is the studentised bootstrap (Efron and Tibshirani 1993, ch. 12.5) with the linearised standard error
of a ratio estimate, never narrower than Student's t on episodes - 1 degrees of freedom, which alone is used below
``MIN_BOOTSTRAP`` episodes, where too few distinct resamples exist. Coverage is measured in the tests.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EpisodeSums",
    "Interval",
    "Statistic",
    "anisotropy",
    "difference",
    "estimate",
    "mean",
    "of_joint",
]

Floats = NDArray[np.float64]

MIN_BOOTSTRAP = 8
RESAMPLES = 2000
LEVEL = 0.95

Statistic = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""From R^2 (b, m) and its influence by episode (b, e, m) to a figure (b,) and its influence (b, e)."""


@dataclass(frozen=True)
class Interval:
    """A figure with its interval; ``low`` and ``high`` are None where there are too few episodes for one."""

    value: float
    low: float | None
    high: float | None

    def to_json(self) -> list[float] | None:
        """``[low, high]``, or None."""
        return None if self.low is None or self.high is None else [self.low, self.high]


@dataclass(frozen=True)
class EpisodeSums:
    """What R^2 needs of each held-out episode.

    Attributes:
        episode: Episode numbers. Shape (e,).
        n: Frames. Shape (e,).
        y: Sum of each target. Shape (e, m).
        yy: Sum of its square. Shape (e, m).
        error: Sum of the squared error of its prediction. Shape (e, m).
    """

    episode: NDArray[np.int64]
    n: Floats
    y: Floats
    yy: Floats
    error: Floats

    @classmethod
    def of(cls, y: Floats, predicted: Floats, episode_index: NDArray[np.int64]) -> "EpisodeSums":
        """Sums over the frames of each episode.

        Args:
            y: Targets. Shape (n, m).
            predicted: What the readout says. Shape (n, m).
            episode_index: Episode of each row. Shape (n,).
        """
        episodes, place = np.unique(episode_index, return_inverse=True)
        center = y.mean(
            axis=0
        )  # R^2 doesn't change under a shift, and sums of squares about the mean keep their digits

        def total(values: Floats) -> Floats:
            out = np.zeros((len(episodes), values.shape[1]))
            np.add.at(out, place, values)
            return out

        n = np.bincount(place, minlength=len(episodes)).astype(float)
        return cls(episodes, n, total(y - center), total((y - center) ** 2), total((y - predicted) ** 2))

    def same_frames(self, other: "EpisodeSums") -> bool:
        """Whether the other sums are over the same frames (episodes, their lengths and their targets)."""
        mine, theirs = (self.episode, self.n, self.yy), (other.episode, other.n, other.yy)
        return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-9) for a, b in zip(mine, theirs, strict=True))

    def r2(self, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """R^2 of each target under episode weights, and its influence function.

        Args:
            weights: How often each episode counts. Shape (b, e); once each if None.

        Returns:
            R^2, NaN for a target that doesn't vary (b, m), and dR^2/dweight (b, e, m).
        """
        w = np.ones((1, len(self.n))) if weights is None else weights
        total_n = (w @ self.n)[:, None]
        m = (w @ self.y) / total_n
        spread = w @ self.yy - total_n * m**2
        floor = 1e-12 * (w @ self.yy + total_n * m**2) + 1e-300
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(spread > floor, (w @ self.error) / spread, np.nan)
        m = m[:, None, :]
        of_episode = self.yy - 2 * m * self.y + m**2 * self.n[:, None]
        influence = -(self.error - ratio[:, None, :] * of_episode) / spread[:, None, :].clip(1e-300)
        return 1.0 - ratio, influence


def of_joint(j: int) -> Statistic:
    """R^2 of one target."""
    return lambda r2, influence: (r2[:, j], influence[:, :, j])


def mean(joints: list[int]) -> Statistic:
    """Mean R^2 over some targets."""
    return lambda r2, influence: (r2[:, joints].mean(axis=1), influence[:, :, joints].mean(axis=2))


def anisotropy(joints: list[int]) -> Statistic:
    """Best minus worst R^2 over some targets (science.md)."""

    def of(r2: Floats, influence: Floats) -> tuple[Floats, Floats]:
        r2, influence = np.nan_to_num(r2[:, joints], nan=0.0), influence[:, :, joints]
        b, best, worst = np.arange(len(r2)), r2.argmax(axis=1), r2.argmin(axis=1)
        return r2[b, best] - r2[b, worst], influence[b, :, best] - influence[b, :, worst]

    return of


def estimate(sums: EpisodeSums, statistic: Statistic, rng: np.random.Generator, level: float = LEVEL) -> Interval:
    """A figure with its interval over whole held-out episodes; no interval with a single one."""
    one = _Sample.of(sums, statistic)
    if one.episodes < 2 or not np.isfinite(one.value):
        return Interval(one.value, None, None)

    def resample() -> tuple[Floats, Floats]:
        weights = _weights(one.episodes, rng)
        value, influence = statistic(*sums.r2(weights))
        return value, _error(influence, weights)

    return _interval(one.value, one.error, one.episodes - 1, one.episodes, resample, level)


def difference(
    first: EpisodeSums,
    second: EpisodeSums,
    statistic: Statistic,
    rng: np.random.Generator,
    level: float = LEVEL,
    paired: bool | None = None,
) -> tuple[Interval, bool]:
    """``statistic`` of one run minus that of another, and whether it could be paired.

    Runs that scored the same frames of the same episodes are resampled together, so that what these share cancels;
    others apart.
    """
    a, b = _Sample.of(first, statistic), _Sample.of(second, statistic)
    value = a.value - b.value
    paired = first.same_frames(second) if paired is None else paired
    fewest = min(a.episodes, b.episodes)
    if fewest < 2 or not np.isfinite(value):
        return Interval(value, None, None), paired

    def together() -> tuple[Floats, Floats]:
        weights = _weights(a.episodes, rng)
        (va, ia), (vb, ib) = statistic(*first.r2(weights)), statistic(*second.r2(weights))
        return va - vb, _error(ia - ib, weights)

    def apart() -> tuple[Floats, Floats]:
        wa, wb = _weights(a.episodes, rng), _weights(b.episodes, rng)
        (va, ia), (vb, ib) = statistic(*first.r2(wa)), statistic(*second.r2(wb))
        return va - vb, np.hypot(_error(ia, wa), _error(ib, wb))

    if paired:
        error = float(_error(a.influence - b.influence, np.ones((1, a.episodes)))[0])
        return _interval(value, error, a.episodes - 1, a.episodes, together, level), True
    error = float(np.hypot(a.error, b.error))
    spread = a.error**4 / (a.episodes - 1) + b.error**4 / (b.episodes - 1)
    dof = error**4 / spread if spread > 0 else float(fewest - 1)  # Welch-Satterthwaite
    return _interval(value, error, dof, fewest, apart, level), False


@dataclass(frozen=True)
class _Sample:
    """A statistic of the episodes as they are: its value, influence (1, e) and linearised standard error."""

    value: float
    influence: Floats
    error: float
    episodes: int

    @classmethod
    def of(cls, sums: EpisodeSums, statistic: Statistic) -> "_Sample":
        value, influence = statistic(*sums.r2())
        e = len(sums.n)
        error = float(_error(influence, np.ones((1, e)))[0]) if e > 1 else float("nan")
        return cls(float(value[0]), influence, error, e)


def _weights(episodes: int, rng: np.random.Generator) -> Floats:
    return rng.multinomial(episodes, np.full(episodes, 1.0 / episodes), size=RESAMPLES).astype(float)


def _error(influence: Floats, weights: Floats) -> Floats:
    """Linearised standard error of a figure from its influence (b, e) under episode weights (b, e). Shape (b,)."""
    e = weights.shape[1]
    return np.sqrt(e / (e - 1) * (weights * influence**2).sum(axis=1))


def _interval(
    value: float,
    error: float,
    dof: float,
    episodes: int,
    resample: Callable[[], tuple[Floats, Floats]],
    level: float,
) -> Interval:
    from scipy.stats import t as student

    tail = (1.0 - level) / 2.0
    reach = float(student.ppf(1.0 - tail, dof))
    down = up = reach
    if episodes >= MIN_BOOTSTRAP:
        values, errors = resample()
        sound = np.isfinite(values) & (errors > 1e-3 * error)
        if sound.any():
            low, high = np.quantile((values[sound] - value) / errors[sound], [tail, 1.0 - tail])
            down, up = max(reach, float(high)), max(reach, -float(low))
    return Interval(value, value - down * error, value + up * error)
