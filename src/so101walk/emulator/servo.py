"""One STS3215 as the bus sees it: a memory with the meanings of its registers, and a motor that the memory drives."""

from collections.abc import Callable

from ..joints import TICKS_PER_TURN
from .motor import CURRENT_BIT, HEAT_BIT, OVERLOAD_BIT, RATED_V, VOLTAGE_BIT, Motor, Settings
from .registers import EEPROM_END, MEMORY_SIZE, READ_ONLY, REGISTERS, decode, encode, factory_memory

__all__ = ["AMPS_A_UNIT", "Servo"]

AMPS_A_UNIT = 0.0065
"""Unit of the current registers [A] (Feetech's memory table)."""

MOVING_TICKS_S = 10
"""Faster than this is moving, for the Moving register: about 1 deg/s."""

_AT = {name: address for name, (address, _) in REGISTERS.items()}
_TORQUE, _GOAL, _LOCK = _AT["Torque_Enable"], _AT["Goal_Position"], _AT["Lock"]
_MEASURED = range(_AT["Present_Position"], _AT["Goal_Position_2"] + 2)

_SET_MIDDLE = 128
"""Written to Torque_Enable, this sets Homing_Offset so that the present position reads 2048."""


class Servo:
    """A servo on the bus. ``raw`` is the encoder's own position, ``present`` what the registers show, in ticks:
    ``present = raw - Homing_Offset``, wrapped to 0-4095 while bit 4 of Phase is clear.

    Args:
        ident: Id on the bus.
        eeprom: The first 40 bytes of memory, or None for a new servo's.
        on_eeprom: Called when stored bytes change.

    Attributes:
        raw_ticks: Where the joint is, not rounded; to be set before :meth:`step`.
        speed_ticks_s: How fast it moves; to be set before :meth:`step`.
        volts: Its supply; to be set before :meth:`step`.
        deaf: Whether it is cut off the bus (the bus looks at this).
        memory: All 87 bytes; measured registers are up to date only in what :meth:`read` returns.
        settings: What the memory says to the motor.
    """

    def __init__(self, ident: int, eeprom: bytes | None = None, on_eeprom: Callable[[], None] | None = None) -> None:
        self.memory = factory_memory(ident)
        self._stored = bytes(self.memory[:EEPROM_END]) if eeprom is None else bytes(eeprom)
        self._on_eeprom = on_eeprom
        self.motor = Motor()
        self.raw_ticks = 0.0
        self.speed_ticks_s = 0.0
        self.volts = RATED_V
        self.deaf = False
        self._latched = 0
        self._pending: tuple[int, bytes] | None = None
        self._measured = self._measurements()
        self.reboot()

    @property
    def ident(self) -> int:
        """Id on the bus."""
        return self.memory[_AT["ID"]]

    @property
    def eeprom(self) -> bytes:
        """What survives a power cycle: 40 bytes."""
        return self._stored

    @property
    def torque_on(self) -> bool:
        """Whether the motor holds its goal."""
        return self.memory[_TORQUE] == 1

    @property
    def status(self) -> int:
        """Error bits now: those that latched, and those of voltage and heat."""
        m = self.memory
        bits = self._latched
        if not m[_AT["Min_Voltage_Limit"]] <= round(self.volts * 10) <= m[_AT["Max_Voltage_Limit"]]:
            bits |= VOLTAGE_BIT
        if self.motor.celsius > m[_AT["Max_Temperature_Limit"]]:
            bits |= HEAT_BIT
        return bits

    def get(self, name: str) -> int:
        """A register's value, as a read of it would decode."""
        address, size = REGISTERS[name]
        return decode(name, self.read(address, size))

    def put(self, name: str, value: int) -> None:
        """Write a register, as an instruction would."""
        self.write(REGISTERS[name][0], encode(name, value))

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the memory, measured registers up to date. Addresses that don't exist read as 0."""
        if address < _MEASURED.stop and address + size > _MEASURED.start:
            self._measure(range(address, address + size))
        return bytes(self.memory[address : address + size]).ljust(size, b"\0")

    def write(self, address: int, data: bytes) -> None:
        """Write bytes as a WRITE instruction does, with all that follows from it.

        Read-only addresses ignore it. What is written to EEPROM acts at once, and is stored while Lock is 0. A goal
        turns torque on. While overloaded or too hot, torque can't be switched on; while overloaded, not off either.
        """
        torque: int | None = None
        for at, byte in enumerate(data, start=address):
            if at >= MEMORY_SIZE or any(at in r for r in READ_ONLY):
                continue
            if at == _TORQUE:
                torque = byte
            else:
                self.memory[at] = byte
        self._decode_settings()
        if torque is not None:
            self._switch(torque)
        if address <= _GOAL + 1 and address + len(data) > _GOAL:
            if self.torque_on:
                self.motor.restart_ramp(self.settings, self.speed_ticks_s)
            self._switch(1)
        self._store()

    def reg_write(self, address: int, data: bytes) -> None:
        """Keep a write for the next ACTION; a later one replaces it."""
        self._pending = (address, data)

    def action(self) -> None:
        """Carry out the write that REG_WRITE left, if there is one."""
        if self._pending is not None:
            address, data = self._pending
            self._pending = None
            self.write(address, data)

    def factory_reset(self) -> None:
        """Everything in EEPROM but the id as new, then a reboot."""
        self._keep(bytes(factory_memory(self.ident)[:EEPROM_END]))
        self.reboot()

    def reboot(self) -> None:
        """A power cycle: EEPROM from store, RAM at default (torque off, goal at the present position), latches gone."""
        m = self.memory
        m[:] = factory_memory(0)
        m[:EEPROM_END] = self._stored
        self._set("Torque_Limit", self._word("Max_Torque_Limit"))
        self._latched = 0
        self._pending = None
        self._decode_settings()
        self._set("Goal_Position", round(self._present()))
        self._decode_settings()
        self.motor.coast()
        self.motor.start(self._present())

    def overload(self) -> None:
        """Latch the overload: Protective_Torque is all that is left, torque can't be switched, until a power cycle."""
        self._latched |= OVERLOAD_BIT

    def step(self, dt_s: float) -> float:
        """Let the servo run for ``dt_s`` seconds.

        Returns:
            Its torque on the joint [N m]; see :meth:`so101walk.emulator.motor.Motor.drive`.
        """
        overloaded = bool(self._latched & OVERLOAD_BIT)
        if self.torque_on:
            torque_nm = self.motor.drive(
                self.settings, self._present(), self.speed_ticks_s, self.volts, overloaded, dt_s
            )
        else:
            torque_nm = self.motor.coast()
        tripped = self.motor.protect(self.settings, dt_s)
        if tripped:
            self._latched |= tripped & (OVERLOAD_BIT | CURRENT_BIT)
            if tripped & self.memory[_AT["Unloading_Condition"]] & (HEAT_BIT | CURRENT_BIT):
                self.memory[_TORQUE] = 0
        return torque_nm

    def _switch(self, value: int) -> None:
        if value == _SET_MIDDLE:
            self._set("Homing_Offset", round(self.raw_ticks) % TICKS_PER_TURN - TICKS_PER_TURN // 2)
            self._decode_settings()
            return
        if self._latched & OVERLOAD_BIT or (value == 1 and self.status & HEAT_BIT):
            return
        if value == 1 and not self.torque_on:
            self.motor.start(self._present())
        self.memory[_TORQUE] = value

    def _store(self) -> None:
        if not self.memory[_LOCK]:
            self._keep(bytes(self.memory[:EEPROM_END]))

    def _keep(self, eeprom: bytes) -> None:
        if eeprom != self._stored:
            self._stored = eeprom
            if self._on_eeprom is not None:
                self._on_eeprom()

    def _set(self, name: str, value: int) -> None:
        address, size = REGISTERS[name]
        self.memory[address : address + size] = encode(name, value)

    def _word(self, name: str) -> int:
        address, size = REGISTERS[name]
        return decode(name, self.memory[address : address + size])

    def _decode_settings(self) -> None:
        """Decode the memory for the motor, once a write instead of once a millisecond."""
        self._one_turn = not self.memory[_AT["Phase"]] & 0x10
        self._offset = self._word("Homing_Offset")
        goal, low, high = (self._word(n) for n in ("Goal_Position", "Min_Position_Limit", "Max_Position_Limit"))
        self.settings = Settings(
            goal_ticks=float(min(max(goal, low), high) if high > low else goal),
            top_ticks_s=abs(self._word("Goal_Velocity")),
            acceleration_ticks_s2=self._word("Acceleration") * 100.0,
            dead_zone_ticks=self._word("CW_Dead_Zone"),
            p=self._word("P_Coefficient"),
            d=self._word("D_Coefficient"),
            limit=min(self._word("Torque_Limit"), self._word("Max_Torque_Limit")) / 1000,
            protective=self._word("Protective_Torque") / 100,
            overload=self._word("Overload_Torque") / 100,
            overload_s=self._word("Protection_Time") / 100,
            current_a=self._word("Protection_Current") * AMPS_A_UNIT,
            current_s=self._word("Over_Current_Protection_Time") / 100,
            hottest_c=self._word("Max_Temperature_Limit"),
        )

    def _present(self) -> float:
        at = self.raw_ticks - self._offset
        return at % TICKS_PER_TURN if self._one_turn else at

    def _measure(self, asked: range) -> None:
        """Bring those measured registers up to date that a read of ``asked`` addresses sees."""
        for name, value in self._measured:
            address, size = REGISTERS[name]
            if address < asked.stop and address + size > asked.start:
                self._set(name, value())

    def _measurements(self) -> tuple[tuple[str, Callable[[], int]], ...]:
        motor = self.motor
        return (
            ("Present_Position", self._present_shown),
            ("Present_Velocity", lambda: round(self.speed_ticks_s)),
            ("Present_Load", lambda: round(motor.duty * 1000)),
            ("Present_Voltage", lambda: round(self.volts * 10)),
            ("Present_Temperature", lambda: round(motor.celsius)),
            ("Status", lambda: self.status),
            ("Moving", lambda: int(self._ramping or abs(self.speed_ticks_s) > MOVING_TICKS_S)),
            ("Present_Current", lambda: round(motor.amps / AMPS_A_UNIT)),
            ("Goal_Position_2", lambda: round(self.settings.goal_ticks) if self.torque_on else 0),
        )

    def _present_shown(self) -> int:
        present = round(self._present())
        return present % TICKS_PER_TURN if self._one_turn else present

    @property
    def _ramping(self) -> bool:
        return self.torque_on and abs(self.settings.goal_ticks - self.motor.track_ticks) > 0.5
