"""Faults of servos, supply and terminal while they last."""

from collections.abc import Callable, Iterable, Sequence

from ..joints import JOINTS, N
from .faults import Fault
from .servo import Servo
from .terminal import Terminal

__all__ = ["BROWNOUT_V", "Ailments"]

BROWNOUT_V = 4.0
"""Below this a servo stops (the 7.4 V variant's lower limit); it boots when the voltage is back."""


class Ailments:
    """Starts faults and ends them.

    Args:
        servos: In the order of the joints.
        terminal: The one to hang up.
        supply_v: The supply's voltage when all is well.

    Attributes:
        supply_v: Each servo's supply now [V].
    """

    def __init__(self, servos: Sequence[Servo], terminal: Terminal, supply_v: float) -> None:
        self._servos, self._terminal = servos, terminal
        self._sound_v = supply_v
        self.supply_v = [supply_v] * N
        self._silent: set[int] = set()
        self._dead: set[int] = set()
        self._undo: list[tuple[float, Callable[[], None]]] = []

    def start(self, fault: Fault, now_s: float) -> None:
        """Begin a fault that isn't one of replies or cameras; it ends after its duration, if it has one."""
        motors = list(range(N)) if fault.motor is None else [JOINTS.index(fault.motor)]
        undo: Callable[[], None] | None = None
        match fault.kind:
            case "silence":
                undo = self._silence(motors)
            case "overload":
                self._servos[motors[0]].overload()
            case "reboot":
                self._servos[motors[0]].reboot()
            case "brownout":
                undo = self._brown_out(motors, fault.volts or 0.0)
            case "heat":
                undo = self._heat(motors, fault.celsius)
            case "hangup":
                self._terminal.hang_up()
                undo = self._terminal.open
        if undo is not None and fault.duration_s is not None:
            self._undo.append((now_s + fault.duration_s, undo))

    def end(self, now_s: float) -> None:
        """End the faults whose time is over."""
        over = [u for u in self._undo if u[0] <= now_s]
        if over:
            self._undo = [u for u in self._undo if u[0] > now_s]
            for _, undo in over:
                undo()

    def _silence(self, motors: Iterable[int]) -> Callable[[], None]:
        def undo() -> None:
            self._silent -= set(motors)
            self._mark_deaf()

        self._silent |= set(motors)
        self._mark_deaf()
        return undo

    def _brown_out(self, motors: Sequence[int], volts: float) -> Callable[[], None]:
        def undo() -> None:
            for i in motors:
                self.supply_v[i] = self._sound_v
                if i in self._dead:
                    self._dead.discard(i)
                    self._servos[i].reboot()
            self._mark_deaf()

        for i in motors:
            self.supply_v[i] = volts
            if volts < BROWNOUT_V:
                self._dead.add(i)
                self._servos[i].reboot()  # what RAM held, torque among it, is gone at once
        self._mark_deaf()
        return undo

    def _heat(self, motors: Iterable[int], celsius: float | None) -> Callable[[], None]:
        def undo() -> None:
            self._hold_at(motors, None)

        self._hold_at(motors, celsius)
        return undo

    def _hold_at(self, motors: Iterable[int], celsius: float | None) -> None:
        for i in motors:
            self._servos[i].motor.held_c = celsius

    def _mark_deaf(self) -> None:
        for i, servo in enumerate(self._servos):
            servo.deaf = i in self._silent or i in self._dead
