"""A whole virtual SO-101: the arm's process, the cameras' process, and the log, behind one handle.

Example:
    >>> with Stage(tmp / "arm", cameras={"front": 5601}, log=tmp / "log.h5") as stage:
    ...     run_some_lerobot_program(port=stage.link)
    >>> read_log(tmp / "log.h5").torque[-1]
"""

import itertools
import multiprocessing as mp
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import HardwareError, UsageError
from ..joints import JOINTS, TickScale, q_to_rad
from .arm import ArmConfig, run_arm
from .assembly import HOMING_OFFSET, rad_to_raw, raw_to_rad
from .cameras import CamerasConfig, run_cameras
from .eeprom import load_eeprom, save_eeprom
from .faults import Fault
from .hand import Hand
from .log import Recorder
from .motor import RATED_V
from .pose import SharedPose
from .registers import decode, find

__all__ = ["Stage", "State"]

START_S = 60.0
"""A machine that takes longer than this to load MuJoCo and draw two images is no use for the rest."""

ANSWER_S = 10.0
STOP_S = 5.0
FLUSH_S = 1.0


@dataclass(frozen=True)
class State:
    """What is true of the arm at one moment, whatever its bus says.

    Attributes:
        q: Joints in LeRobot units under the arm's own calibration, shape (6,).
        q_s: Their speeds, degrees a second of the model's angles, shape (6,).
        memory: Each servo's memory, shape (6, 87), uint8.
    """

    q: NDArray[np.float64]
    q_s: NDArray[np.float64]
    memory: NDArray[np.uint8]

    def register(self, motor: str, name: str) -> int:
        """A motor's register, decoded."""
        address, size = find(name)
        return decode(name, self.memory[JOINTS.index(motor), address : address + size].tobytes())

    @property
    def torque(self) -> tuple[bool, ...]:
        """Which motors hold, in the order of the joints."""
        return tuple(self.register(motor, "Torque_Enable") == 1 for motor in JOINTS)


