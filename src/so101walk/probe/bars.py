"""Pass marks that are stated before anything is computed, and the ledger that shows they were.

A bars file is TOML: ``[[bar]]`` tables of ``id``, ``metric``, ``op``, ``value``, ``why``. Freezing writes its digest
and the time
into ``FILE.ledger.jsonl`` beside it; every line holds the digest of the line before, so one can't be altered or taken
out unseen. A verdict is given only on a file that was frozen, is unchanged, and was frozen before the latents existed.
"""

import datetime
import hashlib
import json
import operator
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..config import load, require
from ..errors import So101WalkError, UsageError, nearest
from ..joints import JOINTS
from .intervals import Interval

__all__ = ["Bar", "Bars", "Judgement", "find_bars", "freeze", "frozen_at", "judge", "load_bars"]

OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}

METRICS = (
    "mean_r2",
    "anisotropy",
    "reverse_r2",
    "quadratic_mean_r2",
    "orthogonality_error",
    "rank_top1",
    "rank_follows_r2",
    "difference.mean_r2",
    "difference.anisotropy",
    "difference.rank_top1",
    *(f"r2.{j}" for j in JOINTS),
)
"""What a bar may be about. ``difference.`` is the first run's figure minus the second's, and ``rank_follows_r2`` is 1
when the run with the higher mean R^2 also ranks better, else 0: these need ``so101walk compare``. ``.low`` or ``.high``
may follow a figure that has an interval."""

Verdict = Literal["pass", "fail", "exploratory", "unknown"]


@dataclass(frozen=True)
class Bar:
    """One pass mark: ``metric op value``."""

    id: str
    metric: str
    op: Literal["<", "<=", ">", ">=", "=="]
    value: float
    why: str = ""

    def __post_init__(self) -> None:
        name = self.metric.removesuffix(".low").removesuffix(".high")
        known = name in METRICS or name.startswith("r2.")
        require(known, f"bar {self.id!r} has an unknown metric {self.metric!r}; {nearest(name, METRICS)}")
        require(self.value == self.value, f"bar {self.id!r} has a value that isn't a number")


@dataclass(frozen=True)
class Bars:
    """A bars file."""

    bar: tuple[Bar, ...]

    def __post_init__(self) -> None:
        require(bool(self.bar), "no [[bar]] table; a bars file states at least one")
        ids = [b.id for b in self.bar]
        require(len(set(ids)) == len(ids), "two bars have the same id")


@dataclass(frozen=True)
class Judgement:
    """A bar and what came out.

    Attributes:
        bar: The bar.
        verdict: ``pass`` or ``fail``; ``exploratory`` where the bars weren't frozen in time; ``unknown`` without the
            figure.
        found: The figure, None if it is unknown.
        settled: Whether the figure's whole interval lies on one side of the bar; None without an interval.
        note: Why there is no verdict, or what else should be known.
    """

    bar: Bar
    verdict: Verdict
    found: float | None
    settled: bool | None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the figure is on the right side of the bar, verdict or not; None where it is unknown."""
        return None if self.found is None else OPS[self.bar.op](self.found, self.bar.value)

    @property
    def words(self) -> str:
        """The verdict for people; an exploratory one tells whether the bar is met."""
        return f"exploratory ({'met' if self.met else 'not met'})" if self.verdict == "exploratory" else self.verdict

    def to_json(self) -> dict[str, Any]:
        """The bar's keys, ``found``, ``met``, ``verdict``, ``settled`` and ``note``."""
        return {
            **vars(self.bar),
            "found": self.found,
            "met": self.met,
            "verdict": self.verdict,
            "settled": self.settled,
            "note": self.note,
        }


