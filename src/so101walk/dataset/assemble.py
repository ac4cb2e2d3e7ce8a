"""A session's episodes and those of the dataset they belong to, made into one LeRobot v3 dataset.

Each episode keeps its own data file and videos, so nothing is decoded or copied: files are hard-linked under their new
names, only three columns of small integers are written anew, and the metadata is written once. The new dataset is built
aside in ``NAME.building`` and takes the old one's place by two renames; see
:func:`~so101walk.dataset.staging.recover` for a crash in between.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DatasetError
from .card import card
from .durable import fsync_tree, json_bytes, link_or_copy, read_json, remove_tree, rename, told, write_bytes
from .metadata import Layout, metadata_files, own_metadata, session_of, write_metadata
from .schema import EPISODES_TABLE, INFO, META, STATS, data_path, features, raw_path, video_path
from .staging import RECORD, Staging, recover, sibling
from .tables import episode_row, episodes_table, parquet_bytes, read_parquet, reindexed, reindexed_row
from .verify import EpisodeFiles

__all__ = [
    "AssembleReport",
    "Episode",
    "assemble",
    "build",
    "episode_files_of",
    "episodes_of_dataset",
    "episodes_of_staging",
    "numbered_rows",
    "read_staged",
]

EPISODE_FILE = re.compile(
    r"(data/chunk-\d+/file-\d+\.parquet|videos/[^/]+/chunk-\d+/file-\d+\.mp4|raw/episode-\d+\.h5)"
)
"""Files that belong to an episode, relative to the dataset; whatever else a user keeps in it is carried over."""

Progress = Callable[[int, int], None]
"""Told of episodes done and episodes in all."""


@dataclass(frozen=True)
class AssembleReport:
    """What an assembly did.

    Attributes:
        path: The dataset.
        episodes: How many it has now.
        frames: Its rows.
        added: How many of its episodes came from the staging folder.
        walk_indices: Walk index of each episode, in order.
    """

    path: Path
    episodes: int
    frames: int
    added: int
    walk_indices: tuple[int, ...]


@dataclass(frozen=True)
class Episode:
    """An episode that is saved: its files, its row of the table of episodes, its record, and what it has in common with
    every other of its dataset."""

    files: EpisodeFiles
    row: Mapping[str, Any]
    record: Mapping[str, Any]
    layout: Layout

    @property
    def walk_index(self) -> int:
        """Which episode of the walk it is."""
        return int(self.record["walk_index"])

    @property
    def task(self) -> str:
        """What it does, in words."""
        return str(self.row["tasks"][0])


def assemble(out: str | Path, on_episode: Progress | None = None) -> AssembleReport:
    """Make the dataset ``out`` of its own episodes and those in its staging folder, in order of their walk index.

    The caller holds the staging folder's lock. The same episodes give the same bytes in whatever order they were saved.

    Args:
        out: The dataset; it need not exist yet.
        on_episode: Told of the progress.

    Raises:
        DatasetError: There is no episode, the dataset was not made by so101walk, a file of it is missing or torn, or
            the disk is full. The dataset is as it was.
    """
    staging = Staging(out)
    recover(staging.out)
    existing = episodes_of_dataset(staging.out) if staging.out.exists() else []
    added = episodes_of_staging(staging, {e.walk_index for e in existing})
    episodes = sorted([*existing, *added], key=lambda e: e.walk_index)
    if not episodes:
        raise DatasetError(f"{staging.out}: no episode is saved, so there is nothing to assemble")
    if added:
        session = session_of(read_json(staging.out / META)) if existing else staging.session()
        build(staging.out, episodes, session, on_episode)
    staging.remove()
    frames = sum(e.row["length"] for e in episodes)
    return AssembleReport(staging.out, len(episodes), frames, len(added), tuple(e.walk_index for e in episodes))


def build(
    out: Path, episodes: Sequence[Episode], session: Mapping[str, Any], on_episode: Progress | None = None
) -> None:
    """Build a dataset of ``episodes``, in that order, and put it in the place of ``out``; durable on return.

    Raises:
        DatasetError: The episodes are of different kinds, a file is missing or torn, or the disk is full. The dataset
            is as it was.
    """
    building = sibling(out, ".building")
    layout = episodes[0].layout
    for episode in episodes:
        if episode.layout != layout:
            raise DatasetError(f"{episode.files.data.parents[2]} and {out} differ in fps, cameras or robot type")
    remove_tree(building)
    try:
        with told(building):
            _fill(building, out, episodes, session, on_episode)
            fsync_tree(building)
    except DatasetError:
        remove_tree(building)
        raise
    _swap(out)


def _fill(
    building: Path, out: Path, episodes: Sequence[Episode], session: Mapping[str, Any], on_episode: Progress | None
) -> None:
    layout = episodes[0].layout
    rows, tasks = numbered_rows(episodes)
    for number, episode in enumerate(episodes):
        _place(building, number, episode, rows[number], tasks.index(episode.task))
        if on_episode is not None:
            on_episode(number + 1, len(episodes))
    table = episodes_table(features(layout.cameras), rows)
    write_metadata(building, metadata_files(layout, table, tasks))
    own = own_metadata(session, [e.record for e in episodes])
    write_bytes(building / META, json_bytes(own))
    if out.exists():
        _carry_over(out, building)
    if not (building / "README.md").exists():
        write_bytes(building / "README.md", card(out.name, own, layout.fps, list(layout.cameras)).encode())


def numbered_rows(episodes: Sequence[Episode]) -> tuple[list[dict[str, Any]], list[str]]:
    """The table of episodes of a dataset that holds ``episodes`` in that order, row by row, and its tasks."""
    tasks = list(dict.fromkeys(e.task for e in episodes))
    rows: list[dict[str, Any]] = []
    start = 0
    for number, episode in enumerate(episodes):
        rows.append(reindexed_row(episode.row, number, start, tasks.index(episode.task)))
        start += episode.row["length"]
    return rows, tasks


def _place(building: Path, number: int, episode: Episode, row: Mapping[str, Any], task: int) -> None:
    """Put one episode's files under its new number, as its new row of the table of episodes says."""
    target = building / data_path(number)
    target.parent.mkdir(parents=True, exist_ok=True)
    if _numbered_alike(episode.row, row):
        _link(episode.files.data, target)
    else:
        table = read_parquet(episode.files.data)
        if len(table) != row["length"]:
            raise DatasetError(f"{episode.files.data} has {len(table)} rows, not {row['length']}; run so101walk repair")
        write_bytes(target, parquet_bytes(reindexed(table, number, row["dataset_from_index"], task)))
    for camera, path in episode.files.videos.items():
        _link(path, building / video_path(camera, number))
    _link(episode.files.raw, building / raw_path(number))


