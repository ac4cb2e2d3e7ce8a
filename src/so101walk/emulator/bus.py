"""Feetech's protocol 0 on the wire: packets out of a byte stream, and what six servos answer to each.

A packet is ``FF FF id length instruction parameters... checksum``; length counts what follows it, the checksum is the
complement of the sum from id on. A reply has the servo's error bits in place of the instruction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .servo import Servo

__all__ = ["BROADCAST", "Bus", "Instruction", "Packet", "Reply", "Splitter", "packet_bytes"]

BROADCAST = 0xFE


class Instruction:
    """Instruction codes (Feetech's protocol manual; RECOVERY there is the factory reset)."""

    PING, READ, WRITE, REG_WRITE, ACTION, RECOVERY, REBOOT = 1, 2, 3, 4, 5, 6, 8
    SYNC_READ, SYNC_WRITE = 0x82, 0x83


@dataclass(frozen=True)
class Packet:
    """One instruction: to whom, what, and its parameters."""

    ident: int
    instruction: int
    params: bytes


@dataclass(frozen=True)
class Reply:
    """One servo's answer, ready for the wire."""

    ident: int
    data: bytes


def packet_bytes(ident: int, code: int, params: bytes = b"") -> bytes:
    """A packet as it goes over the wire: an instruction, or (``code`` being error bits) a reply."""
    body = bytes([ident, len(params) + 2, code]) + params
    return b"\xff\xff" + body + bytes([~sum(body) & 0xFF])


class Splitter:
    """Cuts a stream of bytes into packets; skips what isn't one (noise, a wrong checksum) and counts it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.rejected = 0

    def feed(self, data: bytes) -> list[Packet]:
        """Take in bytes as they came, in any portions.

        Returns:
            The packets that are now whole, in order.
        """
        buffer = self._buffer
        buffer += data
        packets: list[Packet] = []
        while True:
            start = buffer.find(b"\xff\xff")
            if start < 0:
                del buffer[: -1 if buffer[-1:] == b"\xff" else len(buffer)]
                return packets
            while buffer[start + 2 : start + 3] == b"\xff":
                start += 1
            del buffer[:start]
            if len(buffer) < 4:
                return packets
            length = buffer[3]
            if length < 2:
                self.rejected += 1
                del buffer[:2]
                continue
            if len(buffer) < length + 4:
                return packets
            if ~sum(buffer[2 : length + 3]) & 0xFF != buffer[length + 3]:
                self.rejected += 1
                del buffer[:2]
                continue
            packets.append(Packet(buffer[2], buffer[4], bytes(buffer[5 : length + 3])))
            del buffer[: length + 4]


class Bus:
    """The servos on one wire.

    Args:
        servos: In the order of the joints. A broadcast ping is answered in this order.
    """

    def __init__(self, servos: Sequence[Servo]) -> None:
        self.servos = tuple(servos)

    def answer(self, packet: Packet) -> list[Reply]:
        """Carry out one instruction.

        Returns:
            The replies, in the order in which they go out. Broadcasts have none, but for PING and SYNC_READ.
        """
        match packet.instruction:
            case Instruction.SYNC_READ:
                return self._sync_read(packet.params)
            case Instruction.SYNC_WRITE:
                self._sync_write(packet.params)
                return []
        broadcast = packet.ident == BROADCAST
        replies = [r for s in self._heard(packet.ident) if (r := self._one(s, packet)) is not None]
        return [] if broadcast and packet.instruction != Instruction.PING else replies

    def _heard(self, ident: int) -> Iterable[Servo]:
        return [s for s in self.servos if not s.deaf and ident in (s.ident, BROADCAST)]

    def _one(self, servo: Servo, packet: Packet) -> Reply | None:
        params, ident = packet.params, servo.ident
        chatty = bool(servo.memory[8])
        match packet.instruction:
            case Instruction.PING:
                return Reply(ident, packet_bytes(ident, servo.status))
            case Instruction.READ if len(params) == 2:
                return Reply(ident, packet_bytes(ident, servo.status, servo.read(params[0], params[1])))
            case Instruction.WRITE if len(params) >= 2:
                servo.write(params[0], params[1:])
            case Instruction.REG_WRITE if len(params) >= 2:
                servo.reg_write(params[0], params[1:])
            case Instruction.ACTION:
                servo.action()
            case Instruction.RECOVERY:
                servo.factory_reset()
            case Instruction.REBOOT:
                servo.reboot()
                return None
            case _:
                return None
        return Reply(ident, packet_bytes(ident, servo.status)) if chatty else None

    def _sync_read(self, params: bytes) -> list[Reply]:
        if len(params) < 3:
            return []
        address, size = params[0], params[1]
        by_id = {s.ident: s for s in self.servos if not s.deaf}
        found = [by_id[i] for i in params[2:] if i in by_id]
        return [Reply(s.ident, packet_bytes(s.ident, s.status, s.read(address, size))) for s in found]

    def _sync_write(self, params: bytes) -> None:
        if len(params) < 3:
            return
        address, size = params[0], params[1]
        by_id = {s.ident: s for s in self.servos if not s.deaf}
        for i in range(2, len(params) - size, size + 1):
            servo = by_id.get(params[i])
            if servo is not None:
                servo.write(address, params[i + 1 : i + 1 + size])
