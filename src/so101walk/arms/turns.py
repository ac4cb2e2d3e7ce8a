"""The thread that owns a real arm's bus: a turn at each control tick, whatever the rest of the program does.

It never waits for anybody. While it follows a path it reads, judges, sends and hands each tick on; between moves it
holds the last goal; while the arm is limp it only reads. If the program dies around it, it brings the arm to rest by
itself: nobody's Ctrl-C reaches a thread.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError
from ..joints import JOINTS, N
from ..motion import slow_path
from ..rig import Rig
from ..safety.stops import EpisodeStop
from ..safety.watch import Watch
from .arm import Tick
from .goals import Goals
from .wire import Block, PortLost, Wire

__all__ = ["REST_SPEED", "Turns"]

WIDE_EVERY = 3
"""Each so many ticks the read is wide, so that a servo that restarted is found within three ticks."""

REST_SPEED = 0.25
"""The way to rest takes this share of the rig's speed limits, as in simulation."""

SPEED_CAP = 2.0
"""Goal_Velocity, the servo's own speed limit, is the rig's limit times this. A servo that restarts loses it."""

UNUSED_S = 120.0
"""An arm that holds for so long without being asked for anything is brought to rest."""

REOPEN_S = 1.0
"""A vanished port is waited for this long before an arm that can't be reached is given up."""

Sink = queue.SimpleQueue[Any]
Setpoint = Callable[[float], NDArray[np.float64]]


@dataclass
class _Move:
    setpoint: Setpoint
    start_ns: int
    end_ns: int
    sink: Sink


@dataclass
class _Order:
    action: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None


