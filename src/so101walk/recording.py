"""One episode on an arm, real or simulated: walk the plan's path, let the cameras run, hand out finished frames."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .arms.arm import Arm, Tick
from .cameras.camera import Camera, Image
from .dataset.schema import Frame
from .envelope import Envelope
from .errors import HardwareError
from .joints import JOINTS
from .latencies import Latencies
from .motion import slow_path
from .rig import LimitsConfig
from .safety.stops import EpisodeStop
from .sync import FrameGrid, SyncedFrame
from .walk import Plan

__all__ = ["Interrupted", "Recording", "go_to", "record"]

PREROLL_S = 0.1
"""The arm holds the first waypoint for so long before frame 0: every camera of 15 fps or more has delivered by then."""

POSTROLL_S = 0.3
"""The path may go on for so long after the last frame; it ends once its image and the joints after it have come."""


class Interrupted(Exception):
    """The user asked to stop: the current episode is dropped, saved ones stay."""


class _AllFramesBuilt(Exception):
    """Ends the control loop of an episode that is complete."""


@dataclass(frozen=True)
class Recording:
    """What happened while an episode was recorded.

    Attributes:
        ticks: Every turn of the control loop, in order.
        captures: Capture times of every image of each camera, on the arm's clock [ns].
        bad_ticks: Ticks with a joint that could not be read.
        repeated: Frames of each camera that show an earlier image again, since no new one came.
        skipped: Images of each camera that no frame shows.
        start_ns: Nominal time of frame 0 on the arm's clock.
        unread: Ticks in which each joint could not be read, by name; only those that could not.
        frozen: Longest run of images of each camera with the same bytes as the one before; only real cameras.
        seconds: From the first to the last frame's joints, as measured.
    """

    ticks: list[Tick]
    captures: dict[str, list[int]]
    bad_ticks: int
    repeated: dict[str, int]
    skipped: dict[str, int]
    seconds: float
    start_ns: int = 0
    unread: dict[str, int] = field(default_factory=dict)
    frozen: dict[str, int] = field(default_factory=dict)

    @property
    def read_gaps_s(self) -> NDArray[np.float64]:
        """From each good reading of the joints to the next [s]. Shape (readings - 1,)."""
        return np.diff([t.t_ns for t in self.ticks if np.isfinite(t.q).all()]) / 1e9


def go_to(arm: Arm, q: NDArray[np.float64], limits: LimitsConfig) -> None:
    """Move the simulated arm, unrecorded and within its limits, to ``q`` (6,) in LeRobot units.

    The caller has checked that the way is free. A real arm goes slower: see :class:`so101walk.keeper.Keeper`.
    """
    path = slow_path(arm.present(), q, limits, factor=1.0)
    arm.follow(path.at, arm.clock.now_ns(), path.duration_s)


def record(
    arm: Arm,
    cameras: Mapping[str, Camera],
    plan: Plan,
    envelope: Envelope,
    fps: int,
    add: Callable[[Frame], None],
    should_stop: Callable[[], bool],
    latencies: Latencies | None = None,
) -> Recording:
    """Walk a plan whose first waypoint the arm already holds, and hand each finished frame to ``add``.

    Args:
        arm: Connected, at rest at the first waypoint.
        cameras: By name; the first one's captures are the moments that joints are interpolated at.
        plan: What to do.
        envelope: For the commanded latent of each frame.
        fps: Frames a second.
        add: Takes the frames in order; an exception from it ends the episode.
        should_stop: Asked at each tick; True ends the episode.
        latencies: Measured ones; None for none.

    Raises:
        Interrupted: ``should_stop`` said so.
        HardwareError: A camera or the bus did not deliver enough to build every frame.
    """
    begin_ns = arm.clock.now_ns()
    late = latencies or Latencies("none")
    start_ns = begin_ns + round(PREROLL_S * 1e9)
    grid = FrameGrid(fps, list(cameras), start_ns, plan.frames, late.camera_ns, late.bus_ns)
    longest_s = max(late.camera_ns.values(), default=0) / 1e9
    frozen = {name: _Frozen() for name in cameras} if not arm.simulated else {}
    waypoints = plan.waypoint_at()
    ticks: list[Tick] = []
    captures: dict[str, list[int]] = {name: [] for name in cameras}
    last_wall_ns = 0

    def built(now_ns: int) -> list[SyncedFrame]:
        try:
            return list(grid.ready(now_ns))
        except HardwareError as e:
            if arm.simulated:
                raise
            raise EpisodeStop("hold", "camera", str(e)) from e

    def on_tick(tick: Tick) -> None:
        nonlocal last_wall_ns
        if should_stop():
            raise Interrupted
        ticks.append(tick)
        grid.add_tick(tick)
        for name, camera in cameras.items():
            images = camera.drain()
            captures[name] += [i.t_ns for i in images]
            if name in frozen:
                frozen[name].see(images)
            grid.add_images(name, images)
        for frame in built(tick.t_after_ns):
            add(_row(frame, plan, envelope, fps, int(waypoints[frame.index])))
            last_wall_ns = frame.wall_ns
        if grid.done:
            raise _AllFramesBuilt

    for camera in cameras.values():
        camera.start()
    try:
        arm.follow(
            lambda t_s: plan.path.at(max(t_s - PREROLL_S, 0.0)),
            begin_ns,
            PREROLL_S + plan.frames / fps + POSTROLL_S + longest_s,
            on_tick,
        )
    except _AllFramesBuilt:
        pass
    finally:
        for camera in cameras.values():
            camera.stop()
    if not grid.done:
        raise HardwareError(
            f"only {grid.built} of {plan.frames} frames could be built: "
            f"images came from {', '.join(f'{c} ({len(t)})' for c, t in captures.items())}, {len(ticks)} joint readings"
        )
    return Recording(
        ticks,
        captures,
        grid.bad_ticks,
        grid.repeated,
        grid.skipped,
        last_wall_ns / 1e9,
        start_ns,
        _unread(ticks) if grid.bad_ticks else {},
        {name: f.longest for name, f in frozen.items() if f.longest},
    )


class _Frozen:
    """Counts how often in a row a camera's image has the bytes of the one before."""

    def __init__(self) -> None:
        self._last: NDArray[np.uint8] | None = None
        self._run = self.longest = 0

    def see(self, images: Iterable[Image]) -> None:
        for image in images:
            same = self._last is not None and np.array_equal(self._last, image.rgb)
            self._run = self._run + 1 if same else 0
            self.longest = max(self.longest, self._run)
            self._last = image.rgb


def _unread(ticks: list[Tick]) -> dict[str, int]:
    counts = np.isnan(np.array([t.q for t in ticks])).sum(axis=0)
    return {j: int(n) for j, n in zip(JOINTS, counts, strict=True) if n}


def _row(frame: SyncedFrame, plan: Plan, envelope: Envelope, fps: int, waypoint: int) -> Frame:
    # The frame's nominal time, not its measured one: at a waypoint this is the chain's state to the last bit.
    z = envelope.q_to_z(plan.path.at(frame.index / fps)) if waypoint < 0 else plan.z[waypoint]
    return Frame(
        state=frame.state,
        action=frame.sent,
        z=z,
        request=frame.request,
        waypoint=waypoint,
        images=frame.images,
        capture_ns=frame.capture_ns,
        state_gap_ns=frame.state_gap_ns,
        wall_ns=frame.wall_ns,
        repeated=frame.repeated,
    )
