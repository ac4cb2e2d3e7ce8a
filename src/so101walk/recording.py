"""One episode on an arm: walk the plan's path, let the cameras run, hand out finished frames. Real and simulated alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arms.arm import Arm, Tick
from .cameras.camera import Camera
from .dataset.schema import Frame
from .envelope import Envelope
from .errors import HardwareError
from .motion import slow_path
from .rig import LimitsConfig
from .sync import FrameGrid, SyncedFrame
from .walk import Plan

__all__ = ["Interrupted", "Recording", "go_to", "record"]

PREROLL_S = 0.1
"""The arm holds the first waypoint for so long before frame 0: every camera of 15 fps or more has delivered by then."""

POSTROLL_S = 0.3
"""The path may go on for so long after the last frame; it ends as soon as its image and the joints after it have come."""


class Interrupted(Exception):  # noqa: N818
    """The user asked to stop: the current episode is dropped, saved ones stay."""


class _AllFramesBuilt(Exception):  # noqa: N818
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
        seconds: From the first to the last frame's joints, as measured.
    """

    ticks: list[Tick]
    captures: dict[str, list[int]]
    bad_ticks: int
    repeated: dict[str, int]
    skipped: dict[str, int]
    seconds: float


def go_to(arm: Arm, q: NDArray[np.float64], limits: LimitsConfig) -> None:
    """Move slowly and unrecorded to ``q`` (6,), in LeRobot units; the caller has checked that the way is free."""
    path = slow_path(arm.present(), q, limits)
    arm.follow(path.at, arm.clock.now_ns(), path.duration_s)


def record(
    arm: Arm,
    cameras: Mapping[str, Camera],
    plan: Plan,
    envelope: Envelope,
    fps: int,
    add: Callable[[Frame], None],
    should_stop: Callable[[], bool],
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

    Raises:
        Interrupted: ``should_stop`` said so.
        HardwareError: A camera or the bus did not deliver enough to build every frame.
    """
    begin_ns = arm.clock.now_ns()
    grid = FrameGrid(fps, list(cameras), begin_ns + round(PREROLL_S * 1e9), plan.frames)
    waypoints = plan.waypoint_at()
    ticks: list[Tick] = []
    captures: dict[str, list[int]] = {name: [] for name in cameras}
    last_wall_ns = 0

    def on_tick(tick: Tick) -> None:
        nonlocal last_wall_ns
        if should_stop():
            raise Interrupted
        ticks.append(tick)
        grid.add_tick(tick)
        for name, camera in cameras.items():
            images = camera.drain()
            captures[name] += [i.t_ns for i in images]
            grid.add_images(name, images)
        for frame in grid.ready(tick.t_after_ns):
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
            PREROLL_S + plan.frames / fps + POSTROLL_S,
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
    return Recording(ticks, captures, grid.bad_ticks, grid.repeated, grid.skipped, last_wall_ns / 1e9)


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
