"""The STS3215's motor and position loop: a DC motor behind a P-D loop that chases a ramped goal, and what protects it.

Left out: the loop's I term, other modes than position, backlash.
"""

import math
from dataclasses import dataclass

from ..joints import TICKS_PER_TURN

__all__ = [
    "AMBIENT_C",
    "CURRENT_BIT",
    "DAMPING_NM_S",
    "HEAT_BIT",
    "NO_LOAD_TICKS_S",
    "OVERLOAD_BIT",
    "RATED_V",
    "STALL_NM",
    "TICKS_PER_RAD",
    "VOLTAGE_BIT",
    "Motor",
    "Settings",
]

TICKS_PER_RAD = TICKS_PER_TURN / (2 * math.pi)

RATED_V = 7.4
STALL_NM = 19.5 * 0.0980665
"""Stall torque [N m] at 7.4 V: 19.5 kg cm (data sheet of the STS3215 for 7.4 V, gear 1/345)."""

NO_LOAD_TICKS_S = 52 / 60 * TICKS_PER_TURN
"""No-load speed [ticks/s] at 7.4 V: 52 rpm, 0.192 s for 60 deg (same sheet)."""

DAMPING_NM_S = STALL_NM / (52 / 60 * 2 * math.pi)
"""What speed costs [N m s/rad]: the straight line from stall torque to no-load speed, back-EMF and gears in one."""

STALL_A = 2.4
IDLE_A = 0.006
"""Current when stalled at 7.4 V (that kits' supplies are rated by) and with the motor off [A]."""

P_NM_RAD = 17.8 / 16
"""Stiffness [N m/rad] a unit of P_Coefficient: 17.8 at LeRobot's 16, as identified for this arm (class sts3215 of
``so101_old_calib.xml`` in The Robot Studio's model). The level arm sags 2.9 deg; told: 1.8 to 2.6."""

D_NM_S_RAD = 1.0 / 32
"""Damping [N m s/rad] a unit of D_Coefficient. 1.0 at LeRobot's 32 damps joints of 0.05 kg m^2 to 0.7 of critical and
lags a moving goal by 77 ms: what is told as about 100 ms from command to motion, the bus included."""

AMBIENT_C = 25.0
HEATING_C_A2 = 20.0
HEATING_TAU_S = 200.0
"""Warming by 20 K/A^2 with 200 s: half of stall torque warms it by 29 K in the end. Told: 23 K after 10 minutes."""

VOLTAGE_BIT, HEAT_BIT, CURRENT_BIT, OVERLOAD_BIT = 0x01, 0x04, 0x08, 0x20
"""Error bits of every reply and of the Status register (Feetech's protocol manual)."""


@dataclass(frozen=True)
class Settings:
    """What a servo's memory says to its motor. Positions in the ticks that the registers show.

    Attributes:
        goal_ticks: The goal, clamped by the position limits.
        top_ticks_s: Speed limit; 0 for none.
        acceleration_ticks_s2: Of the ramp; 0 for none.
        dead_zone_ticks: An error smaller than this is none.
        p: P_Coefficient.
        d: D_Coefficient.
        limit: Largest duty, 0 to 1.
        protective: Duty that is left once overloaded, 0 to 1.
        overload: Duty that counts as overload, 0 to 1; 0 for none.
        overload_s: How long it may last.
        current_a: Current that counts as too much; 0 for none.
        current_s: How long it may last.
        hottest_c: Temperature limit.
    """

    goal_ticks: float
    top_ticks_s: float
    acceleration_ticks_s2: float
    dead_zone_ticks: float
    p: float
    d: float
    limit: float
    protective: float
    overload: float
    overload_s: float
    current_a: float
    current_s: float
    hottest_c: float


