"""Is a dataset sound, and is it the walk it claims to be? Reads any LeRobot v3 dataset; what isn't there is unknown.

Data flows through once: rows an episode at a time, every video in one decoding pass, then what needs all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from .check_images import check_looks, look_at_camera
from .check_motion import ACTION, STATE, check_constant_joints, check_motion, check_saturation
from .check_stats import RunningStats, check_stats
from .check_structure import check_counters, check_files, check_rows, load_rows, torn
from .check_timing import EpisodeTiming, check_timing, timing_report
from .check_walk import check_walk
from .claims import Claims, read_claims
from .findings import Finding
from .reader import Dataset

__all__ = ["CheckReport", "check"]

Rows = dict[str, NDArray[Any]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    Attributes:
        root: The dataset.
        episodes: In its metadata.
        frames: In its metadata.
        findings: In order of their rooms: structure, stats, motion, timing, images, walk.
        walk: See :func:`~so101walk.dataset.check_walk.check_walk`.
        timing: See :func:`~so101walk.dataset.check_timing.timing_report`.
    """

    root: Path
    episodes: int
    frames: int
    findings: tuple[Finding, ...]
    walk: dict[str, Any]
    timing: dict[str, Any]

    @property
    def ok(self) -> bool:
        """No error and no warning; notes don't count."""
        return not any(f.severity in ("error", "warning") for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "ok": self.ok,
            "episodes": self.episodes,
            "frames": self.frames,
            "findings": [f.to_dict() for f in self.findings],
            "walk": self.walk,
            "timing": self.timing,
        }


def check(path: str | Path, *, walk: bool = True, images: bool = True, progress: Progress | None = None) -> CheckReport:
    """Check the dataset in folder ``path``. Nothing is written.

    Args:
        path: The folder of any LeRobot v3 dataset.
        walk: Judge whether it is an isotropic random walk; without, a dataset that was never meant to be one can pass.
        images: Decode the videos; without, whether they are whole is not known.
        progress: Told the number of images looked at and their total.

    Raises:
        DatasetError: There is no dataset, it is of another version, or its metadata can't be read at all.
    """
    dataset = Dataset.open(path, strict=False)
    claims = read_claims(dataset)
    findings = check_counters(dataset) + check_files(dataset)
    rows, stats = _read_rows(dataset, findings)
    findings += _check_motion(dataset, rows, claims)
    timings = {i: t for i, r in rows.items() if (t := EpisodeTiming.measure(r, dataset.fps)) is not None}
    for index, timing in timings.items():
        findings += check_timing(dataset, index, timing)
    means = _check_images(dataset, rows, findings, progress) if images else {}
    whole = len(rows) == len(dataset.episodes)
    findings += check_stats(dataset, stats if whole else {}, means if whole else {})
    report: dict[str, Any] = {"verdict": "unknown", "why": "not asked for"}
    if walk:
        report, found = check_walk(dataset, rows, claims)
        findings += found
    timing_part = timing_report(list(timings.values()), dataset.fps)
    order = sorted(findings, key=lambda f: ("structure", "stats", "motion", "timing", "images", "walk").index(_room(f)))
    return CheckReport(dataset.root, len(dataset.episodes), dataset.frame_count, tuple(order), report, timing_part)


def _read_rows(dataset: Dataset, findings: list[Finding]) -> tuple[dict[int, Rows], dict[str, RunningStats]]:
    """Columns of each readable episode and statistics of each column; what is wrong is added to ``findings``."""
    kept: dict[int, Rows] = {}
    stats: dict[str, RunningStats] = {}
    for episode in dataset.episodes:
        try:
            rows = load_rows(dataset, episode)
        except DatasetError as e:
            findings.append(torn(e, episode, dataset.root))
            continue
        found = check_rows(dataset, episode, rows)
        findings += found
        for name, values in rows.items():
            if values.dtype.kind in "fiu":
                stats.setdefault(name, RunningStats()).add(values)
        if not any(f.code == "structure.not_finite" for f in found):
            kept[episode.index] = {n: v for n, v in rows.items() if n.startswith((STATE, ACTION, "walk.", "sync."))}
    return kept, stats


def _check_motion(dataset: Dataset, rows: dict[int, Rows], claims: Claims) -> list[Finding]:
    commands = [r[ACTION].astype(np.float64) for r in rows.values() if ACTION in r]
    states = [r[STATE].astype(np.float64) for r in rows.values() if STATE in r]
    command = np.concatenate(commands) if commands else np.zeros((0, 0))
    width = np.ptp(command, axis=0) if len(command) else np.zeros(0)
    found = [f for i, r in rows.items() for f in check_motion(dataset, i, r, claims, width)]
    if states:
        found += check_constant_joints(dataset, np.concatenate(states), claims)
    return found + (check_saturation(dataset, command, claims) if len(command) else [])


def _check_images(
    dataset: Dataset, rows: dict[int, Rows], findings: list[Finding], progress: Progress | None
) -> dict[str, NDArray[np.float64]]:
    """Mean colour of each camera that could be decoded whole; findings are added to ``findings``."""
    total, done = dataset.frame_count * len(dataset.cameras), 0
    means: dict[str, NDArray[np.float64]] = {}

    def advance(images: int) -> None:
        nonlocal done
        done += images
        if progress is not None:
            progress(done, total)

    for camera in dataset.cameras:
        looks, found = look_at_camera(dataset, camera, dataset.episodes, advance)
        findings += found
        findings += check_looks(dataset, camera, looks, rows)
        seen = sum(int(look.seen.sum()) for look in looks)
        if seen == dataset.frame_count > 0:
            means[camera] = np.sum([look.mean for look in looks], axis=0) / seen
    return means


def _room(finding: Finding) -> str:
    return finding.code.split(".")[0]
