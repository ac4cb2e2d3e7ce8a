"""One SO-101's servo bus, opened through LeRobot's own ``SO101Follower``, with what its bus classes leave out.

LeRobot's classes do connecting, calibration, registers and setpoints. The one read that a control loop makes a hundred
times a second goes through the same port and packet handlers, but keeps what ``sync_read`` throws away: the replies of
the other servos when one is missing, each reply's error bits, and the block around the position, so that every servo's
state is as fresh as its position. A reply that comes after its time-out can't be taken for a later one: what has come
in is thrown away after each failed read, and the block grows by a byte with it, which a late reply betrays by its
length. One thread at a time.
"""

import select
import termios
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError
from ..joints import JOINTS, N, TickScale
from ..safety.blackbox import BlackBox

__all__ = ["READ_TRIES", "Block", "PortLost", "Wire", "open_wire"]

IDS = tuple(range(1, N + 1))

PRESENT, PRESENT_SIZE = 56, 15
"""Registers Present_Position (56) to Present_Current (69, 70): 1.3 ms on the wire for six servos at 1 Mbaud."""

WIDE, WIDE_SIZE = 40, 31
"""Registers Torque_Enable (40) to Present_Current: 2.2 ms. Tells whether a servo restarted, so not needed each time."""

TAGS = 3
"""Sizes that a block may have, one after the other with each failed read: a late reply has another one's."""

READ_TRIES = 3
"""A reply with a wrong checksum is asked for again at once, as LeRobot's follower does (``num_read_retries`` = 2)."""

RELEASE_TRIES = 5

PATIENCE_S = 0.001
"""A wait for bytes sleeps in the kernel for at most this long; LeRobot's SDK polls without a pause."""

CURRENT_MA = 6.5
"""Unit of Present_Current [mA] (Feetech's memory table)."""

_POSITION, _LOAD, _VOLTAGE, _HEAT, _STATUS, _CURRENT = 56, 60, 62, 63, 65, 69
_TORQUE, _SPEED = 40, 46


class PortLost(HardwareError):
    """The serial port is gone: unplugged, or the adapter reset itself."""


@dataclass(frozen=True)
class Block:
    """One read of all six servos; arrays of shape (6,), NaN (ticks: -1) for a servo that didn't.

    Attributes:
        answered: Which servos answered.
        t_before_ns: Just before the request of the read that counts.
        t_after_ns: Just after its last reply.
        ticks: Present_Position.
        load: Present_Load [% of stall torque], signed.
        voltage: Supply [V].
        temperature: [C].
        status: Error bits, of the register and of the reply.
        current: [mA].
        torque: Torque_Enable; NaN in a narrow read.
        speed_cap: Goal_Velocity; NaN in a narrow read.
    """

    answered: NDArray[np.bool_]
    t_before_ns: int
    t_after_ns: int
    ticks: NDArray[np.int64]
    load: NDArray[np.float64]
    voltage: NDArray[np.float64]
    temperature: NDArray[np.float64]
    status: NDArray[np.float64]
    current: NDArray[np.float64]
    torque: NDArray[np.float64]
    speed_cap: NDArray[np.float64]

    @property
    def whole(self) -> bool:
        """Whether every servo answered."""
        return bool(self.answered.all())


