"""One collection: what is asked for, what is there already, the episodes that are missing, the dataset at the end."""

import contextlib
import functools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .arms.arm import Arm
from .cameras.camera import Camera
from .dataset.assemble import assemble
from .dataset.durable import read_json
from .dataset.raw import RawLog
from .dataset.schema import META, features
from .dataset.staging import Staging, compare_identity, identity_of, saved_walk_indices, sibling
from .dataset.writer import ChecksFailed, EpisodeWriter
from .envelope import Envelope
from .errors import DatasetError, HardwareError, UsageError
from .joints import ROBOT_TYPE
from .policies.load import PolicySpec, load_policy
from .recording import Interrupted, Recording, go_to, record
from .rig import Rig
from .safety.stops import EpisodeStop
from .walk import Plan, episode_rng, plan_episode

if TYPE_CHECKING:
    from .keeper import Keeper
    from .latencies import Latencies

__all__ = ["Report", "SessionReport", "SessionSpec", "collect", "found_at", "walk_episodes"]

ATTEMPTS = 3
"""An episode that fails its verification is set aside and drawn anew so often, then the session ends."""


class Report(Protocol):
    """Who is told how a session goes. Calls may come from any worker, in any order."""

    def started(self, walk_index: int, frames: int) -> None:
        """An episode begins that will have so many frames."""
        ...

    def advanced(self, walk_index: int, frames: int) -> None:
        """So many frames of it are recorded."""
        ...

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        """It is verified and durable."""
        ...

    def failed(self, walk_index: int, reason: str) -> None:
        """It was set aside; it will be tried again."""
        ...


@dataclass(frozen=True)
class SessionSpec:
    """What a session is asked to do.

    Args:
        out: The dataset's folder.
        rig: What walks; the simulated twin in a dry run.
        policy_source: The name or file of what it walks.
        envelope: Where it may.
        episodes: Total wanted in the dataset.
        episode_s: Seconds an episode.
        seed: Of the whole walk; episode ``i`` depends on it and on ``i`` alone.
        dry_run: The rig is the twin of a real one.
        full_meshes: Render the original meshes, in simulation.
        note: Kept in the dataset's metadata.
        policy_overrides: What the command line puts in place of the policy file's values.
    """

    out: Path
    rig: Rig
    policy_source: str
    envelope: Envelope
    episodes: int
    episode_s: float
    seed: int
    dry_run: bool = False
    full_meshes: bool = False
    note: str = ""
    policy_overrides: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise UsageError(f"--episodes is {self.episodes}; it must be 1 or more")
        if not (math.isfinite(self.episode_s) and 1 <= self.frames <= 100_000):
            raise UsageError(
                f"--episode-s is {self.episode_s:g}; an episode must have 1 to 100000 frames at {self.rig.fps} fps"
            )

    @functools.cached_property
    def policy(self) -> PolicySpec:
        """What walks. Loaded anew in each worker: a policy from a Python file can't be pickled."""
        return load_policy(self.policy_source, self.policy_overrides)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "policy"}

    @property
    def frames(self) -> int:
        """Dataset frames an episode."""
        return round(self.episode_s * self.rig.fps)

    @property
    def camera_sizes(self) -> dict[str, tuple[int, int]]:
        """Height and width [px] of each camera's images, by name."""
        return {name: (c.height, c.width) for name, c in self.rig.cameras.items()}

    def identity(self) -> dict[str, Any]:
        """What walks, for the dataset's metadata; a resume in which the walk differs is refused.

        Raises:
            HardwareError: A real arm has no calibration file.
        """
        return {
            "fps": self.rig.fps,
            "features": features(self.camera_sizes),
            "rig": self._rig_identity(),
            "envelope": {**self.envelope.to_dict(), "digest": self.envelope.digest},
            "policy": self.policy.to_dict(),
            "episode_s": self.episode_s,
            "seed": self.seed,
            "simulated": self.rig.simulated,
            "dry_run": self.dry_run,
            "robot_type": ROBOT_TYPE,
            "task": self.rig.task,
            "note": self.note,
        }

    def _rig_identity(self) -> dict[str, Any]:
        if self.rig.simulated:
            return self.rig.to_dict()
        from .real import calibration_digest

        return {**self.rig.to_dict(), "calibration": calibration_digest(self.rig)}

    @property
    def faults(self) -> Path:
        """Where a real arm's black box leaves its files: beside the dataset."""
        return sibling(self.out, ".faults")


@dataclass(frozen=True)
class SessionReport:
    """How a session ended.

    Attributes:
        out: The dataset.
        wanted: Episodes asked for in total.
        episodes: Episodes in the dataset now.
        frames: Frames in the dataset now.
        collected: Episodes that this session added.
        failed: Reasons of episodes that were set aside.
        interrupted: The user stopped it.
        steps: Proposals of all episodes.
        causes: What refused proposals, and how often.
        stretched: Steps that took more frames than the policy asks, for the speed limits.
        seconds: Wall time of this session's walking.
        rate_hz: Frames a second that this session achieved.
        repeated: Frames of each camera that repeat an earlier image.
        bad_ticks: Control ticks with a joint that could not be read.
        seed: The walk's seed.
        unread: Ticks in which each joint could not be read, by name.
        faults: Folder of the black box's files, if there are any.
    """

    out: Path
    wanted: int
    episodes: int
    frames: int
    collected: int
    failed: list[str]
    interrupted: bool
    steps: int
    causes: dict[str, int]
    stretched: int
    seconds: float
    rate_hz: float
    repeated: dict[str, int]
    bad_ticks: int
    seed: int
    unread: dict[str, int] = field(default_factory=dict)
    faults: str = ""

    @property
    def acceptance(self) -> float | None:
        """Share of proposals that the envelope accepted; None before the first."""
        return 1.0 - sum(self.causes.values()) / self.steps if self.steps else None


