"""What so101walk asks of an arm. The real follower and the simulated one are twins behind this protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..clock import Clock

__all__ = ["Arm", "Tick"]


@dataclass(frozen=True)
class Tick:
    """One turn of the control loop. Times are of the arm's clock, in ns; joints in LeRobot units, shape (6,).

    ``q`` is NaN in the joints that could not be read at this tick; ``sent`` is NaN where nothing went out.
    ``extra`` holds what else was read, by name (``load``, ``status``, ...): a value for each joint, shape (6,).
    """

    t_before_ns: int
    t_after_ns: int
    q: NDArray[np.float64]
    ticks: NDArray[np.int64]
    request: NDArray[np.float64]
    sent: NDArray[np.float64]
    extra: dict[str, NDArray[np.float64]]

    @property
    def t_ns(self) -> int:
        """The moment the joints are taken to be measured at: midway between before and after the read."""
        return (self.t_before_ns + self.t_after_ns) // 2


class Arm(Protocol):
    """An SO-101, real or simulated."""

    simulated: bool
    clock: Clock

    def connect(self) -> None:
        """Open the bus and make ready; nothing moves.

        Raises:
            HardwareError: With the likely cause and the mend.
        """
        ...

    def prepare(self) -> None:
        """Make ready for an episode. The simulated arm goes back to its rest pose at time zero, so that an episode does
        not depend on the one before; the real one sees to it that it still is well."""
        ...

    def present(self) -> NDArray[np.float64]:
        """Joints as measured now, LeRobot units, shape (6,)."""
        ...

    def follow(
        self,
        setpoint: Callable[[float], NDArray[np.float64]],
        start_ns: int,
        duration_s: float,
        on_tick: Callable[[Tick], None] | None = None,
    ) -> None:
        """Send ``setpoint(t)`` at every control tick for ``duration_s`` seconds from ``start_ns`` on the arm's clock.

        Args:
            setpoint: Seconds since ``start_ns`` to joints in LeRobot units, shape (6,).
            start_ns: Absolute time of the first tick; ticks have absolute deadlines.
            duration_s: How long. The last tick is at or just before the end.
            on_tick: Called after each tick with what was read and sent; an exception from it ends the loop.

        Raises:
            SafetyStop: A safety threshold was crossed; the arm has been stopped.
        """
        ...

    def rest(self) -> None:
        """Bring the arm slowly to its rest pose and release it. Safe to call at any time, more than once."""
        ...

    def close(self) -> None:
        """Give back the port and every other resource, torque off first. Never raises for what is already gone."""
        ...