class Wire:
    """The open bus. See :func:`open_wire`.

    Args:
        robot: LeRobot's ``SO101Follower``, not connected; its bus is used, its cameras are none.
        box: Takes down what goes over the wire.

    Attributes:
        reply_ms: How long :meth:`read` waits for all replies.
        stale_replies: Replies that came too late and were thrown away.
        failed_reads: Reads that brought not every servo's reply.
    """

    def __init__(self, robot: Any, box: BlackBox) -> None:
        self.robot, self.bus, self.box = robot, robot.bus, box
        self._port, self._packets = self.bus.port_handler, self.bus.packet_handler
        self._tag = 0
        self._suspect = False
        self.reply_ms = 50.0
        self.stale_replies = 0
        self.failed_reads = 0
        self._tap()

    @property
    def scale(self) -> TickScale:
        """Ticks to LeRobot units under the arm's calibration file."""
        c = self.bus.calibration
        return TickScale(tuple(c[j].range_min for j in JOINTS), tuple(c[j].range_max for j in JOINTS))

    @property
    def is_open(self) -> bool:
        """Whether the port is open."""
        return bool(self._port.is_open)

    # ---- the loop's own two ----

    def read(self, wide: bool = False) -> Block:
        """Read all six servos once; replies with a wrong checksum are asked for again, :data:`READ_TRIES` times in all.

        Args:
            wide: Also read torque and speed cap.

        Raises:
            PortLost: The port is gone.
        """
        block = None
        for _ in range(READ_TRIES):
            block, timed_out = self._guarded(lambda: self._read_once(wide))
            if block.whole:
                return block
            self.failed_reads += 1
            self._suspect = True
            self._tag = (self._tag + 1) % TAGS
            if timed_out:  # silence costs more than a tick: the next one asks again
                break
        assert block is not None
        return block

    def write_goals(self, ticks: NDArray[np.int64]) -> None:
        """Send Goal_Position to all six at once; nothing is acknowledged. ``ticks`` has shape (6,).

        Raises:
            PortLost: The port is gone.
        """
        goals = {j: int(t) for j, t in zip(JOINTS, ticks, strict=True)}
        self._guarded(lambda: self.bus.sync_write("Goal_Position", goals, normalize=False))

    # ---- registers, one by one ----

    def get(self, name: str, motor: str) -> int | None:
        """A register of one servo, decoded; None if it doesn't answer. Error bits don't matter here.

        Raises:
            PortLost: The port is gone.
        """
        value, _ = self.get_with_status(name, motor)
        return value

    def get_with_status(self, name: str, motor: str) -> tuple[int | None, int]:
        """A register of one servo as :meth:`get`, and the error bits of its reply."""
        address, size = self.bus.model_ctrl_table["sts3215"][name]
        ident = JOINTS.index(motor) + 1
        read = self._packets.read1ByteTxRx if size == 1 else self._packets.read2ByteTxRx
        for _ in range(READ_TRIES):
            value, result, error = self._guarded(lambda: read(self._port, ident, address))
            if result == 0:
                return int(self.bus._decode_sign(name, {ident: value})[ident]), int(error)
            self._flush()
        return None, 0

    def put(self, name: str, motor: str, value: int) -> int | None:
        """Write a register of one servo.

        Returns:
            The error bits of its reply, or None if it didn't answer.

        Raises:
            PortLost: The port is gone.
        """
        address, size = self.bus.model_ctrl_table["sts3215"][name]
        ident = JOINTS.index(motor) + 1
        encoded = self.bus._encode_sign(name, {ident: value})[ident]
        write = self._packets.write1ByteTxRx if size == 1 else self._packets.write2ByteTxRx
        for _ in range(READ_TRIES):
            result, error = self._guarded(lambda: write(self._port, ident, address, encoded))
            if result == 0:
                return int(error)
            self._flush()
        return None

    def release(self, motors: Iterable[str] = JOINTS) -> dict[str, str]:
        """Switch torque off on each servo by itself, whatever the others do.

        Returns:
            Motor to reason, for those that would not; empty when all let go.
        """
        refused: dict[str, str] = {}
        for motor in motors:
            try:
                refused |= self._release_one(motor)
            except PortLost:
                refused[motor] = "the port is gone"
        return refused

    def _release_one(self, motor: str) -> dict[str, str]:
        why = "no answer"
        for _ in range(RELEASE_TRIES):
            if self.put("Torque_Enable", motor, 0) is None:
                continue
            held, status = self.get_with_status("Torque_Enable", motor)
            if held == 0:
                return {}
            if held is not None:
                why = f"refuses (status 0x{status:02x}); only a power cycle helps"
        return {motor: why}

    def close(self) -> None:
        """Close the port. Never raises."""
        try:
            if self._port.ser is not None:
                self._port.closePort()
        except (OSError, termios.error):
            pass
        self._port.is_open = False
        self._port.is_using = False

    def reopen(self) -> bool:
        """Close the port and open it again, as after an adapter has reset itself. Whether that worked."""
        self.close()
        try:
            return bool(self._port.openPort())
        except (OSError, termios.error):
            return False

    # ---- below ----

    def _read_once(self, wide: bool) -> tuple[Block, bool]:
        first, size = (WIDE, WIDE_SIZE) if wide else (PRESENT, PRESENT_SIZE)
        size += self._tag
        if self._suspect:
            self._flush()
        t_before_ns = time.perf_counter_ns()
        self._packets.syncReadTx(self._port, first, size, list(IDS), N)
        self._port.setPacketTimeoutMillis(self.reply_ms)
        replies: dict[int, list[int]] = {}
        broken = 0
        timed_out = False
        while len(replies) + broken < N:
            packet, result = self._packets.rxPacket(self._port)
            if result != 0:
                if self._port.packet_timeout == 0:  # the SDK's own mark that time was up
                    timed_out = True
                    break
                broken += 1
            elif packet[3] != size + 2 or packet[2] not in IDS or packet[2] in replies:
                self.stale_replies += 1
            else:
                replies[packet[2]] = packet
        t_after_ns = time.perf_counter_ns()
        self._suspect = self._suspect and len(replies) < N
        return _decode(replies, first, t_before_ns, t_after_ns), timed_out

    def _flush(self) -> None:
        self._port.is_using = False
        self._guarded(lambda: self._port.ser.reset_input_buffer())

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except (OSError, termios.error, ValueError, AttributeError) as e:
            # all the ways in which the SDK and pyserial tell of a vanished port
            self.close()
            raise PortLost(
                f"the arm's port {self._port.port_name} is gone ({e}); likely unplugged, or the adapter reset itself. "
                "Check the USB cable"
            ) from e

    def _tap(self) -> None:
        """Let bytes pass through the black box, and let waits sleep instead of spin."""
        port, box = self._port, self.box
        write, read = port.writePort, port.readPort

        def write_port(packet: Any) -> Any:
            box.note(time.perf_counter_ns(), ">", bytes(packet))
            return write(packet)

        def read_port(length: int) -> Any:
            if length > 0:
                select.select([port.ser.fileno()], [], [], PATIENCE_S)
            data = read(length)
            if data:
                box.note(time.perf_counter_ns(), "<", bytes(data))
            return data

        port.writePort, port.readPort = write_port, read_port


