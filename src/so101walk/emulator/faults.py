"""What goes wrong, and when: a timeline of faults from a TOML file, and what they do to the replies on the bus.

A file is a list of ``[[fault]]`` tables::

    [[fault]]
    kind = "drop"      # no reply
    at_tick = 150      # at the 150th read of all positions (SYNC_READ of Present_Position); or at_s, in seconds
    since = "torque"   # counted from the first torque on; default "start"
    motor = "elbow_flex"
    count = 2          # two replies
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..config import build, read_toml, require
from ..errors import ConfigError, nearest
from ..joints import JOINTS
from .bus import Reply

__all__ = ["CAMERA_KINDS", "REPLY_KINDS", "Fault", "Kind", "Mischief", "Timeline", "load_faults"]

Kind = Literal[
    "corrupt",
    "drop",
    "delay",
    "silence",
    "overload",
    "reboot",
    "brownout",
    "heat",
    "freeze_camera",
    "slow_camera",
    "drop_camera",
    "hangup",
]
REPLY_KINDS = ("corrupt", "drop", "delay")
CAMERA_KINDS = ("freeze_camera", "slow_camera", "drop_camera")

_NEEDED: dict[str, tuple[str, ...]] = {
    "delay": ("delay_ms",),
    "silence": ("motor",),
    "overload": ("motor",),
    "reboot": ("motor",),
    "brownout": ("volts",),
    "heat": ("motor", "celsius"),
    "freeze_camera": ("camera",),
    "slow_camera": ("camera", "fps"),
    "drop_camera": ("camera",),
}
_ALLOWED: dict[str, tuple[str, ...]] = {
    "corrupt": ("motor", "count", "duration_s"),
    "drop": ("motor", "count", "duration_s"),
    "delay": ("motor", "count", "duration_s", "delay_ms"),
    "silence": ("motor", "duration_s"),
    "overload": ("motor",),
    "reboot": ("motor",),
    "brownout": ("motor", "volts", "duration_s"),
    "heat": ("motor", "celsius", "duration_s"),
    "freeze_camera": ("camera", "count", "duration_s"),
    "slow_camera": ("camera", "fps", "duration_s"),
    "drop_camera": ("camera", "count", "duration_s"),
    "hangup": ("duration_s",),
}


@dataclass(frozen=True)
class Fault:
    """One fault. Without ``count`` and ``duration_s`` it happens once (replies) or lasts for ever (the rest).

    Attributes:
        kind: ``corrupt`` a reply's checksum, ``drop`` it, ``delay`` it (and what follows it in the same instruction) by
            ``delay_ms``; ``silence``: the servo neither hears nor speaks, and holds its goal; ``overload`` latched;
            ``reboot``: RAM lost, torque off; ``brownout``: the supply falls to ``volts`` (below 4.0 V a servo stops,
            and reboots when it is back); ``heat``: the servo is at ``celsius``; ``freeze_camera`` repeats the same
            bytes, ``slow_camera`` delivers ``fps``, ``drop_camera`` nothing; ``hangup``: the terminal vanishes.
        at_s: When, in seconds; or
        at_tick: when, as the number of the SYNC_READ of Present_Position, from 1; it happens before the reply.
        since: What both are counted from: the emulator's ``start`` or the first ``torque`` on.
        motor: A joint's name. Where it may be left out, every motor.
        camera: A camera's name.
        count: How many replies (``delay``: instructions) or images.
        duration_s: For how long.
    """

    kind: Kind
    at_s: float | None = None
    at_tick: int | None = None
    since: Literal["start", "torque"] = "start"
    motor: str | None = None
    camera: str | None = None
    count: int | None = None
    duration_s: float | None = None
    delay_ms: float | None = None
    volts: float | None = None
    celsius: float | None = None
    fps: float | None = None

    def __post_init__(self) -> None:
        require((self.at_s is None) != (self.at_tick is None), f"{self.kind} needs one of at_s and at_tick")
        options = ("motor", "camera", "count", "duration_s", "delay_ms", "volts", "celsius", "fps")
        given = {name for name in options if getattr(self, name) is not None}
        for name in _NEEDED.get(self.kind, ()):
            require(name in given, f"{self.kind} needs {name}")
        for name in sorted(given - set(_ALLOWED[self.kind])):
            raise ConfigError(f"{self.kind} has no {name}; it takes {', '.join(_ALLOWED[self.kind]) or 'nothing else'}")
        if self.motor is not None:
            require(self.motor in JOINTS, f"motor is {self.motor!r}; {nearest(self.motor, JOINTS)}")
        for name in ("count", "at_tick"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name} is {value}; it must be 1 or more")
        for name in ("at_s", "duration_s", "delay_ms", "volts", "celsius", "fps"):
            value = getattr(self, name)
            lowest_allowed = name == "at_s"
            require(
                value is None or (math.isfinite(value) and (value > 0 or (lowest_allowed and value == 0))),
                f"{name} is {value}; it must be a finite number above 0",
            )
        require(self.count is None or self.duration_s is None, f"{self.kind} takes count or duration_s, not both")

    def describe(self) -> str:
        """The fault in a line, for logs."""
        parts = [f"{f.name}={v}" for f in dataclasses.fields(self)[4:] if (v := getattr(self, f.name)) is not None]
        return " ".join([self.kind, *parts])


@dataclass(frozen=True)
class _File:
    fault: tuple[Fault, ...] = ()


def load_faults(path: Path, cameras: Iterable[str] | None = None) -> tuple[Fault, ...]:
    """The faults of a TOML file, every key checked.

    Args:
        path: The file.
        cameras: Names that ``camera`` may have; None leaves them unchecked.

    Raises:
        ConfigError: An unknown key, kind, motor or camera, or a value out of its limits.
    """
    faults = build(_File, read_toml(path), str(path)).fault
    known = None if cameras is None else list(cameras)
    for i, fault in enumerate(faults):
        if known is not None and fault.camera is not None and fault.camera not in known:
            raise ConfigError(f"{path}: fault[{i}]: camera is {fault.camera!r}; {nearest(fault.camera, known)}")
    return faults


class Timeline:
    """Hands out faults when their time has come. Times in seconds since the start.

    Args:
        faults: In any order.
    """

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._waiting = list(faults)
        self._ticks = 0
        self._torque: tuple[float, int] | None = None

    def tick(self) -> None:
        """One more SYNC_READ of Present_Position has come in."""
        self._ticks += 1

    def torque(self, now_s: float) -> None:
        """Torque is on somewhere; the first time is what ``since = "torque"`` counts from."""
        if self._torque is None:
            self._torque = (now_s, self._ticks)

    def due(self, now_s: float) -> list[Fault]:
        """The faults whose time has come since the last call."""
        if not self._waiting:
            return []
        due = [f for f in self._waiting if self._has_come(f, now_s)]
        if due:
            self._waiting = [f for f in self._waiting if f not in due]
        return due

    def _has_come(self, fault: Fault, now_s: float) -> bool:
        zero = (0.0, 0) if fault.since == "start" else self._torque
        if zero is None:
            return False
        if fault.at_s is not None:
            return now_s - zero[0] >= fault.at_s
        return self._ticks - zero[1] >= (fault.at_tick or 0)


@dataclass
class _Running:
    fault: Fault
    ident: int | None
    left: float
    until_s: float


class Mischief:
    """What the reply faults under way do to replies."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    def start(self, fault: Fault, now_s: float) -> None:
        """Begin a ``corrupt``, ``drop`` or ``delay``: for its count, its duration, or one reply."""
        ident = None if fault.motor is None else JOINTS.index(fault.motor) + 1
        timed = fault.duration_s is not None
        self._running.append(
            _Running(
                fault,
                ident,
                math.inf if timed else float(fault.count or 1),
                now_s + fault.duration_s if fault.duration_s is not None else math.inf,
            )
        )

    def pass_on(self, replies: Sequence[Reply], now_s: float) -> list[tuple[float, bytes]]:
        """What becomes of one instruction's replies: (due time in seconds, bytes), in order."""
        if not self._running:
            return [(now_s, r.data) for r in replies]
        self._running = [r for r in self._running if r.left > 0 and now_s < r.until_s]
        out: list[tuple[float, bytes]] = []
        due_s = now_s
        for reply in replies:
            data: bytes | None = reply.data
            for running in self._running:
                if running.left <= 0 or running.ident not in (None, reply.ident):
                    continue
                if running.fault.kind == "delay" and due_s > now_s:
                    continue  # the instruction is late as a whole already; each servo doesn't make it later
                running.left -= 1
                if data is None:
                    continue
                match running.fault.kind:
                    case "corrupt":
                        data = data[:-1] + bytes([data[-1] ^ 0x55])
                    case "drop":
                        data = None
                    case _:
                        due_s += (running.fault.delay_ms or 0.0) / 1000
            if data is not None:
                out.append((due_s, data))
        return out
