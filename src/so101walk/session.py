"""One collection: what is there already, the episodes that are missing, the dataset at the end."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .dataset.assemble import assemble
from .dataset.durable import read_json
from .dataset.schema import META
from .dataset.staging import Staging, compare_identity, identity_of, saved_walk_indices
from .episodes import walk_episodes
from .errors import HardwareError, UsageError
from .session_spec import Report, SessionSpec

__all__ = ["SessionReport", "SessionSpec", "collect", "found_at"]


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
