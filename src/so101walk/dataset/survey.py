"""What a dataset's files themselves say, whatever its metadata claims: which episodes are whole, which are torn."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DatasetError
from .assemble import Episode, episode_files_of, numbered_rows
from .durable import plain, read_json
from .metadata import Layout, info, own_metadata, session_of
from .raw import read_raw_attrs
from .schema import CHUNK, EPISODES_TABLE, INFO, META, STATS, TASKS, data_path, feature_of, features
from .stats import STATISTICS, ImageStats
from .tables import aggregate_stats, column, column_stats, episode_row, episodes_table, read_parquet, tasks_table
from .verify import EpisodeFiles, check_files
from .video import decode

__all__ = ["Survey", "Torn", "metadata_faults", "survey"]

CLOSE = 1e-6
"""Statistics that differ by less, relative or absolute, are the same: another numpy may sum in another order."""


@dataclass(frozen=True)
class Torn:
    """An episode that can't be trusted: what is left of its files, and the first thing wrong with them."""

    name: str
    files: tuple[Path, ...]
    reason: str


@dataclass(frozen=True)
class Survey:
    """What was found in a dataset.

    Attributes:
        episodes: The whole ones, in order of their walk index.
        numbers: The number that each of them has in the files' names.
        torn: The others.
        session: What walked: from the metadata, or from the episodes' logs where that is torn.
    """

    episodes: list[Episode]
    numbers: list[int]
    torn: list[Torn]
    session: dict[str, Any]


def survey(out: Path, on_episode: Callable[[int, int], None] | None = None) -> Survey:
    """Read every file of the dataset ``out``, decoding all of its videos.

    Raises:
        DatasetError: Somebody else's episodes are in it, or nothing in it can be read.
    """
    found = episode_files_of(out)
    numbers: dict[int, list[Path]] = {}
    for name, path in sorted(found.items()):
        numbers.setdefault(_number(name), []).append(path)
    layout = _layout(out, found)
    rows = _known_rows(out)
    whole: dict[int, tuple[int, Episode]] = {}
    torn = []
    for done, (number, paths) in enumerate(sorted(numbers.items())):
        _refuse_several(out / data_path(number))
        try:
            episode = _read(out, number, layout, rows.get(number))
            if episode.walk_index in whole:
                raise DatasetError(
                    f"walk index {episode.walk_index} is that of episode {whole[episode.walk_index][0]} too"
                )
            whole[episode.walk_index] = (number, episode)
        except DatasetError as e:
            torn.append(Torn(f"episode-{number:06d}", tuple(paths), str(e)))
        if on_episode is not None:
            on_episode(done + 1, len(numbers))
    kept = [whole[walk_index] for walk_index in sorted(whole)]
    return Survey([e for _, e in kept], [n for n, _ in kept], torn, _session(out, [e for _, e in kept]))


def _refuse_several(data: Path) -> None:
    try:
        table = read_parquet(data)
    except DatasetError:
        return
    if "episode_index" in table.column_names and len(np.unique(column(table, "episode_index"))) > 1:
        raise DatasetError(
            f"{data} holds several episodes, so something else than so101walk wrote it; the dataset is left as it is"
        )


def _number(name: str) -> int:
    digits = [int(d) for d in re.findall(r"(?:chunk|file|episode)-(\d+)", name)]
    return digits[0] if name.startswith("raw/") else digits[0] * CHUNK + digits[1]


def _layout(out: Path, found: Mapping[str, Path]) -> Layout:
    """What most of the logs tell, each written with its episode; ``info.json`` only where no log can be read."""
    told: Counter[str] = Counter()
    for name, path in found.items():
        if name.startswith("raw/"):
            try:
                told[json.dumps(read_raw_attrs(path)["layout"], sort_keys=True)] += 1
            except (DatasetError, KeyError):
                continue
    if told:
        return Layout.of_dict(json.loads(told.most_common(1)[0][0]))
    return Layout.of_info(read_json(out / INFO))


