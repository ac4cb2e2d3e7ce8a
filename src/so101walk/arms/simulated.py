"""The simulated arm: MuJoCo's servos behind the protocol of the real one, with encoder ticks and a virtual clock."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..clock import Clock
from ..errors import SafetyStop
from ..joints import JOINTS, MODEL_RANGE_RAD, UNITS, TickScale, rad_to_q
from ..motion import slow_path
from ..scene.world import World
from .arm import Tick

__all__ = ["REST_Q", "SimulatedArm"]

REST_Q: NDArray[np.float64] = np.array([0.0, -97.0, 91.0, 60.0, 0.0, 10.0])
"""Folded over its base, as an SO-101 is left when it is switched off: touching nothing, tips 1 cm above the table, so
that it hardly moves when the servos let go (tests/arms/test_simulated.py). LeRobot units, shape (6,)."""
REST_Q.setflags(write=False)

REST_SPEED = 0.25
"""The way to the rest pose takes this share of the rig's speed limits."""


class SimulatedArm:
    """An SO-101 in MuJoCo.

    Reads are whole encoder ticks, and so is what is sent: the goal goes through the ticks of an arm calibrated to the
    model's ranges. The bus takes no time: a reading and a command of one tick belong to the same instant. Beside the
    position only ``load`` is read, the servo's torque in percent of its most; nothing else is made up.

    Args:
        world: Where the arm is.
    """

    simulated = True

    def __init__(self, world: World) -> None:
        self.clock: Clock = world.clock
        self._world = world
        self._limits = world.rig.limits
        self._control_hz = world.rig.arm.control_hz
        self._scale = TickScale.of_model()
        middle = np.array(self._scale.range_min) + 1
        self._half_tick = (self._scale.to_units(middle + 1) - self._scale.to_units(middle)) / 2.0
        low, high = rad_to_q(MODEL_RANGE_RAD.T)
        self._low, self._high = low - self._half_tick, high + self._half_tick
        self._open = True

    def connect(self) -> None:
        """Nothing to open; the arm holds its rest pose at time 0."""
        self.reset(REST_Q)

    def prepare(self) -> None:
        """Back to the rest pose at time 0, so that an episode doesn't depend on the one before."""
        self.reset(REST_Q)

    def reset(self, q: NDArray[np.float64]) -> None:
        """Put the arm at rest at ``q`` (6,) [LeRobot units]; the clock starts again at 0, the cameras stop."""
        self._world.reset(self._sent(q, "the start pose"))

    def present(self) -> NDArray[np.float64]:
        """Joints as the encoders show them now, LeRobot units, shape (6,)."""
        return self._scale.to_units(self._ticks())

    def follow(
        self,
        setpoint: Callable[[float], NDArray[np.float64]],
        start_ns: int,
        duration_s: float,
        on_tick: Callable[[Tick], None] | None = None,
    ) -> None:
        """Send ``setpoint(t)`` at every control tick from ``start_ns`` on; see :class:`so101walk.arms.arm.Arm`.

        Raises:
            SafetyStop: A setpoint is not finite or outside the model's range; it was not sent, the last one holds.
        """
        world = self._world
        world.torque(True)
        for k in range(math.floor(duration_s * self._control_hz + 1e-6) + 1):
            self.clock.sleep_until(start_ns + round(k * 1e9 / self._control_hz))
            now_ns = self.clock.now_ns()
            ticks = self._ticks()
            load = world.load()
            t_s = (now_ns - start_ns) / 1e9
            request = np.array(setpoint(t_s), dtype=np.float64)
            sent = self._sent(request, f"the setpoint at {t_s:.2f} s")
            world.command(sent)
            if on_tick is not None:
                on_tick(Tick(now_ns, now_ns, self._scale.to_units(ticks), ticks, request, sent, {"load": load}))

    def rest(self) -> None:
        """Move slowly to :data:`REST_Q`, then let the servos go. Safe to call at any time, more than once."""
        if not self._open:
            return
        world = self._world
        world.command(self.present())
        path = slow_path(self.present(), REST_Q, self._limits, REST_SPEED)
        self.follow(path.at, self.clock.now_ns(), path.duration_s)
        world.torque(False)

    def close(self) -> None:
        """Let the servos go and give back the renderer. Safe to call more than once."""
        self._open = False
        self._world.torque(False)
        self._world.close()

    def _ticks(self) -> NDArray[np.int64]:
        return self._scale.to_ticks(self._world.joints() + self._half_tick)  # to_ticks truncates: half a tick rounds

    def _sent(self, q: NDArray[np.float64], what: str) -> NDArray[np.float64]:
        good = (q >= self._low) & (q <= self._high)
        if not good.all():
            raise SafetyStop(self._refusal(q, what, int(np.flatnonzero(~good)[0])))
        return self._scale.to_units(self._scale.to_ticks(q))

    def _refusal(self, q: NDArray[np.float64], what: str, joint: int) -> str:
        unit = UNITS[joint]
        low, high = rad_to_q(MODEL_RANGE_RAD[:, 0])[joint], rad_to_q(MODEL_RANGE_RAD[:, 1])[joint]
        if not math.isfinite(q[joint]):
            return f"{JOINTS[joint]}: {what} is {q[joint]}; not sent, the arm holds. Mend what makes the setpoints"
        return (
            f"{JOINTS[joint]}: {what} is {q[joint]:.1f} {unit}; the model's range is {low:.1f} to {high:.1f} {unit}. "
            "It was not sent and the arm holds. Narrow the envelope"
        )
