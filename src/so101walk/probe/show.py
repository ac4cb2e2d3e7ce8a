"""A probe and a comparison in the terminal: rich tables, and the progress of encoding."""

from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from .bars import Judgement
from .compare import Comparison, label, told
from .intervals import Interval
from .run import ProbeResult

__all__ = ["Progress", "comparison_tables", "probe_tables"]

COLORS = {"pass": "green", "warn": "yellow", "fail": "red", "exploratory": "yellow", "unknown": "dim"}


class Progress:
    """A bar on the console while frames are encoded, and a line for what goes on."""

    def __init__(self, console: Console) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("frames"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def frames(self, done: int, total: int) -> None:
        """Show how many frames are encoded."""
        self._bar.update(self._task, completed=done, total=total)

    def say(self, words: str) -> None:
        """Show what goes on."""
        self._bar.update(self._task, description=words)


def probe_tables(result: ProbeResult, console: Console) -> None:
    """The figures of one probe: joints with the references beside them, guards, verdicts, other measures."""
    samples, split = result.samples, result.split
    title = (
        f"{result.spec} on {result.dataset.root.name}: R² of {len(result.val)} frames "
        f"in {len(split.val)} held-out of {len(result.dataset.episodes)} episodes"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("joint")
    table.add_column("linear, 95 % interval", justify="right")
    for name in result.references:
        table.add_column(name, justify="right", overflow="fold")
    columns = [result.linear, *result.references.values()]
    for j, name in enumerate(samples.joints):
        table.add_row(name.replace("_", " "), *(_cell(r.r2[j], k == 0) for k, r in enumerate(columns)))
    table.add_section()
    table.add_row("mean", *(_cell(r.mean, k == 0) for k, r in enumerate(columns)))
    table.add_row("anisotropy", *(_cell(r.anisotropy, k == 0) for k, r in enumerate(columns)))
    console.print(table)
    if result.linear.mean.low is None:
        console.print("[dim]no interval: it resamples held-out episodes, and there is one (see --val)[/]")
    _others(result, console)
    if result.guards:
        guards = Table(title="checks", title_justify="left", show_header=False)
        for g in result.guards:
            guards.add_row(f"[{COLORS[g.status]}]{g.status}[/]", g.name, g.message)
        console.print(guards)
    _verdicts(result.verdicts, console)


def _cell(figure: Interval, with_interval: bool) -> str:
    if not np.isfinite(figure.value):
        return "still"
    return told(figure) if with_interval else f"{figure.value:.3f}"


def _others(result: ProbeResult, console: Console) -> None:
    extra, theorem = result.extra, result.theorem
    lines = [
        f"joints to latent R² {extra['reverse_r2']:.3f}; "
        f"orthogonality error {extra['orthogonality_error']:.3f} (0 is a rotation)",
        "variance within episodes: " + ", ".join(f"{n} {s:.2f}" for n, s in extra["within_share"].items()),
    ]
    lines += [f"angle of {n}: R² of sine {a['sin']:.3f}, of cosine {a['cos']:.3f}" for n, a in extra["angles"].items()]
    if theorem is not None:
        lines.append(
            f"theorem 5.3 ({theorem.h}, {theorem.pairs} pairs, rho {theorem.rho:.3f}): L(h) {theorem.loss:.3f}, "
            f"delta {theorem.delta:.3f}, eps {theorem.eps:.3f}, D {theorem.d:.3f}; "
            f"E|h - Qz|² {theorem.error:.3f} against a bound of {theorem.bound:.3f}"
        )
    elif extra.get("theorem_reason"):
        lines.append(f"theorem 5.3: not computed, {extra['theorem_reason']}")
    for line in lines:
        console.print(line, highlight=False)


def _verdicts(verdicts: tuple[Judgement, ...], console: Console) -> None:
    if not verdicts:
        return
    table = Table(title="bars", title_justify="left")
    for column in ("bar", "states", "found", "verdict", ""):
        table.add_column(column)
    for v in verdicts:
        found = "-" if v.found is None else f"{v.found:.3f}"
        states = f"{v.bar.metric} {v.bar.op} {v.bar.value:g}"
        note = "" if v.verdict == "exploratory" else v.note
        table.add_row(v.bar.id, states, found, f"[{COLORS[v.verdict]}]{v.words}[/]", note or v.bar.why)
    console.print(table)
    for note in dict.fromkeys(v.note for v in verdicts if v.verdict == "exploratory"):
        console.print(f"[yellow]exploratory, no verdict:[/] {note}", highlight=False)


def comparison_tables(comparison: Comparison, console: Console) -> None:
    """Runs side by side, differences, verdicts."""
    table = Table(title="R², latent to joints", title_justify="left")
    table.add_column("")
    for name in comparison.names:
        table.add_column(name, justify="right")
    for metric, figures in comparison.rows.items():
        table.add_row(label(metric), *(told(f) for f in figures))
    console.print(table)
    if comparison.differences:
        table = Table(title=f"{comparison.names[0]} minus", title_justify="left")
        for column in ("run", "figure", "difference, 95 % interval", "episodes"):
            table.add_column(column)
        for d in comparison.differences:
            table.add_row(d.other, label(d.metric), told(d.interval, sign=True), d.words)
        console.print(table)
    _verdicts(comparison.verdicts, console)
