"""The arm's pose in memory shared by processes: one writes, others read, nobody waits."""

import multiprocessing as mp
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..joints import N

__all__ = ["Pose", "SharedPose"]


@dataclass(frozen=True)
class Pose:
    """Joint angles of the model [rad], shape (6,), and the moment they are true at [ns of ``time.perf_counter_ns``]."""

    t_ns: int
    rad: NDArray[np.float64]


class SharedPose:
    """A pose guarded by a sequence number: odd while it is being written, so that a reader knows to look again.

    Pass it to a child process as an argument.
    """

    def __init__(self, context: SpawnContext | None = None) -> None:
        self._raw: Any = (context or mp.get_context("spawn")).RawArray("q", 2 + N)
        self._open()

    def _open(self) -> None:
        self._cells = np.frombuffer(self._raw, np.int64)
        self._rad = self._cells[2:].view(np.float64)

    def __getstate__(self) -> Any:
        return self._raw

    def __setstate__(self, raw: Any) -> None:
        self._raw = raw
        self._open()

    def write(self, t_ns: int, rad: ArrayLike) -> None:
        """Publish a pose. Only one process may."""
        self._cells[0] += 1
        self._cells[1] = t_ns
        self._rad[:] = rad
        self._cells[0] += 1

    def read(self) -> Pose:
        """The newest pose, whole."""
        while True:
            before = int(self._cells[0])
            pose = Pose(int(self._cells[1]), self._rad.copy())
            if before % 2 == 0 and int(self._cells[0]) == before:
                return pose
