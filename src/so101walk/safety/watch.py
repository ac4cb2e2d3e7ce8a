"""Judges every tick of a real arm's loop against the rig's thresholds. Pure: ticks in, stops out."""

import numpy as np
from numpy.typing import NDArray

from ..arms.arm import Tick
from ..joints import JOINTS, UNITS, N
from ..rig import SafetyConfig
from .stops import EpisodeStop, Response, error_bits

__all__ = ["Watch"]


class Watch:
    """Counts for how long each threshold has been passed.

    Args:
        config: The thresholds.
        volts: Lowest and highest supply voltage that each servo's own limits allow, shape (6, 2).
    """

    def __init__(self, config: SafetyConfig, volts: NDArray[np.float64]) -> None:
        self._config = config
        self._volts = volts
        self._tracking = config.tracking()
        self.reset()

    def reset(self) -> None:
        """Forget what has been counted: a new move begins."""
        self._off_track_ns = np.full(N, -1, np.int64)
        self._over_current_ns = np.full(N, -1, np.int64)
        self._bad = 0
        self._voltage_ns = np.full(N, -1, np.int64)

    def see(self, tick: Tick) -> EpisodeStop | None:
        """What this tick gives cause for, the most serious first, or None."""
        status = tick.extra.get("status")
        if status is not None and (stop := self._errors(status)):
            return stop
        rebooted = tick.extra.get("rebooted")
        if rebooted is not None and np.any(rebooted == 1):
            return self._reboot(int(np.flatnonzero(rebooted == 1)[0]))
        return (
            self._silence(tick) or self._voltage(tick) or self._heat(tick) or self._current(tick) or self._track(tick)
        )

    def _errors(self, status: NDArray[np.float64]) -> EpisodeStop | None:
        for i in np.flatnonzero(np.nan_to_num(status) > 0):
            bits = error_bits(int(status[i]))
            if int(status[i]) == 0x04:
                continue  # heat alone is the temperature's business: the arm cools down, the session goes on
            names = ", ".join(name for name, _ in bits)
            return EpisodeStop(
                "stop", names.split(",")[0], f"{JOINTS[i]}: the servo reports {names}; likely {bits[0][1]}", JOINTS[i]
            )
        return None

    def _reboot(self, i: int) -> EpisodeStop:
        return EpisodeStop(
            "stop",
            "reboot",
            f"{JOINTS[i]}: the servo restarted by itself and lost its settings; likely a brown-out or a loose cable. "
            "Check its plug and the supply (5 A or more)",
            JOINTS[i],
        )

    def _silence(self, tick: Tick) -> EpisodeStop | None:
        bad = ~np.isfinite(tick.q)
        self._bad = self._bad + 1 if bad.any() else 0
        if self._bad < self._config.bad_ticks:
            return None
        silent = [JOINTS[i] for i in np.flatnonzero(bad)]
        who = "no servo" if len(silent) == N else f"{', '.join(silent)} did not"
        return EpisodeStop(
            "stop",
            "silence",
            f"{who} answer{'ed' if len(silent) == N else ''} for {self._bad} ticks in a row; "
            "likely a loose cable or a dead supply. Check the plugs from the last servo that answers on",
            silent[0] if len(silent) < N else "",
        )

    def _voltage(self, tick: Tick) -> EpisodeStop | None:
        volts = tick.extra.get("voltage")
        if volts is None:
            return None
        bad = (volts < self._volts[:, 0]) | (volts > self._volts[:, 1])
        i = self._longest(self._voltage_ns, bad, tick.t_after_ns, 0.1)
        if i is None:
            return None
        low, high = self._volts[i]
        return EpisodeStop(
            "stop",
            "voltage",
            f"{JOINTS[i]}: supply is {volts[i]:.1f} V; the servo's own limits are {low:.1f} to {high:.1f} V. "
            "Check the supply and its plug",
            JOINTS[i],
        )

    def _heat(self, tick: Tick) -> EpisodeStop | None:
        heat = tick.extra.get("temperature")
        if heat is None or not np.any(heat >= self._config.hot_c):
            return None
        i = int(np.nanargmax(heat))
        return EpisodeStop(
            "cool_down",
            "temperature",
            f"{JOINTS[i]}: {heat[i]:.0f} C; the rig's limit is {self._config.hot_c:g} C. Cooling down below "
            f"{self._config.cool_c:g} C",
            JOINTS[i],
        )

    def _current(self, tick: Tick) -> EpisodeStop | None:
        current = tick.extra.get("current")
        if current is None:
            return None
        limit = self._config.current_ma
        i = self._longest(self._over_current_ns, current > limit, tick.t_after_ns, self._config.current_s)
        if i is None:
            return None
        return self._blocked(
            "current", i, f"draws {current[i]:.0f} mA; the limit is {limit:g} for {self._config.current_s:g} s"
        )

    def _track(self, tick: Tick) -> EpisodeStop | None:
        error = np.abs(tick.q - tick.sent)
        i = self._longest(self._off_track_ns, error > self._tracking, tick.t_after_ns, self._config.tracking_s)
        if i is None:
            return None
        return self._blocked(
            "tracking",
            i,
            f"is {error[i]:.1f} {UNITS[i]} from its goal; the limit is {self._tracking[i]:.1f} "
            f"for {self._config.tracking_s:g} s",
        )

    def _blocked(self, cause: str, i: int, what: str, response: Response = "back_off") -> EpisodeStop:
        return EpisodeStop(response, cause, f"{JOINTS[i]} {what}: something is in its way. Clear it", JOINTS[i])

    def _longest(
        self, since_ns: NDArray[np.int64], crossed: NDArray[np.bool_], now_ns: int, limit_s: float
    ) -> int | None:
        """The joint that has been across longest, if for the limit or longer. ``since_ns`` is brought up to date."""
        since_ns[~crossed] = -1
        since_ns[crossed & (since_ns < 0)] = now_ns
        lasted = np.where(since_ns >= 0, now_ns - since_ns, -1)
        i = int(np.argmax(lasted))
        return i if lasted[i] >= limit_s * 1e9 else None
