"""The full-rate log of one episode, in HDF5: every turn of the control loop and every camera's capture times.

Layout: ``joints/{t_before_ns,t_after_ns,q,ticks,request,sent}``, ``extra/<name>`` (load, voltage, ...; NaN where a tick
did not read it), ``cameras/<name>/capture_ns``; every attribute of the file is JSON text.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from ..joints import N
from .durable import plain, write_bytes

if TYPE_CHECKING:
    from ..arms.arm import Tick

__all__ = ["RawLog", "read_raw", "read_raw_attrs", "write_raw"]

JOINT_COLUMNS = ("t_before_ns", "t_after_ns", "q", "ticks", "request", "sent")


@dataclass(frozen=True)
class RawLog:
    """Arrays over the ``n`` ticks of an episode. Times of the arm's clock in ns; joints in LeRobot units.

    Attributes:
        t_before_ns: Just before each read, (n,) int64.
        t_after_ns: Just after it, (n,) int64.
        q: Joints as read, (n, 6) float64, NaN where a joint could not be read.
        ticks: The same in encoder ticks, (n, 6) int64.
        request: What motion asked, (n, 6) float64.
        sent: What went on the wire, (n, 6) float64, NaN where nothing did.
        extra: What else was read, (n, 6) float64 each, by name; NaN at ticks that did not read it.
        captures: Capture times of all images of each camera, (m,) int64, by name.
        attrs: Anything JSON can hold: the policy's seed and state, walk_index, attempt.
    """

    t_before_ns: NDArray[np.int64]
    t_after_ns: NDArray[np.int64]
    q: NDArray[np.float64]
    ticks: NDArray[np.int64]
    request: NDArray[np.float64]
    sent: NDArray[np.float64]
    extra: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    captures: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ticks: "Iterable[Tick]",
        captures: Mapping[str, Iterable[int]] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> "RawLog":
        """The log of a control loop's ticks, in order of time."""
        turns = list(ticks)
        extra = {
            name: _joints([t.extra.get(name, np.full(N, np.nan)) for t in turns], np.float64)
            for name in sorted({name for t in turns for name in t.extra})
        }
        return cls(
            t_before_ns=np.array([t.t_before_ns for t in turns], dtype=np.int64),
            t_after_ns=np.array([t.t_after_ns for t in turns], dtype=np.int64),
            q=_joints([t.q for t in turns], np.float64),
            ticks=_joints([t.ticks for t in turns], np.int64),
            request=_joints([t.request for t in turns], np.float64),
            sent=_joints([t.sent for t in turns], np.float64),
            extra=extra,
            captures={c: np.fromiter(times, dtype=np.int64) for c, times in (captures or {}).items()},
            attrs=dict(attrs or {}),
        )


def _joints(rows: list[Any], dtype: Any) -> NDArray[Any]:
    return np.array(rows, dtype=dtype).reshape(len(rows), N)


def write_raw(path: Path, log: RawLog) -> None:
    """Write a log as HDF5 into a folder that is still being built.

    Raises:
        DatasetError: The disk is full or the folder can't be written to.
    """
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=("v110", "v110")) as f:  # older formats cap attributes at 64 kB
        for name, value in log.attrs.items():
            f.attrs[name] = json.dumps(plain(value))
        for name in JOINT_COLUMNS:
            _store(f, f"joints/{name}", getattr(log, name))
        for name, values in log.extra.items():
            _store(f, f"extra/{name}", values)
        for camera, times in log.captures.items():
            _store(f, f"cameras/{camera}/capture_ns", times)
    write_bytes(path, buffer.getvalue())


def _store(file: Any, name: str, values: NDArray[Any]) -> None:
    packed = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if len(values) else {}
    file.create_dataset(name, data=values, **packed)


def read_raw(path: Path) -> RawLog:
    """Read a log that :func:`write_raw` wrote.

    Raises:
        DatasetError: The file is missing, torn, or holds something else.
    """
    with _opened(path) as f:
        joints = {name: f[f"joints/{name}"][...] for name in JOINT_COLUMNS}
        return RawLog(
            **joints,
            extra={name: d[...] for name, d in f.get("extra", {}).items()},
            captures={camera: g["capture_ns"][...] for camera, g in f.get("cameras", {}).items()},
            attrs={name: json.loads(value) for name, value in f.attrs.items()},
        )


def read_raw_attrs(path: Path) -> dict[str, Any]:
    """The attributes alone of a log; errors as of :func:`read_raw`."""
    with _opened(path) as f:
        return {name: json.loads(value) for name, value in f.attrs.items()}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import h5py

    if not path.is_file():
        raise DatasetError(f"{path} is missing")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError, ValueError, RuntimeError, TypeError) as e:
        raise DatasetError(f"{path} is torn or not a log of so101walk ({e})") from e
