"""What a session shows while it runs and at its end, and how it hears that the user wants to stop."""

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from ..rig import Rig
    from ..session import SessionReport, SessionSpec

TELL_EVERY = 10
"""Frames between two looks at the progress display."""

__all__ = ["Live", "StopSignals", "console_for", "countdown", "default_out", "say_what_walks"]


def console_for(as_json: bool) -> Console:
    """Where words for people go: stdout, or stderr when stdout is kept for one JSON object."""
    return Console(stderr=as_json, highlight=False, soft_wrap=True)


def default_out(policy: str) -> Path:
    """``datasets/<policy>-<date>``, with a number behind it from the second of a day on."""
    first = Path("datasets") / f"{policy}-{date.today():%Y-%m-%d}"
    out, number = first, 1
    while out.exists() or out.with_name(out.name + ".staging").exists():
        number += 1
        out = first.with_name(f"{first.name}-{number}")
    return out


def say_what_walks(rig: "Rig", dry_run: bool, as_json: bool) -> None:
    """The session's first line: the simulated arm or a real one, and how to get the other."""
    console = console_for(as_json)
    if rig.simulated:
        console.print(
            f"Walking the simulated arm (rig {escape(rig.name)}). "
            "For a real one: --rig NAME|FILE, see docs/first-walk.md"
        )
    elif dry_run:
        console.print(
            f"Dry run: walking the simulated twin of rig {escape(rig.name)}. Leave out --dry-run to move the arm"
        )
    else:
        console.print(f"Walking the real arm of rig {escape(rig.name)}. Add --dry-run to try it in simulation first")


def countdown(asked_to_stop: Callable[[], bool], seconds: int = 5) -> None:
    """Announce a real arm's first motion, on stderr.

    Raises:
        Interrupted: The user asked to stop meanwhile.
    """
    from ..recording import Interrupted

    print(
        "The arm is about to move. Keep clear of it; Ctrl-C stops it, and cutting its power always does.",
        file=sys.stderr,
    )
    for left in range(seconds, 0, -1):
        print(f"moving in {left} s", file=sys.stderr)
        for _ in range(10):
            if asked_to_stop():
                raise Interrupted
            time.sleep(0.1)


class StopSignals:
    """Hears Ctrl-C, SIGTERM and SIGHUP while entered: the first asks to finish tidily, the second stops at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(
        self, words: str = "finishing: the current episode is dropped, saved ones stay (again to stop at once)"
    ) -> None:
        self._asked = False
        self._words = words

    def asked(self) -> bool:
        """Whether the user has asked to stop."""
        return self._asked

    def __enter__(self) -> Self:
        self._before = {s: signal.signal(s, self._heard) for s in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        print(f"\n{self._words}", file=sys.stderr)


class Live:
    """Progress of a session on a terminal; a line for each episode where there is none. A session's ``Report``.

    Args:
        spec: What is asked for.
        workers: Processes that walk.
        resume: Whether the session goes on with a dataset that may be there.
        again: The command that goes on with this session.
        as_json: Keep stdout for one JSON object.
    """

    def __init__(self, spec: "SessionSpec", workers: int, resume: bool, again: str, as_json: bool) -> None:
        from ..dataset.staging import saved_walk_indices

        self._spec = spec
        self._again = again
        self._as_json = as_json
        self._out = console_for(as_json)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._steps = self._refused = 0
        self._frames: dict[int, int] = {}
        there = len(saved_walk_indices(spec.out) & set(range(spec.episodes)))
        self._saved = there
        if resume:
            self._out.print(f"{there} of {spec.episodes} episodes are there; {spec.episodes - there} come")
        self._out.print(
            f"policy {escape(spec.policy.name)}, seed {spec.seed}, {spec.episode_s:g} s an episode, "
            f"{spec.rig.fps} fps, {workers} worker{'s' if workers > 1 else ''}, into {escape(str(spec.out))}"
        )
        self._progress = Progress(
            TextColumn("episode {task.fields[saved]}/{task.fields[wanted]}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("frames  accepted {task.fields[accepted]}  {task.fields[rate]} frames/s  left"),
            TimeRemainingColumn(),
            console=self._err,
            disable=not self._err.is_terminal,
        )
        self._task = self._progress.add_task(
            "walk",
            total=(spec.episodes - there) * spec.frames,
            saved=there,
            wanted=spec.episodes,
            accepted="-",
            rate="-",
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()
        if kind is not None:
            self._err.print(f"saved episodes are safe; go on with: {escape(self._again)}")

    def finish(self) -> None:
        """End the display; what comes next is the report."""
        self._progress.stop()

    def started(self, walk_index: int, frames: int) -> None:
        """See :class:`so101walk.session_spec.Report`."""
        self._frames[walk_index] = 0

    def advanced(self, walk_index: int, frames: int) -> None:
        """See :class:`so101walk.session_spec.Report`."""
        self._frames[walk_index] = frames
        if frames % TELL_EVERY and frames != self._spec.frames:
            return
        speed = self._progress.tasks[self._task].speed
        self._progress.update(self._task, completed=sum(self._frames.values()), rate=f"{speed:.0f}" if speed else "-")

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        """See :class:`so101walk.session_spec.Report`."""
        self._saved += 1
        self._steps += record["steps"]
        self._refused += record["rejected"]
        self.advanced(walk_index, record["frames"])
        accepted = f"{1 - self._refused / self._steps:.1%}" if self._steps else "-"
        self._progress.update(self._task, saved=self._saved, accepted=accepted)
        if self._progress.disable:
            self._err.print(
                f"episode {walk_index} saved ({self._saved}/{self._spec.episodes}), accepted {accepted} so far"
            )

    def failed(self, walk_index: int, reason: str) -> None:
        """See :class:`so101walk.session_spec.Report`."""
        self._frames.pop(walk_index, None)
        self._err.print(f"episode {walk_index} set aside, it is done again: {escape(reason)}")

    def print_report(self, report: "SessionReport") -> None:
        """The summary table and the next command to run, or one JSON object."""
        if self._as_json:
            print(json.dumps(_as_json_object(report)))
            return
        self._out.print(_table(report))
        if report.interrupted:
            self._out.print(f"stopped; go on with: {escape(self._again)}")
        if report.episodes:
            self._out.print(f"next: so101walk check {escape(str(report.out))}")


def _as_json_object(report: "SessionReport") -> dict[str, Any]:
    values = dataclasses.asdict(report)
    return {**values, "out": str(report.out), "acceptance": report.acceptance}


def _table(report: "SessionReport") -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    rows = {
        "dataset": str(report.out),
        "episodes": f"{report.episodes} of {report.wanted} ({report.collected} new)",
        "frames": f"{report.frames}",
        "accepted": "-" if report.acceptance is None else f"{report.acceptance:.1%} of {report.steps} steps",
        "refused by": ", ".join(f"{cause} {n}" for cause, n in sorted(report.causes.items(), key=lambda c: -c[1]))
        or "-",
        "stretched": f"{report.stretched} steps took longer, for the speed limits",
        "achieved": f"{report.rate_hz:.0f} frames/s over {report.seconds:.0f} s",
        "repeated images": ", ".join(f"{c} {n}" for c, n in report.repeated.items()) or "-",
        "unread ticks": f"{report.bad_ticks}"
        + (f" ({', '.join(f'{joint} {n}' for joint, n in report.unread.items())})" if report.unread else ""),
        "seed": f"{report.seed}",
    }
    if report.faults:
        rows["fault records"] = report.faults
    if report.failed:
        rows["set aside"] = "; ".join(report.failed)
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table
