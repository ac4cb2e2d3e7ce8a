"""The emulator's log: what was true, when. HDF5, written while the emulator runs, read back as :class:`Truth`.

All times are int64 nanoseconds of ``time.perf_counter_ns``: on Linux one clock for all processes of the machine, and
the one that LeRobot stamps camera images with.

* ``joints/``: at 1 kHz, ``t_ns`` (n,), ``rad`` (n, 6) the model's angles, ``torque`` (n, 6) 0 or 1, ``goal_ticks``
  (n, 6) the clamped goal, ``load`` (n, 6) in 0.1 % of stall.
* ``bus/``: an instruction a row, ``t_ns`` when it came, ``replied_ns`` when its replies were out (0: none, or held
  back), ``ident``, ``instruction``, ``address``, ``size``, ``replies``.
* ``cameras/<name>/``: an image sent a row, ``serial`` (what the strip says), ``t_ns`` when its joints were true,
  ``published_ns``, ``repeated`` 1 where a frozen camera sent the same bytes again.
* ``events/``: ``t_ns`` and ``text`` of each fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..joints import JOINTS, N, TickScale
from .assembly import HOMING_OFFSET, rad_to_raw
from .body import PHYSICS_HZ

__all__ = ["BUS_COLUMNS", "IMAGE_COLUMNS", "Images", "Recorder", "Truth", "read_log"]

BUS_COLUMNS = ("t_ns", "replied_ns", "ident", "instruction", "address", "size", "replies")
IMAGE_COLUMNS = ("serial", "t_ns", "published_ns", "repeated")
SERVO_COLUMNS = ("torque", "goal_ticks", "load")


class Recorder:
    """Writes a log. Rows come in blocks; each block is on its way to the disk when :meth:`flush` returns.

    Raises:
        UsageError: The file can't be made.
    """

    def __init__(self, path: Path, cameras: Iterable[str]) -> None:
        import h5py

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = h5py.File(path, "w")
        except OSError as e:
            raise UsageError(f"log {path} can't be written ({e}); give --log another path") from e
        attributes = {"clock": "time.perf_counter_ns", "joints": list(JOINTS), "physics_hz": PHYSICS_HZ}
        self._file.attrs.update(attributes | {"homing_offset": HOMING_OFFSET})
        self._column("joints/t_ns", np.int64, (), 4096)
        self._column("joints/rad", np.float64, (N,), 4096)
        for name in SERVO_COLUMNS:
            self._column(f"joints/{name}", np.int16, (N,), 4096)
        for name in BUS_COLUMNS:
            self._column(f"bus/{name}", np.int64, (), 1024)
        for camera in cameras:
            for name in IMAGE_COLUMNS:
                self._column(f"cameras/{camera}/{name}", np.int64, (), 256)
        self._column("events/t_ns", np.int64, (), 16)
        self._column("events/text", h5py.string_dtype(), (), 16)

    def _column(self, name: str, dtype: Any, shape: tuple[int, ...], chunk: int) -> None:
        self._file.create_dataset(name, (0, *shape), dtype, maxshape=(None, *shape), chunks=(chunk, *shape))

    def _append(self, name: str, values: ArrayLike) -> None:
        values = np.asarray(values)
        column = self._file[name]
        start = len(column)
        column.resize(start + len(values), axis=0)
        column[start:] = values

    def joints(self, t_ns: NDArray[np.int64], rad: NDArray[np.float64], servo: NDArray[np.int16]) -> None:
        """Append joints: times (n,), angles (n, 6), and torque, goal, load as (n, 3, 6)."""
        self._append("joints/t_ns", t_ns)
        self._append("joints/rad", rad)
        for i, name in enumerate(SERVO_COLUMNS):
            self._append(f"joints/{name}", servo[:, i])

    def bus(self, rows: NDArray[np.int64]) -> None:
        """Append instructions, shape (n, 7), in the order of :data:`BUS_COLUMNS`."""
        for i, name in enumerate(BUS_COLUMNS):
            self._append(f"bus/{name}", rows[:, i])

    def images(self, camera: str, rows: NDArray[np.int64]) -> None:
        """Append images of a camera, shape (n, 4), in the order of :data:`IMAGE_COLUMNS`."""
        for i, name in enumerate(IMAGE_COLUMNS):
            self._append(f"cameras/{camera}/{name}", rows[:, i])

    def event(self, t_ns: int, text: str) -> None:
        """Append an event."""
        self._append("events/t_ns", [t_ns])
        self._append("events/text", np.array([text], object))

    def flush(self) -> None:
        """Hand what was appended to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        if self._file:
            self._file.close()


@dataclass(frozen=True)
class Images:
    """What a camera sent, an image a row; arrays of shape (n,). See the module's text for the columns."""

    serial: NDArray[np.int64]
    t_ns: NDArray[np.int64]
    published_ns: NDArray[np.int64]
    repeated: NDArray[np.int64]

    def rendered_ns(self, serial: int) -> int:
        """The true time of the image with this serial number.

        Raises:
            KeyError: No such image was sent.
        """
        found = np.flatnonzero(self.serial == serial)
        if not len(found):
            raise KeyError(serial)
        return int(self.t_ns[found[0]])


@dataclass(frozen=True)
class Truth:
    """A whole log. See the module's text for what the arrays are."""

    t_ns: NDArray[np.int64]
    rad: NDArray[np.float64]
    torque: NDArray[np.int16]
    goal_ticks: NDArray[np.int16]
    load: NDArray[np.int16]
    bus: dict[str, NDArray[np.int64]]
    cameras: dict[str, Images]
    events: tuple[tuple[int, str], ...]

    @property
    def q(self) -> NDArray[np.float64]:
        """True joints in LeRobot units under the arm's own calibration, not rounded to ticks. Shape (n, 6)."""
        return TickScale.of_model().to_units(rad_to_raw(self.rad) - np.array(HOMING_OFFSET))

    def q_at(self, t_ns: ArrayLike) -> NDArray[np.float64]:
        """True joints in LeRobot units at any times within the log, between samples linearly. Shape (..., 6)."""
        t = np.asarray(t_ns, np.int64) - self.t_ns[0]
        own = self.t_ns - self.t_ns[0]
        q = self.q
        return np.stack([np.interp(t, own, q[:, i]) for i in range(N)], axis=-1)


def read_log(path: Path) -> Truth:
    """Read a log back whole.

    Raises:
        UsageError: The file isn't a readable log.
    """
    import h5py

    try:
        with h5py.File(path, "r") as f:
            joints = {name: f[f"joints/{name}"][:] for name in ("t_ns", "rad", *SERVO_COLUMNS)}
            bus = {name: f[f"bus/{name}"][:] for name in BUS_COLUMNS}
            cameras = {
                camera: Images(*(f[f"cameras/{camera}/{name}"][:] for name in IMAGE_COLUMNS))
                for camera in f.get("cameras", {})
            }
            texts = f["events/text"].asstr()[:]
            events = tuple((int(t), str(text)) for t, text in zip(f["events/t_ns"][:], texts, strict=True))
    except (OSError, KeyError) as e:
        raise UsageError(f"{path} isn't a readable emulator log ({e})") from e
    return Truth(**joints, bus=bus, cameras=cameras, events=events)
