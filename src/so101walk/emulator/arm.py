"""The arm's process: one loop that steps the physics in real time and answers the bus in between."""

import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..joints import N
from .ailments import Ailments
from .assembly import calibrated_eeprom, rad_to_raw
from .body import PHYSICS_HZ, Body
from .bus import Bus, Instruction, Packet, Splitter
from .faults import CAMERA_KINDS, REPLY_KINDS, Fault, Mischief, Timeline
from .hand import Hand
from .motor import RATED_V, TICKS_PER_RAD
from .pose import SharedPose
from .precedence import go_first
from .registers import REGISTERS
from .servo import Servo
from .terminal import Terminal
from .trace import Trace

__all__ = ["ArmConfig", "ArmLoop", "run_arm"]

IDLE_S = 0.002
"""The loop wakes at least this often; a read is answered from physics that is at most one step old all the same."""

STALL_S = 0.1
"""Held up for longer than this, the loop lets the arm's time stand still for the rest: no burst of steps."""

PRIORITY = 2
"""A servo answers however busy the computer is, so the loop asks to go before others. It takes a tenth of a core."""

LEAD_OHM = 0.1
"""Resistance of supply and leads: what the load takes off the voltage that servos report."""

PERIOD_NS = 1_000_000_000 // PHYSICS_HZ
_PRESENT = REGISTERS["Present_Position"][0]


@dataclass(frozen=True)
class ArmConfig:
    """What the arm's process is to be.

    Attributes:
        link: Where the terminal's link goes.
        faults: The timeline.
        logged: Whether joints and instructions are sent to the recorder.
        eeprom: Six servos' EEPROM, or None for a calibrated arm's.
        gesture: A hand that holds the arm from the start, or None.
        supply_v: The supply's voltage.
    """

    link: Path
    faults: tuple[Fault, ...] = ()
    logged: bool = False
    eeprom: tuple[bytes, ...] | None = None
    gesture: str | None = None
    supply_v: float = RATED_V


