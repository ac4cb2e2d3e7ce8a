"""Time as the code above the hardware sees it: the machine's monotonic clock, or a virtual one that never sleeps."""

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "RealClock", "VirtualClock"]


class Clock(Protocol):
    """A monotonic clock in integer nanoseconds that can be waited on."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary zero; never goes back."""
        ...

    def sleep_until(self, t_ns: int) -> None:
        """Return at ``t_ns``, or at once if that has passed."""
        ...


class RealClock:
    """The machine's monotonic clock (``time.perf_counter_ns``, the one LeRobot's cameras stamp with)."""

    def now_ns(self) -> int:
        """Nanoseconds of ``time.perf_counter_ns``."""
        return time.perf_counter_ns()

    def sleep_until(self, t_ns: int) -> None:
        """Sleep until the absolute deadline ``t_ns``; late calls return at once, so delays don't add up."""
        left = t_ns - time.perf_counter_ns()
        if left > 0:
            time.sleep(left / 1e9)


class VirtualClock:
    """A clock that moves only when waited on; who simulates something is told of each move.

    Args:
        on_advance: Called with the new time [ns] while it advances (the physics steps in here), or None.
    """

    def __init__(self, on_advance: Callable[[int], None] | None = None) -> None:
        self._now_ns = 0
        self._on_advance = on_advance

    def now_ns(self) -> int:
        """The virtual time, in ns since the clock was made."""
        return self._now_ns

    def sleep_until(self, t_ns: int) -> None:
        """Move to ``t_ns`` (not back), letting the simulation catch up first."""
        if t_ns > self._now_ns:
            if self._on_advance is not None:
                self._on_advance(t_ns)
            self._now_ns = t_ns