class Turns:
    """The loop of one open arm.

    Args:
        wire: The bus; from :meth:`start` on nobody else may use it.
        rig: Rates, limits, thresholds.
        goals: What is sent.
        watch: Judges the ticks.
        way: From a pose to the poses that lead to rest; None goes straight.
        rest_q: Where the arm is let go, shape (6,).

    Attributes:
        missed: Deadlines passed over since the start.
        turns: Ticks since the start.
        limp: Whether torque is off as far as this program knows.
        last: The last tick with every joint in it, or None.
        unreleased: Motors that would not let go, with the reason.
    """

    def __init__(
        self,
        wire: Wire,
        rig: Rig,
        goals: Goals,
        watch: Watch,
        way: Callable[[NDArray[np.float64]], Sequence[NDArray[np.float64]]] | None,
        rest_q: NDArray[np.float64],
    ) -> None:
        self._wire, self._rig, self._goals, self._watch = wire, rig, goals, watch
        self._scale = wire.scale
        self._way, self._rest_q = way, rest_q
        self._period_ns = round(1e9 / rig.arm.control_hz)
        self._speed_cap = round(SPEED_CAP * rig.limits.velocity_deg_s / 360.0 * 4096)
        self._move: _Move | None = None
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._trouble: EpisodeStop | None = None
        self._ended = self._resting = False
        self._asked_ns = time.perf_counter_ns()
        self.missed = self.turns = 0
        self.limp = True
        self.last: Tick | None = None
        self.unreleased: dict[str, str] = {}
        # Not a daemon: the interpreter waits for it, and it sees to the arm when the main thread has ended.
        self._thread = threading.Thread(target=self._run, name="arm bus", daemon=False)

    # ---- from other threads ----

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def follow(self, setpoint: Setpoint, start_ns: int, duration_s: float) -> Sink:
        """Begin to follow a path. Ticks come into the returned queue, then None at its end or what stopped it."""
        sink: Sink = queue.SimpleQueue()
        move = _Move(setpoint, start_ns, start_ns + round(duration_s * 1e9), sink)
        self._orders.put(_Order(lambda: self._begin(move)))
        return sink

    def hold(self) -> None:
        """End the move: the last goal stays."""
        self._orders.put(_Order(self._end_move))

    def call(self, action: str, wait_s: float) -> Any:
        """Have the thread do ``take`` (goal := present, torque on), ``rest`` or ``close``, and wait for it.

        Raises:
            HardwareError: It didn't work, or took longer than ``wait_s``.
        """
        if not self.alive:
            return None
        order = _Order({"take": self._take, "rest": self._rest, "close": self._close}[action])
        self._orders.put(order)
        until_s = time.monotonic() + wait_s
        while not order.done.wait(0.2) and self.alive and time.monotonic() < until_s:
            pass
        if not order.done.is_set() and self.alive:
            raise HardwareError(f"the arm's thread doesn't react: {action} was not done after {wait_s:.0f} s")
        if order.error is not None:
            raise order.error
        return order.result

    def trouble(self) -> EpisodeStop | None:
        """What went wrong while no move was under way; told once."""
        found, self._trouble = self._trouble, None
        return found

    # ---- the thread ----

    def _run(self) -> None:
        deadline_ns = time.perf_counter_ns()
        try:
            while not self._ended:
                late_ns = time.perf_counter_ns() - deadline_ns
                if late_ns > self._period_ns:
                    passed = late_ns // self._period_ns
                    self.missed += int(passed)
                    deadline_ns += passed * self._period_ns
                elif late_ns < 0:
                    time.sleep(-late_ns / 1e9)
                self._turn(late_ns)
                deadline_ns += self._period_ns
                self._obey()
                self._look_after()
        except BaseException as e:  # whatever it is, the arm comes first
            self._fail(EpisodeStop("stop", "program", f"the arm's loop failed: {type(e).__name__}: {e}"))
            raise
        finally:
            self._let_go()
            self._wire.close()

    def _turn(self, late_ns: int) -> None:
        """One control tick."""
        if not self._wire.is_open:
            return
        if self._move is not None and late_ns / 1e9 > self._rig.safety.stall_s:
            self._fail(self._stall(late_ns))
        wide = self.turns % WIDE_EVERY == 0
        self.turns += 1
        try:
            block = self._wire.read(wide)
            request, sent = self._command()
        except PortLost as e:
            self._fail(EpisodeStop("stop", "port", str(e)))
            return
        tick = self._tick(block, request, sent)
        if block.whole:
            self.last = tick
        move = self._move
        if move is not None:
            move.sink.put(tick)
        stop = None if self.limp else self._watch.see(tick)
        if stop is not None:
            self._fail(stop)
        elif move is not None and block.t_after_ns + self._period_ns > move.end_ns:
            self._end_move(None)

    def _command(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Send this tick's goal; what was asked and what went out, NaN where nothing did."""
        nothing = np.full(N, np.nan)
        if self.limp:
            return nothing, nothing
        move = self._move
        now_ns = time.perf_counter_ns()
        if move is None or now_ns < move.start_ns:
            request = self._goals.sent
            ticks = self._goals.ticks
        else:
            request = np.array(move.setpoint((min(now_ns, move.end_ns) - move.start_ns) / 1e9), dtype=np.float64)
            ticks = self._goals.toward(request)
        self._wire.write_goals(ticks)
        return request, self._goals.sent

    def _tick(self, block: Block, request: NDArray[np.float64], sent: NDArray[np.float64]) -> Tick:
        q = np.where(block.answered, self._scale.to_units(block.ticks), np.nan)
        extra = {
            "load": block.load,
            "current": block.current,
            "voltage": block.voltage,
            "temperature": block.temperature,
            "status": block.status,
        }
        if not self.limp:
            lost = (block.torque == 0) | (block.speed_cap != self._speed_cap)
            extra["rebooted"] = np.where(np.isnan(block.torque), np.nan, lost)
        return Tick(block.t_before_ns, block.t_after_ns, q, block.ticks, request, sent, extra)

    def _stall(self, late_ns: int) -> EpisodeStop:
        return EpisodeStop(
            "hold",
            "stall",
            f"the control loop stood still for {late_ns / 1e9:.2f} s (limit {self._rig.safety.stall_s:g}); "
            "the arm held its goal. The machine is too busy, or was suspended",
        )

    def _obey(self) -> None:
        while True:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                return
            self._asked_ns = time.perf_counter_ns()
            try:
                order.result = order.action()
            except (HardwareError, ValueError) as e:
                order.error = e
            finally:
                order.done.set()

    def _look_after(self) -> None:
        """See to an arm that nobody sees to."""
        if self.limp:
            return
        forgotten = self._move is None and time.perf_counter_ns() - self._asked_ns > UNUSED_S * 1e9
        if not threading.main_thread().is_alive():
            self._ended = True
            self._rest()
        elif forgotten:
            self._rest()

    def _begin(self, move: _Move) -> None:
        if self._trouble is not None or self.limp:
            trouble = self.trouble() or EpisodeStop("stop", "limp", "the arm is limp; it was let go after a fault")
            move.sink.put(trouble)
            return
        self._end_move(None)
        self._watch.reset()
        self._move = move

    def _end_move(self, with_what: Any = None) -> None:
        move, self._move = self._move, None
        if move is not None:
            move.sink.put(with_what)

    def _fail(self, stop: EpisodeStop) -> None:
        """End what is under way; at a ``stop`` the arm is let go at once, else it holds."""
        now_ns = time.perf_counter_ns()
        self._wire.box.note(now_ns, "#", f"{stop.response} ({stop.cause}): {stop}".encode())
        self._wire.box.dump(str(stop))
        if self._move is not None:
            self._end_move(stop)
        else:
            self._trouble = stop
        if stop.cause == "port" and not self._resting:
            self._rest()  # a port that comes back within a second lets the arm down gently
        elif stop.response == "stop":
            self._let_go()
            self._ended = self._ended or stop.cause == "program"
        self._watch.reset()

    # ---- taking the arm, bringing it to rest, letting go ----

    def _take(self) -> None:
        """Torque on without a jump: the goal is the present position first, a write that itself may turn torque on."""
        if not self.limp:
            return
        block = self._wire.read()
        if not block.whole:
            block = self._wire.read()
        if not block.whole:
            silent = ", ".join(j for j, ok in zip(JOINTS, block.answered, strict=True) if not ok)
            raise HardwareError(f"{silent} did not answer; torque stays off. Check the cable")
        for motor in JOINTS:
            self._wire.put("Goal_Velocity", motor, self._speed_cap)
        self.unreleased = dict.fromkeys(JOINTS, "torque is on")
        self._wire.write_goals(self._goals.hold(block.ticks))
        for motor in JOINTS:
            status = self._wire.put("Torque_Enable", motor, 1)
            held = self._wire.get("Torque_Enable", motor)
            if held != 1:
                self._let_go()
                raise HardwareError(
                    f"{motor}: torque could not be switched on (status {'none' if status is None else hex(status)}); "
                    "a latched overload goes with a power cycle"
                )
        self._watch.reset()
        self.limp = False

    def _rest(self) -> dict[str, str]:
        """Slowly to the rest pose by the way that is known, then let go, early where something fails on the way."""
        self._end_move(EpisodeStop("stop", "rest", "the arm is being brought to rest"))
        self._resting = True
        try:
            if not self.limp and self._reachable():
                self._trouble = None
                for pose in self._poses():
                    if not self._glide(pose):
                        break
        finally:
            self._resting = False
            self._let_go()
        return self.unreleased

    def _poses(self) -> Sequence[NDArray[np.float64]]:
        if self._way is None:
            return [self._rest_q]
        try:
            return self._way(self._goals.sent)
        except Exception as e:  # geometry must not keep the arm up
            self._wire.box.note(time.perf_counter_ns(), "#", f"no way home: {type(e).__name__}: {e}".encode())
            return [self._rest_q]

    def _glide(self, pose: NDArray[np.float64]) -> bool:
        """Turn by turn to a pose; whether it was reached."""
        path = slow_path(self._goals.sent, pose, self._rig.limits, REST_SPEED)
        sink: Sink = queue.SimpleQueue()
        start_ns = time.perf_counter_ns()
        self._watch.reset()
        self._move = _Move(path.at, start_ns, start_ns + round((path.duration_s + 0.05) * 1e9), sink)
        deadline_ns = start_ns
        while self._move is not None:
            deadline_ns = max(deadline_ns + self._period_ns, time.perf_counter_ns() - self._period_ns)
            time.sleep(max(deadline_ns - time.perf_counter_ns(), 0) / 1e9)
            self._turn(0)
        stop = None
        while not sink.empty():
            news = sink.get()
            stop = news if isinstance(news, EpisodeStop) else stop
        return stop is None

    def _reachable(self) -> bool:
        """Whether the bus works, after waiting a little for a port that vanished."""
        until_s = time.monotonic() + REOPEN_S
        while not self._wire.is_open:
            if time.monotonic() > until_s:
                return False
            if not self._wire.reopen():
                time.sleep(0.05)
        return True

    def _let_go(self) -> None:
        """Torque off on each servo by itself. What would not is kept in ``unreleased``."""
        if self.limp and not self.unreleased:
            return
        self.unreleased = self._wire.release() if self._reachable() else dict.fromkeys(JOINTS, "the port is gone")
        self.limp = True

    def _close(self) -> dict[str, str]:
        self._rest()
        self._ended = True
        return self.unreleased