class ArmLoop:
    """Terminal, bus, servos and body, turned by :meth:`turn`.

    Args:
        config: What to be.
        send: Takes messages for the stage: ``(kind, ...)`` tuples.
        to_cameras: Takes faults that are the cameras'.
        pose: Where the pose is published.
    """

    def __init__(
        self, config: ArmConfig, send: Callable[[Any], None], to_cameras: Callable[[Fault], None], pose: SharedPose
    ) -> None:
        self.config = config
        self._send, self._to_cameras, self._pose = send, to_cameras, pose
        self.body = Body()
        stored = config.eeprom or tuple(calibrated_eeprom(i) for i in range(N))
        self.servos = tuple(Servo(i + 1, stored[i], self._eeprom_changed) for i in range(N))
        self.bus = Bus(self.servos)
        self.timeline, self.mischief = Timeline(config.faults), Mischief()
        self._splitter = Splitter()
        self._outbox: list[tuple[float, bytes]] = []
        self._stale_eeprom = False
        self._steps = 0
        self._trace = Trace(send) if config.logged else None
        if config.gesture is not None:
            self.body.take(Hand(config.gesture))
        self._boot()
        self.terminal = Terminal(config.link)  # last: from here on somebody may call
        self.ailments = Ailments(self.servos, self.terminal, config.supply_v)
        self.start_ns = self._zero_ns = time.perf_counter_ns()

    def _boot(self) -> None:
        """Power the servos up where the arm is."""
        self._turn_encoders()
        for servo in self.servos:
            servo.reboot()

    # ---- one turn ----

    def turn(self, control: Connection) -> bool:
        """Wait for something to do (at most :data:`IDLE_S`) and do it.

        Returns:
            False when the stage says stop, or is gone.
        """
        now_s = self._now_s()
        wait_s = min([IDLE_S, *(due - now_s for due, _ in self._outbox)])
        sources = [control.fileno()] + ([self.terminal.fd] if self.terminal.fd >= 0 else [])
        ready, _, _ = select.select(sources, [], [], max(wait_s, 0.0))
        self._advance()
        if self.terminal.fd in ready:
            t_ns = time.perf_counter_ns()
            for packet in self._splitter.feed(self.terminal.read()):
                self._handle(packet, t_ns)
        self._deliver()
        self._keep_time()
        if self._stale_eeprom:
            self._stale_eeprom = False
            self._send(("eeprom", tuple(s.eeprom for s in self.servos)))
        return self._obey(control) if control.fileno() in ready else True

    def _now_s(self) -> float:
        return (time.perf_counter_ns() - self.start_ns) / 1e9

    def _advance(self) -> None:
        """Step the physics up to now."""
        now_ns = time.perf_counter_ns()
        behind = (now_ns - self._zero_ns) // PERIOD_NS - self._steps
        if behind > STALL_S * PHYSICS_HZ:
            lost = behind - int(STALL_S * PHYSICS_HZ)
            self._zero_ns += lost * PERIOD_NS
            behind -= lost
            self._send(("event", now_ns, f"the machine held the emulator up; {lost} ms of the arm's time are left out"))
        if behind <= 0:
            return
        sag_v = LEAD_OHM * sum(s.motor.amps for s in self.servos)
        for servo, volts in zip(self.servos, self.ailments.supply_v, strict=True):
            servo.volts = max(volts - sag_v, 0.0)
        for _ in range(behind):
            self._step()
        self._pose.write(self._zero_ns + self._steps * PERIOD_NS, self.body.rad)

    def _step(self) -> None:
        body = self.body
        body.step([servo.step(body.dt_s) for servo in self.servos])
        self._turn_encoders()
        self._steps += 1
        if self._trace is not None:
            self._trace.step(self._zero_ns + self._steps * PERIOD_NS, body.rad, self.servos)

    def _turn_encoders(self) -> None:
        """Let the encoders show where the body is now, and how fast it moves."""
        raw = rad_to_raw(self.body.rad).tolist()
        speed = (self.body.rad_s * TICKS_PER_RAD).tolist()
        for i, servo in enumerate(self.servos):
            servo.raw_ticks, servo.speed_ticks_s = raw[i], speed[i]

    # ---- the bus ----

    def _handle(self, packet: Packet, t_ns: int) -> None:
        now_s = (t_ns - self.start_ns) / 1e9
        if packet.instruction == Instruction.SYNC_READ and len(packet.params) > 2:
            address, size = packet.params[:2]
            if address <= _PRESENT < address + size:
                self.timeline.tick()
                self._keep_time()
        replies = self.bus.answer(packet)
        late = self.mischief.pass_on(replies, now_s)
        if any(s.torque_on for s in self.servos):
            self.timeline.torque(now_s)
        prompt = b"".join(data for due, data in late if due <= now_s)
        if prompt and self.terminal.fd >= 0:
            self.terminal.write(prompt)
        self._outbox += [(due, data) for due, data in late if due > now_s]
        if self._trace is not None:
            self._trace.packet(packet, t_ns, time.perf_counter_ns() if prompt else 0, len(late))

    def _deliver(self) -> None:
        """Send the replies that a fault held back and whose time has come."""
        if not self._outbox:
            return
        now_s = self._now_s()
        due = [item for item in self._outbox if item[0] <= now_s]
        self._outbox = [item for item in self._outbox if item[0] > now_s]
        for _, data in due:
            if self.terminal.fd >= 0:
                self.terminal.write(data)

    # ---- faults ----

    def _keep_time(self) -> None:
        """Start the faults whose time has come, end those whose time is over."""
        now_s = self._now_s()
        for fault in self.timeline.due(now_s):
            self.strike(fault)
        self.ailments.end(now_s)

    def strike(self, fault: Fault) -> None:
        """Make a fault happen now."""
        self._send(("event", time.perf_counter_ns(), fault.describe()))
        if fault.kind in REPLY_KINDS:
            self.mischief.start(fault, self._now_s())
        elif fault.kind in CAMERA_KINDS:
            self._to_cameras(fault)
        else:
            self.ailments.start(fault, self._now_s())

    # ---- the stage's orders ----

    def _obey(self, control: Connection) -> bool:
        try:
            order = control.recv()
        except (EOFError, OSError):
            return False
        match order:
            case ("stop",):
                return False
            case ("fault", fault):
                self.strike(fault)
            case ("hand", gesture, pose):
                self.body.take(None if gesture is None else Hand(gesture, pose))
            case ("place", rad):
                self.body.place(rad)
                self._turn_encoders()
            case ("state", token):
                self._send(("state", token, self.state()))
        return True

    def state(self) -> dict[str, NDArray[Any]]:
        """What is true now, whatever the bus says: see :meth:`so101walk.emulator.stage.Stage.state`."""
        return {
            "rad": self.body.rad.copy(),
            "rad_s": self.body.rad_s.copy(),
            "memory": np.array([list(s.read(0, len(s.memory))) for s in self.servos], np.uint8),
        }

    def _eeprom_changed(self) -> None:
        self._stale_eeprom = True

    def close(self) -> None:
        """Send the rest of the log; take the link away."""
        if self._trace is not None:
            self._trace.flush()
        self.terminal.close()


def run_arm(config: ArmConfig, control: Connection, cameras: Connection | None, pose: SharedPose) -> None:
    """Be the arm until told to stop; the process's entry. Sends ``("ready", tty, start_ns)`` once it serves.

    A failure to start is sent as ``("failed", message)``.
    """
    import gc
    import signal
    import sys

    from ..errors import So101WalkError

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stage decides; Ctrl-C reaches the whole group
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    go_first(PRIORITY)
    send = _sender(control)
    try:
        loop = ArmLoop(config, send, _sender(cameras), pose)
    except So101WalkError as e:
        send(("failed", str(e)))
        return
    send(("ready", loop.terminal.tty, loop.start_ns))
    gc.collect()
    gc.freeze()  # what lives now lives to the end: later collections have nothing to look through
    try:
        while loop.turn(control):
            pass
    finally:
        loop.close()
        send(("gone",))


def _sender(connection: Connection | None) -> Callable[[Any], None]:
    def send(message: Any) -> None:
        if connection is not None:
            try:
                connection.send(message)
            except OSError:  # the other end is gone; the loop notices by its control line
                pass

    return send