class Motor:
    """One motor.

    Attributes:
        duty: Share of the supply's voltage on the windings, -1 to 1; the servo reports it as load.
        amps: Current [A].
        celsius: Temperature.
        held_c: A temperature that it is held at, at least, or None.
    """

    def __init__(self) -> None:
        self.duty = 0.0
        self.amps = IDLE_A
        self.celsius = AMBIENT_C
        self.held_c: float | None = None
        self.track_ticks = 0.0
        self._track_ticks_s = 0.0
        self._overload_s = self._current_s = 0.0

    def start(self, present_ticks: float) -> None:
        """Power is back, or torque comes on: the ramp begins here, at rest."""
        self.track_ticks, self._track_ticks_s = present_ticks, 0.0
        self._overload_s = self._current_s = 0.0

    def restart_ramp(self, settings: Settings, speed_ticks_s: float) -> None:
        """A goal was written: with an acceleration set, the ramp is planned anew from the measured speed.

        Hardly felt at 30 writes a second; at 200 the ramp never gets ahead of the arm (told).
        """
        if settings.acceleration_ticks_s2:
            self._track_ticks_s = speed_ticks_s

    def drive(
        self, s: Settings, present_ticks: float, speed_ticks_s: float, volts: float, overloaded: bool, dt_s: float
    ) -> float:
        """Chase the goal for ``dt_s`` seconds.

        Returns:
            Torque on the joint [N m]; what speed costs (:data:`DAMPING_NM_S`) is left to the physics.
        """
        scale = volts / RATED_V
        self._ramp(s, NO_LOAD_TICKS_S * scale, dt_s)
        error = self.track_ticks - present_ticks
        if abs(error) < s.dead_zone_ticks:
            error = 0.0
        wanted_nm = (P_NM_RAD * s.p * error - D_NM_S_RAD * s.d * speed_ticks_s) / TICKS_PER_RAD
        limit = min(s.limit, s.protective) if overloaded else s.limit
        self.duty = min(max(wanted_nm / (STALL_NM * scale), -limit), limit) if scale > 0 else 0.0
        emf = speed_ticks_s / NO_LOAD_TICKS_S
        self.amps = IDLE_A + STALL_A * abs(self.duty * scale - emf)
        return self.duty * STALL_NM * scale

    def coast(self) -> float:
        """Let go: no torque."""
        self.duty, self.amps = 0.0, IDLE_A
        return 0.0

    def protect(self, s: Settings, dt_s: float) -> int:
        """Warm or cool, and count the time of overload and over-current.

        Returns:
            Error bits of what tripped.
        """
        self.celsius += (AMBIENT_C + HEATING_C_A2 * self.amps**2 - self.celsius) / HEATING_TAU_S * dt_s
        if self.held_c is not None:
            self.celsius = max(self.celsius, self.held_c)
        bits = HEAT_BIT if self.celsius > s.hottest_c else 0
        self._overload_s = self._overload_s + dt_s if abs(self.duty) >= s.overload > 0 else 0.0
        if self._overload_s > s.overload_s:
            bits |= OVERLOAD_BIT
        self._current_s = self._current_s + dt_s if self.amps > s.current_a > 0 else 0.0
        if self._current_s > s.current_s:
            bits |= CURRENT_BIT
        return bits

    def _ramp(self, s: Settings, fastest_ticks_s: float, dt_s: float) -> None:
        """Move the inner setpoint towards the goal within speed and acceleration."""
        left = s.goal_ticks - self.track_ticks
        if left == 0.0:
            self._track_ticks_s = 0.0
            return
        top = min(s.top_ticks_s, fastest_ticks_s) if s.top_ticks_s else fastest_ticks_s
        if not s.acceleration_ticks_s2:
            step = min(max(left, -top * dt_s), top * dt_s)
            self.track_ticks += step
            self._track_ticks_s = step / dt_s
            return
        most = s.acceleration_ticks_s2 * dt_s
        wanted = math.copysign(min(top, math.sqrt(2 * s.acceleration_ticks_s2 * abs(left))), left)
        self._track_ticks_s += min(max(wanted - self._track_ticks_s, -most), most)
        step = self._track_ticks_s * dt_s
        if abs(left) < 0.5 or (step * left > 0 and abs(step) >= abs(left)):
            self.track_ticks, self._track_ticks_s = s.goal_ticks, 0.0
        else:
            self.track_ticks += step
