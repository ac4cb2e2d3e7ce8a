"""The ``meta/`` folder of a dataset of ours: LeRobot's files from the table of episodes, and our own beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from .. import __version__
from ..errors import DatasetError
from .durable import json_bytes, make_dirs, plain, write_bytes
from .schema import (
    CHUNK,
    CODEBASE_VERSION,
    EPISODES_TABLE,
    INFO,
    SCHEMA_VERSION,
    STATS,
    TASKS,
    camera_sizes,
    feature_of,
    features,
)
from .tables import aggregate_stats, parquet_bytes, tasks_table
from .video import video_info

__all__ = ["Layout", "info", "metadata_files", "own_metadata", "session_of", "write_metadata"]


@dataclass(frozen=True)
class Layout:
    """What all episodes of a dataset have in common.

    Attributes:
        fps: Frames a second.
        robot_type: As stock LeRobot writes it for this arm.
        cameras: Height and width [px] of each camera's images, by name.
    """

    fps: int
    robot_type: str
    cameras: Mapping[str, tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        """As JSON; :meth:`of_dict` reads it back."""
        return {"fps": self.fps, "robot_type": self.robot_type, "cameras": plain(self.cameras)}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> "Layout":
        """The inverse of :meth:`to_dict`."""
        cameras = {name: (int(height), int(width)) for name, (height, width) in content["cameras"].items()}
        return cls(int(content["fps"]), str(content["robot_type"]), cameras)

    @classmethod
    def of_info(cls, content: Any) -> "Layout":
        """From the content of ``meta/info.json``.

        Raises:
            DatasetError: A key is missing or of the wrong kind.
        """
        try:
            return cls(int(content["fps"]), str(content["robot_type"]), camera_sizes(content["features"]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            raise DatasetError(f"{INFO} does not tell fps, robot_type and features ({e!r})") from e


def info(layout: Layout, table: pa.Table, tasks: int) -> dict[str, Any]:
    """The content of ``meta/info.json``, with LeRobot's keys and defaults (0.6.1, ``datasets/utils.py``).

    Args:
        layout: What the episodes have in common.
        table: The table of episodes.
        tasks: How many tasks they have.
    """
    described = {name: {**f, "shape": list(f["shape"])} for name, f in features(layout.cameras).items()}
    for camera, (height, width) in layout.cameras.items():
        described[feature_of(camera)]["info"] = video_info(layout.fps, height, width)
    return {
        "codebase_version": CODEBASE_VERSION,
        "fps": layout.fps,
        "features": described,
        "total_episodes": len(table),
        "total_frames": int(sum(table.column("length").to_pylist())),
        "total_tasks": tasks,
        "chunks_size": CHUNK,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "robot_type": layout.robot_type,
        "splits": {"train": f"0:{len(table)}"},
    }


def metadata_files(layout: Layout, table: pa.Table, tasks: Sequence[str]) -> dict[str, bytes]:
    """LeRobot's metadata files as bytes, by their path in the dataset; the same input gives the same bytes."""
    return {
        INFO: json_bytes(info(layout, table, len(tasks))),
        STATS: json_bytes(aggregate_stats(features(layout.cameras), table)),
        TASKS: parquet_bytes(tasks_table(tasks)),
        EPISODES_TABLE: parquet_bytes(table),
    }


RESERVED = ("schema", "so101walk", "lerobot", "episodes")


def own_metadata(session: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The content of ``meta/so101walk.json``: versions, the keys of the session, and ``episodes``.

    Args:
        session: What walked, as given to :meth:`~so101walk.dataset.staging.Staging.begin`: fps, rig, envelope, ...
        episodes: A record for each episode in order; ``episode_index`` is put before its keys.
    """
    return plain(
        {
            "schema": SCHEMA_VERSION,
            "so101walk": __version__,
            "lerobot": version("lerobot"),
            **session_of(session),
            "episodes": [{"episode_index": k, **_without_index(record)} for k, record in enumerate(episodes)],
        }
    )


def session_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """What the session was, out of the content of ``meta/so101walk.json``: the inverse of :func:`own_metadata`."""
    return {name: value for name, value in own.items() if name not in RESERVED}


def _without_index(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "episode_index"}


def write_metadata(root: Path, files: Mapping[str, bytes]) -> None:
    """Write metadata files under ``root``, a dataset that is still being built.

    Raises:
        DatasetError: The disk is full or the folder can't be written to.
    """
    for name, content in files.items():
        path = root / name
        make_dirs(path.parent)
        write_bytes(path, content)
