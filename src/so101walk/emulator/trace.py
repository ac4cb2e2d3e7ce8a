"""What the arm's process tells the recorder: joints at the physics' rate and instructions, a block at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..joints import N
from .body import PHYSICS_HZ
from .bus import Instruction, Packet
from .servo import Servo

__all__ = ["Trace"]

BLOCK = PHYSICS_HZ // 4
"""Rows a block: a quarter of a second."""


class Trace:
    """Gathers rows and sends them as ``("joints", t_ns, rad, servo)`` and ``("bus", rows)``; see ``log.py``.

    Args:
        send: Takes the messages.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._rows = 0
        self._t_ns = np.empty(BLOCK, np.int64)
        self._rad = np.empty((BLOCK, N))
        self._servo = np.empty((BLOCK, 3, N), np.int16)
        self._bus: list[tuple[int, ...]] = []

    def step(self, t_ns: int, rad: NDArray[np.float64], servos: Sequence[Servo]) -> None:
        """One step of the physics has ended at ``t_ns``."""
        i = self._rows
        self._t_ns[i] = t_ns
        self._rad[i] = rad
        row = self._servo[i]
        row[0] = [s.torque_on for s in servos]
        row[1] = [round(s.settings.goal_ticks) for s in servos]
        row[2] = [round(s.motor.duty * 1000) for s in servos]
        self._rows += 1
        if self._rows == BLOCK:
            self.flush()

    def packet(self, packet: Packet, t_ns: int, replied_ns: int, replies: int) -> None:
        """One instruction came at ``t_ns`` and was answered at ``replied_ns`` (0: not at once, or not at all)."""
        self._bus.append((t_ns, replied_ns, packet.ident, packet.instruction, *_field(packet), replies))

    def flush(self) -> None:
        """Send what has gathered."""
        n, self._rows = self._rows, 0
        if n:
            self._send(("joints", self._t_ns[:n].copy(), self._rad[:n].copy(), self._servo[:n].copy()))
        if self._bus:
            self._send(("bus", np.array(self._bus, np.int64)))
            self._bus = []


def _field(packet: Packet) -> tuple[int, int]:
    """Address and size that an instruction is about; (-1, 0) for one without."""
    params = packet.params
    match packet.instruction:
        case Instruction.READ | Instruction.SYNC_READ | Instruction.SYNC_WRITE if len(params) > 1:
            return params[0], params[1]
        case Instruction.WRITE | Instruction.REG_WRITE if params:
            return params[0], len(params) - 1
    return -1, 0
