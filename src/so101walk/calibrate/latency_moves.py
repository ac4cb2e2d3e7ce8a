"""The walk of sharp moves that shows how late cameras are, and what is measured on the way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arms.arm import Tick
from ..envelope import Envelope
from ..errors import EnvelopeError
from ..joints import JOINTS
from ..motion import slow_path
from ..real import RealRig
from ..rig import LimitsConfig, Rig
from .latency import EARLIEST_S, LATEST_S, MoveSeen

__all__ = ["measure_moves"]

MOVER, REACH_DEG = "shoulder_pan", 14.0
"""What moves, and how far: the whole arm for a camera beside it, the whole view for one on it. Its axis is upright, so
no other joint gives way to it. When the elbow moves, the shoulder yields a third of a degree as the elbow brakes; that
late motion of the whole arm made latencies 5 ms too long on the emulator."""

DWELL_S = (LATEST_S + 0.1, LATEST_S + 0.4)
"""The arm stands still for so long before each move, a random time: the frames must not keep step with the moves."""

PIXELS = 2
"""Every so many pixels each way are looked at."""


@dataclass(frozen=True)
class _Step:
    begins_s: float
    ends_s: float


def measure_moves(
    bench: RealRig,
    rig: Rig,
    envelope: Envelope,
    moves: int,
    rng: np.random.Generator,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, list[MoveSeen]]:
    """Walk to the envelope's center, make sharp moves about it, and note what each camera saw of each.

    Args:
        bench: An open rig.
        rig: Its configuration.
        envelope: Where it may move.
        moves: How many.
        rng: For the dwells.
        on_progress: Told how many moves are done.

    Returns:
        The moves of each camera.

    Raises:
        EnvelopeError: There is no room for a move about the center.
        EpisodeStop: A threshold was crossed.
    """
    arm = bench.arm
    arm.prepare()
    for pose in bench.way.to_center(arm.sent()):
        path = slow_path(arm.sent(), pose, rig.limits)
        arm.follow(path.at, arm.clock.now_ns(), path.duration_s)
    setpoint, steps, lasts_s = _plan(envelope, rig.limits, moves, rng)
    ticks: list[Tick] = []
    seen = {name: _Seen() for name in bench.cameras}
    start_ns = arm.clock.now_ns()

    def on_tick(tick: Tick) -> None:
        ticks.append(tick)
        for name, camera in bench.cameras.items():
            seen[name].take(camera.drain(), start_ns)
        on_progress(sum(s.ends_s < (tick.t_ns - start_ns) / 1e9 for s in steps))

    for camera in bench.cameras.values():
        camera.start()
    try:
        arm.follow(setpoint, start_ns, lasts_s, on_tick)
    finally:
        for camera in bench.cameras.values():
            camera.stop()
    good = [t for t in ticks if np.isfinite(t.q).all()]
    t_s = np.array([(t.t_ns - start_ns) / 1e9 for t in good])
    joint = np.array([t.q[JOINTS.index(MOVER)] for t in good])
    return {name: [s.window(step, t_s, joint) for step in steps] for name, s in seen.items()}


class _Seen:
    """Times and differences of one camera's images."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._differences: list[float] = []
        self._last: NDArray[np.int16] | None = None

    def take(self, images: Any, start_ns: int) -> None:
        for image in images:
            small = image.rgb[::PIXELS, ::PIXELS].astype(np.int16)
            if self._last is not None:
                self._differences.append(float(np.abs(small - self._last).mean()))
            self._times.append((image.t_ns - start_ns) / 1e9)
            self._last = small

    def window(self, step: _Step, t_s: NDArray[np.float64], joint: NDArray[np.float64]) -> MoveSeen:
        """What there was from a little before a move until the latest image of it could have come."""
        times, differences = np.array(self._times), np.array(self._differences)
        first, last = step.begins_s + EARLIEST_S, step.ends_s + LATEST_S
        inside = np.flatnonzero((times >= first) & (times <= last))
        if len(inside) < 3:
            nothing = np.zeros(3)
            return MoveSeen(t_s, joint, nothing + first, nothing[:2])
        return MoveSeen(t_s, joint, times[inside], differences[inside[0] : inside[-1]])


def _plan(
    envelope: Envelope, limits: LimitsConfig, moves: int, rng: np.random.Generator
) -> tuple[Callable[[float], NDArray[np.float64]], list[_Step], float]:
    """Setpoints over time: to one side and back, as fast as the limits allow."""
    here = envelope.center.copy()
    aside = envelope.center.copy()
    aside[JOINTS.index(MOVER)] += REACH_DEG
    if (why := envelope.why_not_segment(here, aside)) is not None:
        raise EnvelopeError(f"no room to move {MOVER} by {REACH_DEG:g} deg about the center: {why.message}")
    paths, steps, now_s = [], [], 0.0
    for k in range(moves):
        there = aside if k % 2 == 0 else envelope.center.copy()
        now_s += rng.uniform(*DWELL_S)
        path = slow_path(here, there, limits, 1.0)
        paths.append((now_s, path))
        steps.append(_Step(now_s, now_s + path.duration_s))
        now_s += path.duration_s
        here = there
    starts = np.array([s for s, _ in paths])

    def setpoint(t_s: float) -> NDArray[np.float64]:
        k = int(np.searchsorted(starts, t_s, side="right")) - 1
        return envelope.center.copy() if k < 0 else paths[k][1].at(float(t_s - starts[k]))

    return setpoint, steps, now_s + LATEST_S + 0.3
