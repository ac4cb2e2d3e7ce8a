"""The metadata of any LeRobot v3 dataset: what it says about itself, and where each episode lies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DatasetError
from . import decoding
from .columns import parquet_names, read_json, read_parquet
from .schema import META

__all__ = ["Episode", "episode_files", "read_episodes", "read_info"]


@dataclass(frozen=True)
class Episode:
    """One episode as the metadata states it: rows ``from_index`` to ``to_index`` of the dataset, and its files."""

    index: int
    length: int
    from_index: int
    to_index: int
    tasks: tuple[str, ...]
    data_file: Path
    videos: dict[str, decoding.Span]


def read_info(root: Path) -> dict[str, Any]:
    """``meta/info.json`` of the dataset in folder ``root``.

    Raises:
        DatasetError: There is no dataset, it is of another version than v3, or its info is torn.
    """
    if not root.exists():
        raise DatasetError(f"{root}: there is no such dataset folder")
    path = root / "meta/info.json"
    if not path.is_file():
        staging = root.with_name(root.name + ".staging")
        tail = f"; a session was interrupted: run `so101walk repair {root}`" if staging.is_dir() else ""
        raise DatasetError(f"{root} is not a LeRobot dataset: it has no meta/info.json{tail}")
    info = read_json(path)
    version = str(info.get("codebase_version", "unknown"))
    if not version.startswith("v3."):
        mend = "; convert it with LeRobot's convert_dataset_v21_to_v30" if version.startswith("v2") else ""
        raise DatasetError(f"{root} is a LeRobot dataset of version {version}; so101walk reads v3{mend}")
    for key, kind in (("fps", (int, float)), ("features", dict)):
        if not isinstance(info.get(key), kind):
            raise DatasetError(f"{path}: key {key!r} is missing or of the wrong kind")
    if info["fps"] <= 0:
        raise DatasetError(f"{path}: fps is {info['fps']}; it must be above 0")
    return info


def episode_files(root: Path) -> list[Path]:
    """The Parquet files that hold the table of episodes, in order."""
    return sorted((root / "meta/episodes").glob("*/*.parquet"))


def read_episodes(root: Path, info: dict[str, Any]) -> tuple[Episode, ...]:
    """The table of episodes without its statistics, by index.

    Raises:
        DatasetError: It is missing, torn, or lacks a column.
    """
    files = episode_files(root)
    hint = f"; run `so101walk repair {root}`" if (root / META).is_file() else ""
    if not files:
        raise DatasetError(f"{root}: its metadata lists no episodes (no meta/episodes/*/*.parquet){hint}")
    cameras = [name for name, f in info["features"].items() if f["dtype"] == "video"]
    episodes: list[Episode] = []
    for path in files:
        table = read_parquet(path, [n for n in parquet_names(path, hint) if not n.startswith("stats/")], hint)
        try:
            episodes.extend(_episode(root, info, row, cameras) for row in table.to_pylist())
        except (KeyError, TypeError) as e:
            raise DatasetError(f"{path}: the episodes' metadata lacks {e}{hint}") from e
    return tuple(sorted(episodes, key=lambda e: e.index))


def _episode(root: Path, info: dict[str, Any], row: dict[str, Any], cameras: list[str]) -> Episode:
    def file(template: str, of: str, **more: str) -> Path:
        numbers = {"chunk_index": row[f"{of}/chunk_index"], "file_index": row[f"{of}/file_index"]}
        return root / template.format(**numbers, **more)

    fps = float(info["fps"])
    videos = {
        c: decoding.Span(
            file(info["video_path"], f"videos/{c}", video_key=c),
            row[f"videos/{c}/from_timestamp"],
            row["length"],
            fps,
        )
        for c in cameras
    }
    return Episode(
        index=row["episode_index"],
        length=row["length"],
        from_index=row["dataset_from_index"],
        to_index=row["dataset_to_index"],
        tasks=tuple(row.get("tasks") or ()),
        data_file=file(info["data_path"], "data"),
        videos=videos,
    )
