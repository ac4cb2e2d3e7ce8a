"""What a training shows while it runs: a table that grows by a row at every look, and a bar."""

import dataclasses
import json
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .live import console_for

if TYPE_CHECKING:
    from ..jepa.fit import Look
    from ..jepa.recipe import Recipe
    from ..jepa.run import Run
    from ..jepa.train import Report

__all__ = ["LiveTrain", "look_table", "run_as_json", "with_steps"]

COLUMNS: dict[str, tuple[str, str]] = {
    "loss": ("loss", "{:.4f}"),
    "alignment": ("align", "{:.4f}"),
    "prediction": ("predict", "{:.4f}"),
    "sigreg": ("sigreg", "{:.2f}"),
}
VALIDATION_COLUMNS: dict[str, tuple[str, str]] = {
    "loss": ("val loss", "{:.4f}"),
    "whitening": ("whitening", "{:.2f}"),
    "skill": ("skill", "{:.3f}"),
    "pair_correlation": ("pair corr", "{:.3f}"),
    "perfect": ("perfect", "{:.3f}"),
}


class LiveTrain:
    """Shows a training on stderr: a line for each look, and a bar where there is a terminal."""

    def __init__(self, recipe: "Recipe", as_json: bool) -> None:
        self._recipe = recipe
        self._out = console_for(as_json)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._head = False
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._err,
            disable=not self._err.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("decoding", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def report(self) -> "Report":
        """For :func:`so101walk.jepa.train.train`."""
        from ..jepa.train import Report

        return Report(self._decoding, self._begins, self._step, self._look)

    def print_end(self, run: "Run") -> None:
        """How it ended and the next command to run."""
        facts = run.facts or {}
        state = "trained" if run.done else f"stopped; go on with --resume. So far {len(run.history)} looks"
        self._out.print(
            f"{state}; weights of step {run.best_step}, {facts.get('seconds', 0):.0f} s, in {escape(str(run.root))}"
        )
        if run.best_step:
            self._out.print(f"next: so101walk probe {escape(run.dataset)} --encoder jepa:{escape(str(run.root))}")

    def _decoding(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def _begins(self, facts: dict[str, Any]) -> None:
        steps = self._recipe.optimiser.steps
        told = ", ".join(
            f"{k.replace('_', ' ')} {v:.3f}" if isinstance(v, float) else f"{k.replace('_', ' ')} {v}"
            for k, v in facts.items()
            if v is not None
        )
        self._err.print(f"{escape(self._recipe.name)}: {escape(told)}")
        self._progress.update(self._task, description="step", completed=facts["step"], total=steps)

    def _step(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def _look(self, look: "Look") -> None:
        table = look_table([look], header=not self._head)
        self._head = True
        self._err.print(table)


def look_table(looks: "list[Look]", header: bool = True) -> Table:
    """Looks as rows: step, the loss and its terms, images a second, figures on validation.

    A star marks the best so far.
    """
    table = Table(box=None, pad_edge=False, show_header=header, header_style="bold")
    first = looks[0]
    table.add_column("step", min_width=8, justify="right")
    shown = [(c, t) for c, t in COLUMNS.items() if c in first.terms]
    judged = [(c, t) for c, t in VALIDATION_COLUMNS.items() if c in first.validation]
    for _, (title, _) in shown:
        table.add_column(title, min_width=8, justify="right")
    table.add_column("images/s", min_width=8, justify="right")
    for _, (title, _) in judged:
        table.add_column(title, min_width=9, justify="right")
    for look in looks:
        table.add_row(
            f"{look.step}{'*' if look.best else ' '}",
            *(form.format(look.terms[c]) for c, (_, form) in shown),
            f"{look.images_s:.0f}",
            *(form.format(look.validation[c]) for c, (_, form) in judged),
        )
    return table


def with_steps(recipe: "Recipe", steps: int | None) -> "Recipe":
    """The recipe with another number of optimiser steps; its warm-up no longer than a tenth of them."""
    if steps is None:
        return recipe
    warmup = min(recipe.optimiser.warmup_steps, max(1, steps // 10))
    optimiser = dataclasses.replace(recipe.optimiser, steps=steps, warmup_steps=warmup)
    return dataclasses.replace(recipe, optimiser=optimiser)


def run_as_json(run: "Run") -> str:
    """One line for ``--json``: the content of ``run.json`` with the folder."""
    from ..dataset.durable import plain

    return json.dumps(plain({"run": str(run.root), **run.to_dict()}), allow_nan=False)