def _numbered_alike(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    cells = ("episode_index", "dataset_from_index", "stats/task_index/min")
    return all(before[cell] == after[cell] for cell in cells)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        link_or_copy(source, target)
    except FileNotFoundError as e:
        raise DatasetError(f"{source} is missing; run so101walk repair") from e


def _carry_over(out: Path, building: Path) -> None:
    """Link what else a user keeps in a dataset into the new one."""
    for path in sorted(out.rglob("*")):
        relative = path.relative_to(out)
        target = building / relative
        if path.is_file() and not EPISODE_FILE.fullmatch(relative.as_posix()) and not target.exists():
            _link(path, target)


def _swap(out: Path) -> None:
    """Put ``<out>.building`` in the place of ``out``; on return it lasts, and the old one is gone."""
    building, old = sibling(out, ".building"), sibling(out, ".old")
    with told(out):
        if out.exists():
            rename(out, old)
        rename(building, out)
    remove_tree(old)


def episode_files_of(out: Path) -> dict[str, Path]:
    """Every file under ``out`` that looks like an episode's, by its path relative to ``out``."""
    found = {}
    for top in ("data", "videos", "raw"):
        for parent, _, names in os.walk(out / top):
            for name in names:
                path = Path(parent, name)
                relative = path.relative_to(out).as_posix()
                if EPISODE_FILE.fullmatch(relative):
                    found[relative] = path
    return found


def episodes_of_dataset(out: Path) -> list[Episode]:
    """The episodes of a dataset of ours, in its order, as its metadata tells.

    Raises:
        DatasetError: It was not made by so101walk, its metadata is missing or torn, or files lie there that it doesn't
            know.
    """
    if not (out / META).is_file():
        raise DatasetError(f"{out} was not made by so101walk (no {META}); use another --out")
    records = read_json(out / META)["episodes"]
    layout = Layout.of_info(read_json(out / INFO))
    rows = read_parquet(out / EPISODES_TABLE).to_pylist()
    if [r["episode_index"] for r in rows] != list(range(len(records))):
        raise DatasetError(f"{out}: {EPISODES_TABLE} and {META} disagree on the episodes; run so101walk repair")
    files = [EpisodeFiles.in_dataset(out, layout.cameras, k) for k in range(len(rows))]
    strange = episode_files_of(out).keys() - {p.relative_to(out).as_posix() for f in files for p in f.all()}
    if strange:
        raise DatasetError(f"{out}: {min(strange)} belongs to no episode of its metadata; run so101walk repair")
    return [Episode(f, row, record, layout) for f, row, record in zip(files, rows, records, strict=True)]


def episodes_of_staging(staging: Staging, known: set[int] | None = None) -> list[Episode]:
    """The episodes that wait in a staging folder, in order of their walk index, without those in ``known``.

    Raises:
        DatasetError: A file of one is missing or torn.
    """
    return [read_staged(folder) for walk_index, folder in staging.saved().items() if walk_index not in (known or set())]


def read_staged(folder: Path) -> Episode:
    """One episode of a staging folder; raises DatasetError if its metadata is missing or torn."""
    content = read_json(folder / INFO)
    layout, record = Layout.of_info(content), read_json(folder / RECORD)
    try:
        row = episode_row(int(content["total_frames"]), str(record["task"]), layout.fps, read_json(folder / STATS))
        return Episode(EpisodeFiles.in_staging(folder, layout.cameras), row, record, layout)
    except (KeyError, TypeError, ValueError) as e:
        raise DatasetError(f"{folder}: its metadata lacks what it must hold ({e!r})") from e
