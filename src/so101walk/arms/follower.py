"""The real arm: LeRobot's follower behind the protocol of the simulated one. A thread of its own turns its loop."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..clock import Clock, RealClock
from ..errors import HardwareError
from ..joints import N
from ..rig import Rig
from ..safety.blackbox import BlackBox
from ..safety.stops import EpisodeStop
from ..safety.watch import Watch
from .arm import Tick
from .goals import Goals
from .simulated import REST_Q
from .turns import Turns

if TYPE_CHECKING:
    from .wire import Wire

__all__ = ["Follower"]

TAKE_S = 10.0
REST_S = 120.0
"""A way to rest that takes longer than this has failed; usual are 5 to 25 s."""

SILENT_S = 5.0
"""No tick from the arm's thread for so long: it hangs in the operating system. The servos hold their last goal."""

FRESH_S = 0.5
"""A reading older than this is not the present."""


class Follower:
    """An SO-101 on a serial port.

    Args:
        rig: A real rig.
        way: From the goal pose to poses that lead to rest; None goes straight.
        faults: Folder for the black box's files, or None.
        say: Told what the user should hear at once.
    """

    simulated = False

    def __init__(
        self,
        rig: Rig,
        way: Callable[[NDArray[np.float64]], Sequence[NDArray[np.float64]]] | None = None,
        faults: Path | None = None,
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
    ) -> None:
        self.clock: Clock = RealClock()
        self.rest_q = np.array(rig.arm.rest if rig.arm.rest else REST_Q, dtype=np.float64)
        self._rig, self.way, self._say = rig, way, say
        self.box = BlackBox(faults)
        self._wire: Wire | None = None
        self._turns: Turns | None = None

    @property
    def wire(self) -> "Wire":
        """The open bus, for checks before :meth:`connect`; afterwards it belongs to the arm's thread."""
        assert self._wire is not None, "open() comes first"
        return self._wire

    @property
    def turns(self) -> int:
        """Turns of the control loop so far."""
        return self._turns.turns if self._turns else 0

    @property
    def missed(self) -> int:
        """Deadlines of the control loop that were passed over so far."""
        return self._turns.missed if self._turns else 0

    def open(self) -> None:
        """Open the bus; nothing is written. Safe to call more than once.

        Raises:
            HardwareError: No port, no calibration file; with the mend.
        """
        if self._wire is not None:
            return
        from .servos import calibration_file
        from .wire import open_wire

        arm = self._rig.arm
        if not arm.port:
            raise HardwareError(
                f'rig {self._rig.name!r} has no arm.port; add port = "/dev/serial/by-id/..." to [arm] '
                "(so101walk rig new asks for it)"
            )
        self._wire = open_wire(arm.port, arm.id, calibration_file(arm), self.box)
        self._wire.reply_ms = arm.reply_ms

    def connect(self) -> None:
        """Open the bus, put the settings in, begin to read. Torque stays as it is; nothing moves.

        Raises:
            HardwareError: A servo doesn't answer, or its calibration isn't the file's; with the likely cause.
        """
        from .servos import calibration_differences, configure, voltage_limits

        self.open()
        wire = self.wire
        try:
            if different := calibration_differences(wire):
                raise HardwareError(
                    f"the arm was calibrated anew, or it is another one: {different[0]}"
                    f"{f' (and {len(different) - 1} more)' if len(different) > 1 else ''}. "
                    "so101walk calibrate arm, or name the right arm.id"
                )
            configure(wire)
            watch = Watch(self._rig.safety, voltage_limits(wire))
        except BaseException:
            wire.close()
            raise
        goals = Goals(wire.scale, self._rig.arm.max_step())
        sys.setswitchinterval(0.0003)  # a thread that computes lets the arm's go first after 0.3 ms, not 5
        self._turns = Turns(wire, self._rig, goals, watch, self.way, self.rest_q)
        self._turns.start()

    def prepare(self) -> None:
        """Make ready to move: torque on where the arm is, unless it is on already.

        Raises:
            EpisodeStop: Something went wrong since the last move.
            HardwareError: Torque could not be switched on.
        """
        turns = self._running()
        if (trouble := turns.trouble()) is not None:
            raise trouble
        turns.call("take", TAKE_S)

    def present(self) -> NDArray[np.float64]:
        """Joints as measured now, LeRobot units, shape (6,).

        Raises:
            HardwareError: No whole reading for half a second.
        """
        until_s = time.monotonic() + 2.0
        while time.monotonic() < until_s:
            tick = self._running().last
            if tick is not None and self.clock.now_ns() - tick.t_after_ns < FRESH_S * 1e9:
                return tick.q.copy()
            time.sleep(0.02)
        raise HardwareError("the arm's joints can't be read; check its cables")

    def sent(self) -> NDArray[np.float64]:
        """The last goal that went on the wire, LeRobot units, shape (6,); the joints as measured while limp."""
        tick = self._running().last
        return tick.sent.copy() if tick is not None and np.isfinite(tick.sent).all() else self.present()

    def hottest(self) -> float:
        """Temperature of the hottest servo as last read [C]."""
        tick = self._running().last
        return float(np.nanmax(tick.extra["temperature"])) if tick is not None else float("nan")

    def follow(
        self,
        setpoint: Callable[[float], NDArray[np.float64]],
        start_ns: int,
        duration_s: float,
        on_tick: Callable[[Tick], None] | None = None,
    ) -> None:
        """Send ``setpoint(t)`` at every control tick; see :class:`so101walk.arms.arm.Arm`.

        The arm's thread does the sending; ``on_tick`` runs in the caller's, a little later, and may take its time. A
        joint for which ``setpoint`` gives NaN keeps its goal.

        Raises:
            EpisodeStop: A threshold was crossed; the arm holds, or is limp, as its ``response`` says.
        """
        turns = self._running()
        sink = turns.follow(setpoint, start_ns, duration_s)
        try:
            while (news := self._next(sink)) is not None:
                if isinstance(news, EpisodeStop):
                    raise news
                if on_tick is not None:
                    on_tick(news)
        except BaseException:
            turns.hold()
            raise

    def rest(self) -> None:
        """Bring the arm slowly to its rest pose and let it go. Ctrl-C doesn't stop it. Safe at any time, repeatedly.

        Raises:
            EpisodeStop: A servo would not let go; named, with what to do.
        """
        self._undisturbed("rest")
        self._complain()

    def close(self) -> None:
        """Bring the arm to rest, let it go, give the port back. Ctrl-C doesn't stop it. Says what could not be done."""
        turns = self._turns
        if turns is None:
            if self._wire is not None:
                self._wire.close()
            return
        self._undisturbed("close")
        try:
            self._complain()
        except EpisodeStop as e:
            self._say(f"WARNING: {e}")

    def _running(self) -> Turns:
        if self._turns is None:
            raise HardwareError("the arm is not connected")
        return self._turns

    def _next(self, sink: Any) -> Any:
        import queue

        try:
            return sink.get(timeout=SILENT_S)
        except queue.Empty:
            raise EpisodeStop(
                "stop",
                "loop",
                f"the arm's thread gave no sign for {SILENT_S:g} s; the servos hold their last goal. "
                "Likely the USB port hangs: unplug and plug it in again",
            ) from None

    def _undisturbed(self, action: str) -> None:
        """Have the arm's thread do it, and wait through any number of Ctrl-C."""
        turns = self._turns
        if turns is None or not turns.alive:
            return
        failures: list[BaseException] = []

        def do() -> None:
            try:
                turns.call(action, REST_S)
            except BaseException as e:
                failures.append(e)

        with _SignalsTold(lambda: self._say("bringing the arm to rest; please wait")):
            helper = threading.Thread(target=do, name="arm rest", daemon=True)
            helper.start()
            while helper.is_alive():
                try:
                    helper.join(0.2)
                except KeyboardInterrupt:
                    continue
        if failures:
            self._say(f"WARNING: {failures[0]}")

    def _complain(self) -> None:
        held = self._turns.unreleased if self._turns is not None else {}
        if not held:
            return
        who = "all six motors" if len(held) == N else ", ".join(held)
        why = next(iter(held.values()))
        raise EpisodeStop(
            "stop",
            "release",
            f"torque could not be switched off on {who} ({why}). Hold the arm and cut its power",
            next(iter(held)),
        )


class _SignalsTold:
    """While entered, in the main thread, signals that would stop the program are answered with words."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._before[number] = signal.signal(number, self._heard)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._tell()