def _known_rows(out: Path) -> dict[int, dict[str, Any]]:
    try:
        return {row["episode_index"]: row for row in read_parquet(out / EPISODES_TABLE).to_pylist()}
    except (DatasetError, KeyError):
        return {}


def _read(out: Path, number: int, layout: Layout, known: Mapping[str, Any] | None) -> Episode:
    """One episode, checked; raises DatasetError about the first thing wrong with it."""
    files = EpisodeFiles.in_dataset(out, layout.cameras, number)
    table = check_files(files, layout.cameras, layout.fps)
    record = read_raw_attrs(files.raw).get("episode")
    if not isinstance(record, dict) or not isinstance(record.get("walk_index"), int):
        raise DatasetError(f"{files.raw} does not tell which episode of the walk it is")
    return Episode(files, _row(table, files, layout, str(record.get("task", "")), known), record, layout)


def _row(
    table: pa.Table, files: EpisodeFiles, layout: Layout, task: str, known: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """The episode's row of the table of episodes: as it is there if that is right, else made anew from the files."""
    stats: dict[str, Mapping[str, Any]] = {**column_stats(table)}
    for camera, path in files.videos.items():
        stats[feature_of(camera)] = _known_image_stats(feature_of(camera), known) or _image_stats(path)
    row = episode_row(len(table), task, layout.fps, stats)
    row["episode_index"] = int(column(table, "episode_index")[0])
    row["dataset_from_index"] = int(column(table, "index")[0])
    return row


def _image_stats(path: Path) -> Mapping[str, Any]:
    gathered = ImageStats()
    for image in decode(path):
        gathered.add(image)
    return gathered.result()


def _known_image_stats(name: str, known: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    cells = {statistic: f"stats/{name}/{statistic}" for statistic in STATISTICS}
    if known is None or not all(known.get(cell) is not None for cell in cells.values()):
        return None
    return {statistic: known[cell] for statistic, cell in cells.items()}


def _session(out: Path, episodes: list[Episode]) -> dict[str, Any]:
    try:
        return session_of(read_json(out / META))
    except (DatasetError, AttributeError):
        return dict(read_raw_attrs(episodes[0].files.raw).get("session", {})) if episodes else {}


def metadata_faults(out: Path, found: Survey) -> list[str]:
    """What the metadata of ``out`` says that its files don't, in words; empty when it is right.

    Args:
        out: The dataset.
        found: Its survey, with at least one whole episode and nothing torn.
    """
    layout = found.episodes[0].layout
    rows, tasks = numbered_rows(found.episodes)
    faults = [f"the files of episode {k} are numbered {n}" for k, n in enumerate(found.numbers) if n != k]
    for k, (episode, row) in enumerate(zip(found.episodes, rows, strict=True)):
        if any(episode.row[cell] != row[cell] for cell in ("episode_index", "dataset_from_index")):
            faults.append(f"the rows of episode {k} are numbered as those of episode {episode.row['episode_index']}")
    if faults:
        return faults
    table = episodes_table(features(layout.cameras), rows)
    stats = aggregate_stats(features(layout.cameras), table)
    own = own_metadata(found.session, [e.record for e in found.episodes])
    readers: dict[str, tuple[Any, Callable[[Path], Any]]] = {
        INFO: (plain(info(layout, table, len(tasks))), read_json),
        STATS: (plain(stats), read_json),
        META: (own["episodes"], lambda path: read_json(path)["episodes"]),
        TASKS: (tasks_table(tasks).to_pylist(), lambda path: read_parquet(path).to_pylist()),
        EPISODES_TABLE: (table.to_pylist(), lambda path: read_parquet(path).to_pylist()),
    }
    return [fault for name, (wanted, read) in readers.items() if (fault := _fault(out / name, wanted, read))]


def _fault(path: Path, wanted: Any, read: Callable[[Path], Any]) -> str | None:
    try:
        return None if _alike(wanted, read(path)) else f"{path} does not tell what the files hold"
    except DatasetError as e:
        return str(e)
    except (KeyError, TypeError):
        return f"{path} lacks what it must hold"


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(v, other[k]) for k, v in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) <= CLOSE * max(1.0, abs(one))
    return bool(one == other)
