"""What a session does around its episodes because the arm is real: ways, breaks, second tries, refusals."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import HardwareError
from .motion import slow_path
from .real import RealRig
from .recording import Interrupted, Recording
from .rig import Rig
from .safety.stops import EpisodeStop
from .walk import Plan

__all__ = ["Keeper"]

GLIDE_SPEED = 0.25
"""Unrecorded moves take this share of the rig's speed limits, as in simulation."""

REPEATED_SHARE = 0.1
"""Of an episode's frames that may show a camera's earlier image again."""

POLL_S = 0.2


class Keeper:
    """Keeps one real rig through a session.

    Args:
        bench: The open rig.
        rig: Its configuration.
        should_stop: Asked again and again; True ends what is under way.
        before_motion: Called once, before torque is first switched on; may raise Interrupted.
        say: Told what the user should hear.
    """

    def __init__(
        self,
        bench: RealRig,
        rig: Rig,
        should_stop: Callable[[], bool],
        before_motion: Callable[[], None] | None,
        say: Callable[[str], None],
    ) -> None:
        self._bench, self._rig, self._say = bench, rig, say
        self._arm = bench.arm
        self._should_stop, self._before_motion = should_stop, before_motion
        self._begun_s = self._work_began_s = time.monotonic()
        self._turns = self._missed = 0

    def time_is_up(self) -> bool:
        """Whether the session has lasted for the rig's ``max_minutes``."""
        limit = self._rig.safety.max_minutes
        return limit > 0 and time.monotonic() - self._begun_s > 60 * limit

    def to_start(self, plan: Plan) -> None:
        """By free ways to the center and on to the plan's first waypoint; torque comes on where the arm is.

        Raises:
            Interrupted: The user asked to stop.
            EpisodeStop: A threshold was crossed on the way.
        """
        if self._before_motion is not None:
            announce, self._before_motion = self._before_motion, None
            announce()
        self._arm.prepare()
        for pose in self._bench.way.to_center(self._arm.sent()):
            self._glide(pose)
        self._bench.way.walked(list(plan.q))
        self._glide(plan.q[0])
        self._turns, self._missed = self._arm.turns, self._arm.missed

    def refusal(self, recording: Recording, plan: Plan) -> str | None:
        """Why an episode that was recorded to its end is no good after all, or None."""
        fps, safety = self._rig.fps, self._rig.safety
        for camera, run in recording.frozen.items():
            if run >= safety.frozen_images:
                return (
                    f"camera {camera!r}: {run} images in a row repeat the one before, at the usual rate: the camera or "
                    "its driver hangs. Plug it in again"
                )
        gaps_s = recording.read_gaps_s
        usual_s = float(np.median(gaps_s)) if len(gaps_s) else np.inf
        if usual_s > 1.0 / fps:
            return (
                f"joints were read {1 / usual_s:.1f} times a second, {1 - 1 / usual_s / fps:.0%} less than the "
                f"dataset's {fps} frames: a recorder that trusts its timestamps would have compressed time by as much. "
                "The bus is slow: another USB port, or nothing else on its hub"
            )
        if (hole := _widest_hole(recording, fps)) is not None:
            return hole
        for camera, count in recording.repeated.items():
            if count > REPEATED_SHARE * plan.frames:
                return (
                    f"camera {camera!r} had no new image for {count} of {plan.frames} frames; "
                    "it is slower than its fps in the rig"
                )
        return None

    def details(self, recording: Recording) -> dict[str, Any]:
        """What to keep about an episode beside what a simulated one has."""
        gaps_ms = recording.read_gaps_s * 1000
        turns = self._arm.turns - self._turns
        return {
            "unread": recording.unread,
            "frozen": recording.frozen,
            "loop": {
                "turns": turns,
                "missed_deadlines": self._arm.missed - self._missed,
                "read_interval_ms": {
                    "median": float(np.median(gaps_ms)),
                    "p99": float(np.percentile(gaps_ms, 99)),
                    "max": float(gaps_ms.max()),
                }
                if len(gaps_ms)
                else {},
            },
            "latency_ms": dict(self._bench.latencies.camera_ms),
        }

    def recover(self, stop: EpisodeStop, plan: Plan, frames: int) -> None:
        """Do what a crossed threshold asks for, so that the episode can be tried again.

        Args:
            stop: What happened.
            plan: What was being walked.
            frames: How far it got.

        Raises:
            EpisodeStop: The response is ``stop``: it can't be tried again.
            HardwareError: A camera doesn't come back.
            Interrupted: The user asked to stop.
        """
        match stop.response:
            case "stop":
                raise stop
            case "back_off":
                reached = int(np.searchsorted(plan.path.arrivals, frames, side="right")) - 1
                self._say(f"{stop}. Backing off to waypoint {max(reached, 0)}")
                self._glide(plan.q[max(reached, 0)])
            case "cool_down":
                self._say(str(stop))
                self._cool_down()
            case "hold":
                self._say(f"{stop}. Holding")
                if stop.cause == "camera":
                    self._reopen_cameras()

    def between(self) -> None:
        """After an episode: the rig's breaks.

        Raises:
            Interrupted: The user asked to stop.
        """
        safety = self._rig.safety
        if safety.rest_minutes <= 0 or time.monotonic() - self._work_began_s < 60 * safety.work_minutes:
            return
        self._say(f"the arm rests for {safety.rest_minutes:g} min after {safety.work_minutes:g} at work")
        self._arm.rest()
        self._wait(lambda waited_s: waited_s >= 60 * safety.rest_minutes)
        self._work_began_s = time.monotonic()

    def _glide(self, pose: NDArray[np.float64]) -> None:
        path = slow_path(self._arm.sent(), pose, self._rig.limits, GLIDE_SPEED)

        def on_tick(_: Any) -> None:
            if self._should_stop():
                raise Interrupted

        self._arm.follow(path.at, self._arm.clock.now_ns(), path.duration_s, on_tick)

    def _cool_down(self) -> None:
        limit = self._rig.safety.cool_c
        self._arm.rest()
        told_s = -60.0

        def cool(waited_s: float) -> bool:
            nonlocal told_s
            now = self._arm.hottest()
            if waited_s - told_s >= 60:
                told_s = waited_s
                self._say(f"cooling down: {now:.0f} C, waiting for {limit:g} C, {waited_s / 60:.0f} min so far")
            return now < limit

        self._wait(cool)

    def _wait(self, over: Callable[[float], bool]) -> None:
        begun_s = time.monotonic()
        while not over(time.monotonic() - begun_s):
            if self._should_stop():
                raise Interrupted
            time.sleep(POLL_S)

    def _reopen_cameras(self) -> None:
        for name, camera in self._bench.cameras.items():
            if camera.silent:
                self._say(f"camera {name!r} is opened again")
                camera.close()
                try:
                    camera.start()
                except HardwareError as e:
                    raise HardwareError(f"{e}. The arm is brought to rest; saved episodes are whole") from e
                camera.stop()


def _widest_hole(recording: Recording, fps: int) -> str | None:
    """What to say about times in which no joint was read for more than two frames, or None if there are none."""
    gaps_s = recording.read_gaps_s
    holes = np.flatnonzero(gaps_s > 2.0 / fps)
    if not len(holes):
        return None
    read_ns = [t.t_ns for t in recording.ticks if np.isfinite(t.q).all()]
    worst = int(np.argmax(gaps_s))
    row = max(int((read_ns[worst] - recording.start_ns) / 1e9 * fps) + 1, 0)
    count = f"{len(holes)} gap{'s' if len(holes) > 1 else ''}"
    return (
        f"{count} in the joint readings, the widest {gaps_s[worst] * 1000:.0f} ms before row {row}: the machine is too "
        "busy, or servos were silent"
    )