def find_bars(name_or_path: str | Path) -> Path:
    """The bars file of a path, or of the name of a shipped one (``study``, ``walk``); a path wins.

    Raises:
        UsageError: There is none.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    folder = Path(__file__).parent / "shipped"
    shipped = {p.stem: p for p in folder.glob("*.toml")}
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    raise UsageError(f"bars file {name_or_path} does not exist; shipped ones: {nearest(str(name_or_path), shipped)}")


def load_bars(path: Path) -> Bars:
    """Read a bars file.

    Raises:
        ConfigError: It isn't TOML, or a key, metric or operator in it is unknown.
    """
    return load(Bars, path)


def freeze(path: Path, now_s: float | None = None) -> tuple[float, bool]:
    """Write the digest of a bars file and the time into its ledger.

    Args:
        path: The bars file.
        now_s: The time [s since the epoch]; the clock's if None.

    Returns:
        When this content was frozen first, and whether that is now.

    Raises:
        ConfigError: The file isn't a bars file.
        So101WalkError: The ledger can't be written, or was altered.
    """
    load_bars(path)
    lines = _ledger(path)
    digest = _digest(path.read_bytes())
    before = [entry for entry in lines if entry["sha256"] == digest]
    if before:
        return float(before[0]["frozen_s"]), False
    now_s = time.time() if now_s is None else now_s
    previous = _digest(json.dumps(lines[-1]).encode()) if lines else ""
    entry = {"file": path.name, "sha256": digest, "frozen": _utc(now_s), "frozen_s": now_s, "previous": previous}
    try:
        with _ledger_path(path).open("a") as file:
            file.write(json.dumps(entry) + "\n")
    except OSError as e:
        raise So101WalkError(
            f"{_ledger_path(path)} can't be written ({e.strerror}); copy the bars file to a folder that can"
        ) from e
    return now_s, True


def frozen_at(path: Path) -> float | None:
    """When the present content of a bars file was first frozen [s since the epoch]; None if it never was.

    Raises:
        So101WalkError: The ledger was altered.
    """
    digest = _digest(path.read_bytes())
    return next((float(entry["frozen_s"]) for entry in _ledger(path) if entry["sha256"] == digest), None)


def judge(path: Path, figures: Mapping[str, Interval], made_s: float | None) -> list[Judgement]:
    """Hold figures against a bars file.

    Args:
        path: The bars file.
        figures: What was measured, by metric.
        made_s: When the earliest of the latents were made [s since the epoch]; None if that isn't known.

    Raises:
        ConfigError: The file isn't a bars file.
        So101WalkError: Its ledger was altered.
    """
    bars = load_bars(path)
    doubt = _doubt(path, made_s)
    return [_judge(bar, figures, doubt) for bar in bars.bar]


def _doubt(path: Path, made_s: float | None) -> str:
    frozen = frozen_at(path)
    if frozen is None:
        changed = bool(_ledger(path))
        return (
            f"{path.name} was changed after it was frozen"
            if changed
            else f"{path.name} was never frozen (so101walk bars freeze)"
        )
    if made_s is None:
        return "it isn't known when the latents were made"
    if made_s <= frozen:
        return f"{path.name} was frozen at {_utc(frozen)}, after the latents were made ({_utc(made_s)})"
    return ""


def _judge(bar: Bar, figures: Mapping[str, Interval], doubt: str) -> Judgement:
    name = bar.metric.removesuffix(".low").removesuffix(".high")
    figure = figures.get(name)
    end = bar.metric.removeprefix(name).lstrip(".")
    found = None if figure is None else getattr(figure, end) if end else figure.value
    if figure is None or found is None or found != found:
        compared = name.startswith("difference.") or name == "rank_follows_r2"
        note = "needs two runs: so101walk compare" if compared and figure is None else "not measured"
        return Judgement(bar, "unknown", None, None, "has no interval" if end and figure is not None else note)
    met = OPS[bar.op](found, bar.value)
    settled = None
    if not end and figure.low is not None and figure.high is not None:
        settled = OPS[bar.op](figure.low, bar.value) == OPS[bar.op](figure.high, bar.value) == met
    if doubt:
        return Judgement(bar, "exploratory", found, settled, doubt)
    note = "the interval spans the bar" if settled is False else ""
    return Judgement(bar, "pass" if met else "fail", found, settled, note)


def _ledger_path(path: Path) -> Path:
    return path.with_name(path.name + ".ledger.jsonl")


def _ledger(path: Path) -> list[dict[str, Any]]:
    ledger = _ledger_path(path)
    if not ledger.is_file():
        return []
    entries: list[dict[str, Any]] = []
    for number, line in enumerate(ledger.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
            previous, _ = entry["previous"], (entry["sha256"], float(entry["frozen_s"]))
        except (ValueError, KeyError, TypeError) as e:
            raise So101WalkError(f"{ledger}: line {number} is no entry of a ledger; restore it") from e
        if previous != (_digest(json.dumps(entries[-1]).encode()) if entries else ""):
            raise So101WalkError(
                f"{ledger}: line {number} doesn't follow the one before; the ledger was altered, restore it"
            )
        entries.append(entry)
    return entries


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _utc(time_s: float) -> str:
    return datetime.datetime.fromtimestamp(time_s, datetime.UTC).isoformat(timespec="seconds")
