"""Several runs side by side: the table of the hardware study, with paired differences and the verdicts of the bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import intervals
from .bars import Judgement, judge
from .intervals import EpisodeSums, Interval, Statistic
from .record import interval_of, read_run, sums_of

__all__ = ["Comparison", "Difference", "compare"]


@dataclass(frozen=True)
class Difference:
    """The first run minus another, for one figure."""

    metric: str
    other: str
    interval: Interval
    paired: bool

    @property
    def words(self) -> str:
        """How the two were resampled."""
        if self.interval.low is None:
            return "not known"
        return "the same: paired" if self.paired else "not the same"


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes:
        names: What the runs are called.
        runs: Their figures, as read.
        rows: Label to a figure of each run, None where a run hasn't it.
        differences: The first run minus each other.
        verdicts: What the bars say of the first run, and of it against the second.
    """

    names: tuple[str, ...]
    runs: tuple[dict[str, Any], ...]
    rows: dict[str, tuple[Interval | None, ...]]
    differences: tuple[Difference, ...]
    verdicts: tuple[Judgement, ...]

    def to_json(self) -> dict[str, Any]:
        """``runs`` (a column each), ``differences`` and ``verdicts``."""
        columns = [self._column(i) for i in range(len(self.names))]
        differences = [
            {"metric": d.metric, "first": self.names[0], "second": d.other, "value": d.interval.value,
             "interval": d.interval.to_json(), "paired": d.paired}
            for d in self.differences
        ]  # fmt: skip
        return {"runs": columns, "differences": differences, "verdicts": [v.to_json() for v in self.verdicts]}

    def _column(self, i: int) -> dict[str, Any]:
        figures = {metric: f[i] for metric, f in self.rows.items()}
        return {
            "name": self.names[i],
            **{metric: None if f is None else f.value for metric, f in figures.items()},
            "intervals": {metric: f.to_json() for metric, f in figures.items() if f is not None},
        }

    def markdown(self) -> str:
        """The table, differences and verdicts in Markdown."""
        lines = ["| | " + " | ".join(self.names) + " |", "|---" * (len(self.names) + 1) + "|"]
        lines += [
            f"| {label(metric)} | " + " | ".join(told(f) for f in figures) + " |"
            for metric, figures in self.rows.items()
        ]
        if self.differences:
            lines += ["", f"| {self.names[0]} minus | figure | difference | episodes |", "|---|---|---|---|"]
            lines += [
                f"| {d.other} | {label(d.metric)} | {told(d.interval, sign=True)} | {d.words} |"
                for d in self.differences
            ]
        if self.verdicts:
            lines += ["", "| bar | states | found | verdict | |", "|---|---|---|---|---|"]
            lines += [
                f"| {v.bar.id} | {v.bar.metric} {v.bar.op} {v.bar.value:g} "
                f"| {'-' if v.found is None else f'{v.found:.3f}'} | {v.words} | {v.note} |"
                for v in self.verdicts
            ]
        return "\n".join(lines) + "\n"


def label(metric: str) -> str:
    """A figure's name for people."""
    known = {"mean_r2": "mean R^2", "anisotropy": "anisotropy", "rank_top1": "ranking top-1"}
    return known.get(metric, metric.removeprefix("r2.").replace("_", " "))


def told(figure: Interval | None, sign: bool = False) -> str:
    """A figure and its interval for people, ``0.565 [0.51, 0.62]``."""
    if figure is None:
        return "-"
    form = "+.3f" if sign else ".3f"
    if figure.low is None or figure.high is None:
        return f"{figure.value:{form}}"
    return f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"


def compare(names: Sequence[str], bars: Path | None = None, seed: int = 0) -> Comparison:
    """Compare runs; the first is the one that differences and bars are about.

    Args:
        names: Run folders, ``probe.json`` files, or ``study:w1`` and ``study:w2``.
        bars: A bars file.
        seed: Of the resamples.

    Raises:
        UsageError: A run can't be read.
        ConfigError: The bars file can't be used.
    """
    runs = [read_run(name) for name in names]
    titles = _distinct([str(run["name"]) for run in runs], names)
    joints = [j for j in runs[0]["r2"] if all(j in run["r2"] for run in runs)]
    metrics = ["mean_r2", *(f"r2.{j}" for j in joints), "anisotropy"]
    rows = {m: tuple(interval_of(run, m) for run in runs) for m in metrics}
    if any(run.get("rank_top1") is not None for run in runs):
        rows["rank_top1"] = tuple(interval_of(run, "rank_top1") for run in runs)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    differences = [
        d
        for run, title in zip(runs[1:], titles[1:], strict=True)
        for d in _differences(runs[0], run, title, metrics, joints, rng)
    ]
    verdicts = judge(bars, _figures(runs, rows, differences, titles), _made(runs)) if bars else []
    return Comparison(tuple(titles), tuple(runs), rows, tuple(differences), tuple(verdicts))


def _distinct(titles: list[str], names: Sequence[str]) -> list[str]:
    return titles if len(set(titles)) == len(titles) else [n.rstrip("/") for n in names]


def _differences(
    first: dict[str, Any],
    other: dict[str, Any],
    title: str,
    metrics: list[str],
    joints: list[str],
    rng: np.random.Generator,
) -> list[Difference]:
    a, b = sums_of(first), sums_of(other)
    found = []
    for metric in metrics:
        one, two = interval_of(first, metric), interval_of(other, metric)
        if one is None or two is None:
            continue
        if a is None or b is None or list(first["r2"]) != list(other["r2"]):
            found.append(Difference(metric, title, Interval(one.value - two.value, None, None), False))
            continue
        interval, paired = intervals.difference(a, b, _statistic(metric, list(first["r2"]), a, b), rng)
        found.append(Difference(metric, title, interval, paired))
    ranks = interval_of(first, "rank_top1"), interval_of(other, "rank_top1")
    if ranks[0] is not None and ranks[1] is not None:
        found.append(Difference("rank_top1", title, Interval(ranks[0].value - ranks[1].value, None, None), False))
    return found


def _statistic(metric: str, joints: list[str], a: EpisodeSums, b: EpisodeSums) -> Statistic:
    moving = [j for j in range(len(joints)) if np.isfinite(a.r2()[0][0, j]) and np.isfinite(b.r2()[0][0, j])]
    if metric == "mean_r2":
        return intervals.mean(moving)
    if metric == "anisotropy":
        return intervals.anisotropy(moving)
    return intervals.of_joint(joints.index(metric.removeprefix("r2.")))


def _figures(
    runs: list[dict[str, Any]],
    rows: dict[str, tuple[Interval | None, ...]],
    differences: list[Difference],
    titles: list[str],
) -> dict[str, Interval]:
    figures = {metric: f[0] for metric, f in rows.items() if f[0] is not None}
    for metric in ("reverse_r2", "orthogonality_error"):
        figure = interval_of(runs[0], metric)
        if figure is not None:
            figures[metric] = figure
    if len(runs) < 2:
        return figures
    figures |= {f"difference.{d.metric}": d.interval for d in differences if d.other == titles[1]}
    r2, rank = figures.get("difference.mean_r2"), figures.get("difference.rank_top1")
    if r2 is not None and rank is not None:
        follows = r2.value * rank.value > 0
        figures["rank_follows_r2"] = Interval(float(follows), None, None)
    return figures


def _made(runs: list[dict[str, Any]]) -> float | None:
    """When the earliest latents of the judged runs were made; None where one of them doesn't tell."""
    times = [(run.get("encoder") or {}).get("made_s") for run in runs[:2]]
    known = [float(t) for t in times if t is not None]
    return min(known) if len(known) == len(times) else None