def _decode(replies: dict[int, list[int]], first: int, t_before_ns: int, t_after_ns: int) -> Block:
    answered = np.array([i in replies for i in IDS])
    ticks = np.full(N, -1, np.int64)
    values = np.full((7, N), np.nan)
    for ident, packet in replies.items():
        i, data = ident - 1, packet[5:]

        def byte(at: int, data: list[int] = data) -> int:
            return data[at - first]

        def word(at: int, data: list[int] = data) -> int:
            return data[at - first] | data[at - first + 1] << 8

        position, load = word(_POSITION), word(_LOAD)
        ticks[i] = -(position & 0x7FFF) if position & 0x8000 else position
        values[0, i] = (-1 if load & 0x400 else 1) * (load & 0x3FF) / 10
        values[1, i] = byte(_VOLTAGE) / 10
        values[2, i] = byte(_HEAT)
        values[3, i] = byte(_STATUS) | packet[4]
        values[4, i] = (word(_CURRENT) & 0x7FFF) * CURRENT_MA
        if first == WIDE:
            values[5, i] = byte(_TORQUE)
            values[6, i] = word(_SPEED) & 0x7FFF
    return Block(answered, t_before_ns, t_after_ns, ticks, *values)


def open_wire(
    port: str, ident: str, calibration: Path, box: BlackBox | None = None, *, calibrated: bool = True
) -> Wire:
    """Open the bus of an arm; nothing is written to it.

    Args:
        port: The serial port.
        ident: LeRobot's id of the arm.
        calibration: Its calibration file, ``<ident>.json``.
        box: Takes down the traffic.
        calibrated: Whether the file must be there and whole; it needn't for an arm that is about to be calibrated.

    Raises:
        HardwareError: The calibration file can't be read, or the port can't be opened; with the likely cause.
    """
    from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig

    config = SO101FollowerConfig(port=port, id=ident, calibration_dir=calibration.parent, cameras={})
    try:
        robot = SO101Follower(config)
    except Exception as e:
        raise HardwareError(
            f"{calibration} can't be read as LeRobot's calibration ({e}); calibrate the arm anew"
        ) from e
    missing = [j for j in JOINTS if j not in robot.calibration]
    if missing and calibrated:
        raise HardwareError(
            f"{calibration} says nothing about {', '.join(missing)}; calibrate the arm: so101walk calibrate arm"
        )
    wire = Wire(robot, box or BlackBox())
    try:
        if not wire.bus.port_handler.openPort():
            raise OSError("unknown speed")
    except (OSError, termios.error) as e:
        raise HardwareError(_why_not_open(port, e)) from e
    return wire


def _why_not_open(port: str, error: BaseException) -> str:
    text = str(error)
    if not Path(port).exists():
        return f"port {port} doesn't exist; is the arm's USB cable in? lerobot-find-port finds its name"
    if "ermission" in text:
        return f"port {port} may not be opened by you; add yourself to the group dialout and log in again"
    if "busy" in text or "lock" in text:
        return f"port {port} is in use by another program; close it"
    return f"port {port} can't be opened ({text})"
