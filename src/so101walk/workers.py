"""Several simulated rigs at once, each in a process of its own, all saving into one session's staging folder.

Each episode depends on the seed and its own number alone, so who walks it doesn't matter: the dataset is the same for
any number of workers. Workers are forked from a server that has imported the heavy libraries once.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event
from typing import TYPE_CHECKING, Any

from .errors import HardwareError, So101WalkError

if TYPE_CHECKING:
    from .dataset.staging import Staging
    from .session_spec import Report, SessionSpec

__all__ = ["walk_in_processes"]

PRELOAD = ["so101walk.episodes", "so101walk.cameras.simulated", "av", "h5py", "pyarrow.parquet"]
TELL_EVERY = 10
"""Frames between two words of progress from a worker."""
POLL_S = 0.2


def walk_in_processes(
    spec: "SessionSpec",
    staging: "Staging",
    walk_indices: Sequence[int],
    report: "Report",
    should_stop: Callable[[], bool],
    workers: int,
) -> None:
    """As :func:`so101walk.episodes.walk_episodes`, shared out among ``workers`` processes.

    Raises:
        So101WalkError: What a worker raised; the others are stopped first, their current episodes dropped.
        HardwareError: A worker died.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    stop = context.Event()
    pool = [_Worker.start(context, spec, staging, stop) for _ in range(workers)]
    todo = iter(walk_indices)
    failure: So101WalkError | None = None
    try:
        while any(w.busy for w in pool):
            if should_stop() or failure:
                stop.set()
            for worker in _heard_from([w for w in pool if w.busy]):
                try:
                    worker.serve(todo, report)
                except So101WalkError as e:
                    failure = failure or e
    finally:
        for worker in pool:
            worker.end()
    if failure:
        raise failure


def _heard_from(workers: "list[_Worker]") -> "Iterator[_Worker]":
    ready = wait([w.pipe for w in workers], timeout=POLL_S)
    return (w for w in workers if w.pipe in ready)


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    busy: bool = True
    walking: int | None = None

    @classmethod
    def start(cls, context: Any, spec: "SessionSpec", staging: "Staging", stop: Event) -> "_Worker":
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(spec, staging, theirs, stop), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def serve(self, todo: Iterator[int], report: "Report") -> None:
        """Take one message from the worker: give it the next episode, or pass its news on."""
        try:
            kind, *news = self.pipe.recv()
        except EOFError:
            self.busy = False
            self.process.join()
            raise HardwareError(
                f"a worker died (exit code {self.process.exitcode}) while walking episode {self.walking}; "
                "saved episodes are whole. Go on with --resume, with fewer --workers if memory was short"
            ) from None
        if kind == "next":
            self.walking = next(todo, None)
            self.pipe.send(self.walking)
        elif kind == "done":
            self.busy = False
        elif kind == "error":
            self.busy = False
            raise news[0]
        else:
            getattr(report, kind)(*news)

    def end(self) -> None:
        """Wait for a worker that has finished; end one that has not."""
        if self.busy:
            self.process.terminate()
        self.process.join()
        self.pipe.close()


class _Teller:
    """A report that goes through a pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def started(self, walk_index: int, frames: int) -> None:
        self._pipe.send(("started", walk_index, frames))

    def advanced(self, walk_index: int, frames: int) -> None:
        if frames % TELL_EVERY == 0:
            self._pipe.send(("advanced", walk_index, frames))

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        self._pipe.send(("saved", walk_index, record))

    def failed(self, walk_index: int, reason: str) -> None:
        self._pipe.send(("failed", walk_index, reason))


def _work(spec: "SessionSpec", staging: "Staging", pipe: Connection, stop: Event) -> None:
    from .episodes import walk_episodes

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means, and says so through `stop`
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def asked_for() -> Iterator[int]:
        while not stop.is_set():
            pipe.send(("next",))
            walk_index = pipe.recv()
            if walk_index is None:
                return
            yield walk_index

    try:
        walk_episodes(spec, staging, asked_for(), _Teller(pipe), stop.is_set)
        pipe.send(("done",))
    except So101WalkError as e:
        pipe.send(("error", type(e)(str(e))))
    except Exception as e:
        pipe.send(("error", So101WalkError(f"a worker failed: {type(e).__name__}: {e}")))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