@dataclass
class _Tally:
    """What a session saw, for its report; passes everything on."""

    to: Report
    frames: int = 0
    saved_records: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def started(self, walk_index: int, frames: int) -> None:
        self.to.started(walk_index, frames)

    def advanced(self, walk_index: int, frames: int) -> None:
        self.to.advanced(walk_index, frames)

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        self.frames += record["frames"]
        self.saved_records.append(record)
        self.to.saved(walk_index, record)

    def failed(self, walk_index: int, reason: str) -> None:
        self.reasons.append(f"episode {walk_index}: {reason}")
        self.to.failed(walk_index, reason)


def found_at(out: Path, resume: bool) -> dict[str, Any] | None:
    """What walked in the dataset at ``out``, for a session that goes on with it; None where a new one can begin.

    Args:
        out: The dataset's folder.
        resume: Whether the user wants to add to what is there.

    Raises:
        UsageError: Something is there and ``resume`` is not asked for.
        DatasetError: What is there is not a dataset of so101walk, or torn.
    """
    staging = Staging(out)
    if not resume:
        for there in (out, staging.root):
            if there.exists() and not (there == staging.root and not staging.exists):
                raise UsageError(f"{there} exists. Add to it with --resume, or choose another --out")
        return None
    return identity_of(out)


def collect(
    spec: SessionSpec,
    report: Report,
    should_stop: Callable[[], bool],
    *,
    workers: int = 1,
    before_motion: Callable[[], None] | None = None,
) -> SessionReport:
    """Collect the episodes that are missing and build the dataset; what was saved before stays as it was.

    Args:
        spec: What is asked for.
        report: Told as it goes.
        should_stop: Asked at every tick; True drops the current episode and finishes tidily.
        workers: Processes that walk at once; simulated rigs only.
        before_motion: Called before a real arm first moves; may raise :class:`~so101walk.recording.Interrupted`.

    Raises:
        UsageError: The dataset there is of another walk (every difference is told), or ``workers`` with a real rig.
        DatasetError, HardwareError, EnvelopeError: The session can't go on; saved episodes are in the staging folder
            or the dataset, and the message says what to do.
    """
    from .workers import walk_in_processes

    if workers > 1 and not spec.rig.simulated:
        raise UsageError(f"--workers {workers} needs a simulated rig; {spec.rig.name!r} is one real arm. Leave it out")
    stored = identity_of(spec.out)
    if stored is not None and (differences := compare_identity(stored, spec.identity())):
        raise UsageError(f"{spec.out} holds another walk, nothing was changed: {'; '.join(differences)}")
    tally = _Tally(report)
    staging = Staging(spec.out)
    with staging.lock():
        staging.begin(spec.identity())
        missing = sorted(set(range(spec.episodes)) - saved_walk_indices(spec.out))
        begun = time.monotonic()
        if workers > 1 and len(missing) > 1:
            walk_in_processes(spec, staging, missing, tally, should_stop, min(workers, len(missing)))
        else:
            try:
                walk_episodes(spec, staging, missing, tally, should_stop, before_motion)
            except HardwareError:
                if not spec.rig.simulated and saved_walk_indices(spec.out):
                    assemble(spec.out)  # the arm failed, the episodes before did not
                raise
        seconds = time.monotonic() - begun
        if not saved_walk_indices(spec.out):
            staging.remove()
            return _report(spec, tally, [], seconds)
        assemble(spec.out)
    return _report(spec, tally, read_json(spec.out / META)["episodes"], seconds)


def _report(spec: SessionSpec, tally: _Tally, records: list[dict[str, Any]], seconds: float) -> SessionReport:
    causes: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    for r in records:
        unread.update(r.get("unread", {}))
        causes.update(r["causes"])
        repeated.update(r["repeated"])
    return SessionReport(
        out=spec.out,
        wanted=spec.episodes,
        episodes=len(records),
        frames=sum(r["frames"] for r in records),
        collected=len(tally.saved_records),
        failed=tally.reasons,
        interrupted=len(records) < spec.episodes,
        steps=sum(r["steps"] for r in records),
        causes=dict(causes),
        stretched=sum(r["stretched"] for r in records),
        seconds=seconds,
        rate_hz=tally.frames / seconds if seconds > 0 else 0.0,
        repeated=dict(repeated),
        bad_ticks=sum(r["bad_ticks"] for r in records),
        seed=spec.seed,
        unread=dict(unread),
        faults=str(spec.faults) if spec.faults.exists() else "",
    )


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