class Stage:
    """The virtual arm, from :meth:`start` to :meth:`close`; a context manager does both.

    Args:
        link: Where the symbolic link to the arm's terminal goes.
        cameras: Camera name to TCP port. ``front`` and ``wrist`` are the scene's views; a first camera of another name
            is the front view, a second one the wrist's.
        width: Image width [px], at least 64 (the strip needs it).
        height: Image height [px].
        fps: Images a second.
        latency_ms: Added to every image's way to its reader.
        faults: What goes wrong, and when.
        log: HDF5 file to write the truth to.
        eeprom: File that keeps the servos' EEPROM; made if it doesn't exist.
        gesture: A hand that holds the arm: ``still``, ``sway`` or ``sweep``; None leaves it to gravity and motors.
        supply_v: Supply voltage. The servos are the 7.4 V variant: they complain outside 4 to 8 V.

    Raises:
        UsageError: There is no such gesture.
        ConfigError: ``eeprom`` isn't such a file.
    """

    def __init__(
        self,
        link: Path,
        *,
        cameras: Mapping[str, int] | None = None,
        width: int = 320,
        height: int = 240,
        fps: float = 30.0,
        latency_ms: float = 0.0,
        faults: Sequence[Fault] = (),
        log: Path | None = None,
        eeprom: Path | None = None,
        gesture: str | None = None,
        supply_v: float = RATED_V,
    ) -> None:
        self.link = Path(link)
        self.tty = ""
        self.start_ns = 0
        self._eeprom_file, self._log_file = eeprom, log
        if gesture is not None:
            Hand(gesture)  # an unknown one is refused here, before anything starts
        stored = load_eeprom(eeprom) if eeprom is not None else None
        self._arm_config = ArmConfig(self.link, tuple(faults), log is not None, stored, gesture, supply_v)
        self._cameras_config = CamerasConfig(dict(cameras or {}), width, height, fps, latency_ms)
        self._recorder: Recorder | None = None
        self._pose: SharedPose | None = None
        self._processes: list[BaseProcess] = []
        self._lines: dict[str, Connection] = {}
        self._listener: threading.Thread | None = None
        self._ready: set[str] = set()
        self._failure: str | None = None
        self._answers: dict[int, dict[str, NDArray[Any]]] = {}
        self._tokens = itertools.count()
        self._news = threading.Condition()
        self._closing = False

    def __enter__(self) -> "Stage":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Start it; returns when the bus answers and the cameras stream.

        Raises:
            UsageError: The link, a port or the log can't be had.
            HardwareError: A process died or took too long.
        """
        context = mp.get_context("spawn")
        if self._log_file is not None:
            self._recorder = Recorder(self._log_file, self._cameras_config.ports)
        # kept here as well: once no object of this process holds it, its memory goes to the next stage's pose
        self._pose = pose = SharedPose(context)
        arm_line, arm_end = context.Pipe()
        faults_out, faults_in = context.Pipe()
        seeing = bool(self._cameras_config.ports)
        jobs: list[tuple[str, Any, Connection, tuple[Any, ...]]] = [
            ("arm", run_arm, arm_end, (self._arm_config, arm_end, faults_in if seeing else None, pose))
        ]
        self._lines["arm"] = arm_line
        if seeing:
            cameras_line, cameras_end = context.Pipe()
            self._lines["cameras"] = cameras_line
            jobs.append(("cameras", run_cameras, cameras_end, (self._cameras_config, cameras_end, faults_out, pose)))
        for name, entry, end, arguments in jobs:
            process = context.Process(target=entry, args=arguments, name=f"emulated {name}", daemon=True)
            process.start()
            self._processes.append(process)
            end.close()
        faults_out.close()
        faults_in.close()
        self._listener = threading.Thread(target=self._listen, name="emulator log", daemon=True)
        self._listener.start()
        self._await_ready()

    def _await_ready(self) -> None:
        with self._news:
            self._news.wait_for(lambda: self._failure is not None or self._ready == set(self._lines), START_S)
            failure, ready = self._failure, self._ready == set(self._lines)
        if failure is not None:
            self.close()
            raise UsageError(failure)
        if not ready:
            self.close()
            raise HardwareError(f"the emulator wasn't up after {START_S:.0f} s; is the machine overloaded?")

    @property
    def failure(self) -> str | None:
        """Why it stopped by itself, or None while it runs."""
        return self._failure

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it stopped by itself.

        Returns:
            Whether it has; False after the timeout.
        """
        with self._news:
            return self._news.wait_for(lambda: self._failure is not None, timeout_s)

    # ---- what a test or a script does with it ----

    def strike(self, fault: Fault) -> None:
        """Make a fault happen now, whatever its ``at_s`` or ``at_tick`` says."""
        self._lines["arm"].send(("fault", fault))

    def place(self, q: ArrayLike) -> None:
        """Put the arm at these joints (LeRobot units, shape (6,)), at rest. Motors that hold pull it back."""
        self._lines["arm"].send(("place", _to_rad(q)))

    def take(self, gesture: str, q: ArrayLike | None = None) -> None:
        """Let a hand take the arm: ``still`` or ``sway`` at ``q`` (default: mid-range), or ``sweep``."""
        self._lines["arm"].send(("hand", gesture, None if q is None else _to_rad(q)))

    def let_go(self) -> None:
        """Take the hand away."""
        self._lines["arm"].send(("hand", None, None))

    def state(self) -> State:
        """What is true now.

        Raises:
            HardwareError: The emulator doesn't answer.
        """
        token = next(self._tokens)
        self._lines["arm"].send(("state", token))
        with self._news:
            self._news.wait_for(lambda: token in self._answers or self._failure is not None, ANSWER_S)
            found = self._answers.pop(token, None)
        if found is None:
            raise HardwareError(f"the emulator doesn't answer: {self._failure or 'no reply in time'}")
        ticks = rad_to_raw(found["rad"]) - np.array(HOMING_OFFSET)
        return State(TickScale.of_model().to_units(ticks), np.degrees(found["rad_s"]), found["memory"])

    def close(self) -> None:
        """Stop the processes, finish the log, take the link away. Safe to call twice."""
        if self._closing:
            return
        self._closing = True
        for line in self._lines.values():
            try:
                line.send(("stop",))
            except OSError:
                pass
        if self._listener is not None:
            self._listener.join(STOP_S)
        for process in self._processes:
            process.join(STOP_S)
            if process.is_alive():
                process.kill()
                process.join()
        if self._recorder is not None:
            self._recorder.close()
        for line in self._lines.values():
            line.close()
        if self.tty and self.link.is_symlink() and str(self.link.readlink()) == self.tty:
            self.link.unlink()

    # ---- the listener's thread ----

    def _listen(self) -> None:
        open_lines = {line: name for name, line in self._lines.items()}
        flushed = time.monotonic()
        while open_lines:
            for line in wait(list(open_lines), FLUSH_S):
                assert isinstance(line, Connection)
                try:
                    news = line.recv()
                except (EOFError, OSError):
                    self._lost(open_lines.pop(line))
                    continue
                self._hear(open_lines[line], news)
            if self._recorder is not None and time.monotonic() - flushed > FLUSH_S:
                self._recorder.flush()
                flushed = time.monotonic()

    def _lost(self, name: str) -> None:
        with self._news:
            if self._failure is None and not self._closing:
                self._failure = f"the emulated {name} process died"
            self._news.notify_all()

    def _hear(self, name: str, news: tuple[Any, ...]) -> None:
        kind, *rest = news
        if kind == "ready":
            if name == "arm":
                self.tty, self.start_ns = rest
            with self._news:
                self._ready.add(name)
                self._news.notify_all()
        elif kind == "failed":
            with self._news:
                self._failure = rest[0]
                self._news.notify_all()
        elif kind == "state":
            with self._news:
                self._answers[rest[0]] = rest[1]
                self._news.notify_all()
        elif kind == "eeprom" and self._eeprom_file is not None:
            save_eeprom(self._eeprom_file, rest[0])
        elif self._recorder is not None:
            self._record(kind, rest)

    def _record(self, kind: str, rest: list[Any]) -> None:
        assert self._recorder is not None
        match kind:
            case "joints":
                self._recorder.joints(*rest)
            case "bus":
                self._recorder.bus(*rest)
            case "images":
                self._recorder.images(*rest)
            case "event":
                self._recorder.event(*rest)


def _to_rad(q: ArrayLike) -> NDArray[np.float64]:
    """LeRobot units to the model's angles, as near as the arm's calibration is to the model's ranges (a tick)."""
    return raw_to_rad(rad_to_raw(q_to_rad(q)))
