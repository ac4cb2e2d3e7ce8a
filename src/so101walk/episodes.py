"""The episodes of a session on one rig: plan, go to the start, record, verify, save; and again where one failed."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .arms.arm import Arm
from .cameras.camera import Camera
from .dataset.raw import RawLog
from .dataset.staging import Staging
from .dataset.writer import ChecksFailed, EpisodeWriter
from .errors import DatasetError
from .joints import ROBOT_TYPE
from .recording import Interrupted, Recording, go_to, record
from .safety.stops import EpisodeStop
from .session_spec import Report, SessionSpec
from .walk import Plan, episode_rng, plan_episode

if TYPE_CHECKING:
    from .keeper import Keeper
    from .latencies import Latencies

__all__ = ["walk_episodes"]

ATTEMPTS = 3
"""An episode that fails its verification is set aside and drawn anew so often, then the session ends."""


def walk_episodes(
    spec: SessionSpec,
    staging: Staging,
    walk_indices: Iterable[int],
    report: Report,
    should_stop: Callable[[], bool],
    before_motion: Callable[[], None] | None = None,
) -> None:
    """Walk and save these episodes, one after the other, on one rig.

    Raises:
        DatasetError: An episode failed its verification :data:`ATTEMPTS` times, or nothing can be written.
        HardwareError: The rig failed.
    """
    if not spec.rig.simulated:
        walk_indices = list(walk_indices)
        if not walk_indices:
            return  # an arm is not woken for nothing
    with _open_rig(spec, should_stop, before_motion) as bench:
        for walk_index in walk_indices:
            if should_stop() or (bench.keeper is not None and bench.keeper.time_is_up()):
                return
            try:
                _walk_one(spec, staging, bench, walk_index, report, should_stop)
                if bench.keeper is not None:
                    bench.keeper.between()
            except Interrupted:
                return


@dataclass(frozen=True)
class _Bench:
    """What a session walks on. ``keeper`` and ``latencies`` are a real rig's."""

    arm: Arm
    cameras: dict[str, Camera]
    keeper: "Keeper | None" = None
    latencies: "Latencies | None" = None


@contextlib.contextmanager
def _open_rig(
    spec: SessionSpec, should_stop: Callable[[], bool], before_motion: Callable[[], None] | None
) -> Iterator[_Bench]:
    if not spec.rig.simulated:
        from .keeper import Keeper
        from .real import open_real

        with open_real(spec.rig, spec.envelope, faults=spec.faults, say=_say) as real:
            keeper = Keeper(real, spec.rig, should_stop, before_motion, _say)
            yield _Bench(real.arm, dict(real.cameras), keeper, real.latencies)
        return
    from .cameras.simulated import make_simulated

    arm, cameras = make_simulated(spec.rig, full_meshes=spec.full_meshes)
    try:
        arm.connect()
        yield _Bench(arm, dict(cameras))
    finally:
        for camera in cameras.values():
            camera.close()
        arm.close()


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _walk_one(
    spec: SessionSpec,
    staging: Staging,
    bench: _Bench,
    walk_index: int,
    report: Report,
    should_stop: Callable[[], bool],
) -> None:
    for attempt in range(ATTEMPTS):
        rng = episode_rng(spec.seed, walk_index, attempt)
        plan = plan_episode(spec.policy.make(), spec.envelope, spec.rig.limits, spec.rig.fps, spec.frames, rng)
        report.started(walk_index, plan.frames)
        writer: EpisodeWriter | None = None
        done = 0
        try:
            _go_to_start(spec, bench, plan)
            writer = EpisodeWriter(
                staging,
                walk_index,
                fps=spec.rig.fps,
                cameras=spec.camera_sizes,
                robot_type=ROBOT_TYPE,
                task=spec.rig.task,
                attempt=attempt,
            )

            def add(frame: Any, writer: EpisodeWriter = writer) -> None:
                nonlocal done
                writer.add(frame)
                done += 1
                report.advanced(walk_index, done)

            recording = record(
                bench.arm, bench.cameras, plan, spec.envelope, spec.rig.fps, add, should_stop, bench.latencies
            )
            summary = _summary(spec, plan, recording, walk_index, attempt)
            refusal = None
            if bench.keeper is not None:
                summary |= bench.keeper.details(recording)
                refusal = bench.keeper.refusal(recording, plan)
            attrs = _raw_attrs(spec, plan, summary)
            if not spec.rig.simulated:
                attrs["start_ns"] = recording.start_ns
            raw = RawLog.of(recording.ticks, recording.captures, attrs)
            if refusal is not None:
                where = writer.set_aside(refusal, summary, raw)
                report.failed(walk_index, f"{refusal} (kept in {where})")
                continue
            writer.finish(summary, raw, plan.steps + 1)
        except ChecksFailed as e:
            report.failed(walk_index, str(e))
            continue
        except EpisodeStop as e:
            if writer is not None:
                writer.abandon(str(e))
            if bench.keeper is None:
                raise
            report.failed(walk_index, str(e))
            bench.keeper.recover(e, plan, done)
            continue
        except BaseException as e:
            if writer is not None:
                writer.abandon(str(e) or type(e).__name__)
            raise
        report.saved(walk_index, summary)
        return
    raise DatasetError(
        f"episode {walk_index} failed its verification {ATTEMPTS} times; the attempts lie in {staging.aside}. "
        "Look at their reasons, mend the cause, then go on with --resume"
    )


def _go_to_start(spec: SessionSpec, bench: _Bench, plan: Plan) -> None:
    if bench.keeper is not None:
        bench.keeper.to_start(plan)
        return
    bench.arm.prepare()
    go_to(bench.arm, spec.envelope.center, spec.rig.limits)
    go_to(bench.arm, plan.q[0], spec.rig.limits)


def _summary(spec: SessionSpec, plan: Plan, recording: Recording, walk_index: int, attempt: int) -> dict[str, Any]:
    nominal_s = (plan.frames - 1) / spec.rig.fps
    return {
        "walk_index": walk_index,
        "attempt": attempt,
        "frames": plan.frames,
        "steps": plan.steps,
        "rejected": sum(plan.causes.values()),
        "causes": plan.causes,
        "stretched": int((plan.path.stretched[: plan.steps] > 0).sum()),
        "redrawn_starts": plan.redrawn_starts,
        "waypoints": plan.steps + 1,
        "seconds": recording.seconds,
        "cadence_error": recording.seconds / nominal_s - 1.0 if nominal_s > 0 else 0.0,
        "bad_ticks": recording.bad_ticks,
        "repeated": recording.repeated,
        "skipped": recording.skipped,
    }


def _raw_attrs(spec: SessionSpec, plan: Plan, summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "seed": spec.seed,
        "walk_index": summary["walk_index"],
        "attempt": summary["attempt"],
        "policy": spec.policy.to_dict(),
        "waypoints_z": plan.z,
        "refusals": plan.refusals,
        "arrivals": plan.path.arrivals,
    }
