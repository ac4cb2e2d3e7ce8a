"""Is a dataset whole? Rows, numbering, files and counters, each against the others."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from .episodes import Episode
from .findings import Finding
from .reader import IMAGE_DTYPES, Dataset

__all__ = ["check_counters", "check_files", "check_rows", "load_rows"]

Rows = dict[str, NDArray[Any]]
"""Columns of one episode by name, images left out."""

TIMESTAMP_TOLERANCE_S = 1e-4
"""LeRobot's own ``tolerance_s``; float32 adds 1e-7 of the timestamp."""


def check_counters(dataset: Dataset) -> list[Finding]:
    """The counters of ``meta/info.json`` and the numbering of the episodes, against the table of episodes."""
    found: list[Finding] = []
    stated = {"total_episodes": len(dataset.episodes), "total_frames": dataset.frame_count}
    if dataset.tasks:
        stated["total_tasks"] = len(dataset.tasks)
    for key, true in stated.items():
        if dataset.info.get(key) != true:
            text = f"meta/info.json says {key} {dataset.info.get(key)}; there are {true}{dataset.repair_hint}"
            found.append(Finding("structure.counter", "error", text))
    if [e.index for e in dataset.episodes] != list(range(len(dataset.episodes))):
        text = f"episode indices are not 0 to {len(dataset.episodes) - 1} in turn{dataset.repair_hint}"
        found.append(Finding("structure.episode_index", "error", text))
    at = 0
    for e in dataset.episodes:
        if (e.from_index, e.to_index) != (at, at + e.length):
            text = f"the metadata puts it at rows {e.from_index} to {e.to_index}; {at} to {at + e.length} follow on"
            found.append(Finding("structure.row_range", "error", text, e.index))
        at = e.to_index
    return found


def check_files(dataset: Dataset) -> list[Finding]:
    """Data files that no episode needs (LeRobot reads every file it finds there), and rows in them of no episode."""
    found: list[Finding] = []
    needed = {e.data_file for e in dataset.episodes}
    for path in sorted((dataset.root / "data").glob("*/*.parquet")):
        if path not in needed:
            text = f"{_short(dataset, path)} belongs to no episode, yet LeRobot reads it{dataset.repair_hint}"
            found.append(Finding("structure.stray_file", "error", text))
    shown = {span.path for e in dataset.episodes for span in e.videos.values()}
    for path in sorted((dataset.root / "videos").glob("*/*/*.mp4")):
        if path not in shown:
            text = f"{_short(dataset, path)} belongs to no episode"
            found.append(Finding("structure.stray_file", "note", text))
    return found


def load_rows(dataset: Dataset, episode: Episode) -> Rows:
    """Every column of an episode but its images and texts, as its data file has them.

    Raises:
        DatasetError: The file is missing or torn, or has another number of rows than the metadata says.
    """
    names = [n for n, f in dataset.features.items() if f["dtype"] not in (*IMAGE_DTYPES, "string", "language")]
    return dataset.columns(names, episode.index)


def check_rows(dataset: Dataset, episode: Episode, rows: Rows) -> list[Finding]:
    """Numbering, timestamps, tasks, finite values and waypoint flags of one episode."""
    found: list[Finding] = []

    def wrong(code: str, text: str) -> None:
        found.append(Finding(f"structure.{code}", "error", text, episode.index))

    n = episode.length
    counted = {"frame_index": np.arange(n), "index": np.arange(episode.from_index, episode.from_index + n)}
    for name, true in counted.items():
        if name in rows and not np.array_equal(rows[name], true):
            at = int(np.flatnonzero(rows[name] != true)[0])
            wrong(name, f"{name} is {rows[name][at]} in row {at}; {true[at]} follows on")
    if "timestamp" in rows:
        nominal = np.arange(n) / dataset.fps
        off = np.abs(rows["timestamp"].astype(float) - nominal)
        if (off > TIMESTAMP_TOLERANCE_S + 1e-6 * nominal).any():
            at = int(off.argmax())
            text = f"timestamp is {rows['timestamp'][at]:.4f} s in row {at}; frame_index / fps is {nominal[at]:.4f}"
            wrong("timestamp", text)
    if dataset.tasks and "task_index" in rows:
        unknown = sorted(set(rows["task_index"].tolist()) - set(dataset.tasks))
        if unknown:
            wrong("task_index", f"task_index {unknown[0]} is not among the {len(dataset.tasks)} tasks")
    for name, values in rows.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values.reshape(n, -1)).all(1))
            wrong("not_finite", f"{name} is not finite in {len(bad)} rows, first in row {bad[0]}")
    if "walk.waypoint" in rows:
        reached = rows["walk.waypoint"][rows["walk.waypoint"] >= 0]
        twice = [k for k, c in Counter(reached.tolist()).items() if c > 1]
        if twice:
            wrong(
                "waypoint", f"waypoint {twice[0]} is flagged as reached in {Counter(reached.tolist())[twice[0]]} rows"
            )
        elif len(reached) and not np.array_equal(reached, np.arange(reached[0], reached[0] + len(reached))):
            wrong("waypoint", "waypoint flags don't count on by one")
    return found


def torn(error: DatasetError, episode: Episode, root: Path) -> Finding:
    """A finding from the failure to read an episode's file."""
    return Finding("structure.torn", "error", str(error).replace(f"{root}/", ""), episode.index)


def _short(dataset: Dataset, path: Path) -> str:
    return str(path.relative_to(dataset.root))
