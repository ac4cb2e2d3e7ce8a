"""What a dataset holds: one row's type, the LeRobot v3 features it becomes, and where each file lies.

Files of a dataset ``D``, one data file and one video a camera for every episode (which LeRobot v3 allows)::

    D/meta/info.json  stats.json  tasks.parquet  episodes/chunk-000/file-000.parquet   LeRobot's
    D/data/chunk-000/file-007.parquet                                                   rows of episode 7
    D/videos/observation.images.front/chunk-000/file-007.mp4                            its images, one for each row
    D/raw/episode-000007.h5                                                             its full-rate joint log
    D/meta/so101walk.json                                                               what walked, and how it went
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DatasetError
from ..joints import FEATURE_NAMES, JOINTS, N

__all__ = [
    "CHUNK",
    "CODEBASE_VERSION",
    "EPISODES_TABLE",
    "IMAGE",
    "INFO",
    "LEROBOT_COLUMNS",
    "META",
    "RAW",
    "SCHEMA_VERSION",
    "STATS",
    "TASKS",
    "Frame",
    "camera_sizes",
    "data_path",
    "feature_of",
    "features",
    "raw_path",
    "video_path",
]

SCHEMA_VERSION = 1
"""Of so101walk's own columns and of ``meta/so101walk.json``; raised when a reader has to know the difference."""

CODEBASE_VERSION = "v3.0"
"""LeRobot's name of the format (LeRobot 0.6.1, ``datasets/dataset_metadata.py``)."""

CHUNK = 1000
"""Files in a chunk folder (``chunks_size`` of LeRobot 0.6.1, ``datasets/utils.py``)."""

INFO = "meta/info.json"
STATS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
EPISODES_TABLE = "meta/episodes/chunk-000/file-000.parquet"
META = "meta/so101walk.json"
RAW = "raw/episode-{episode:06d}.h5"

IMAGE = "observation.images."
"""Prefix of an image column; the camera's name follows."""

LEROBOT_COLUMNS: dict[str, dict[str, Any]] = {
    "timestamp": {"dtype": "float32", "shape": (1,), "names": None},
    "frame_index": {"dtype": "int64", "shape": (1,), "names": None},
    "episode_index": {"dtype": "int64", "shape": (1,), "names": None},
    "index": {"dtype": "int64", "shape": (1,), "names": None},
    "task_index": {"dtype": "int64", "shape": (1,), "names": None},
}
"""Columns that every LeRobot dataset has, in its order. ``timestamp`` is ``frame_index / fps`` [s]."""


@dataclass(frozen=True)
class Frame:
    """One row of the dataset. Joints in LeRobot units, shape (6,); times in ns.

    Attributes:
        state: Measured joints (``observation.state``).
        action: What went on the wire at this frame, after every limit (``action``).
        z: The commanded latent (``walk.z``).
        request: What motion asked for (``walk.request``).
        waypoint: Index of the waypoint reached at this frame, else -1 (``walk.waypoint``).
        images: An image of each camera, (H, W, 3) uint8 (``observation.images.<cam>``).
        capture_ns: From the frame's nominal time to each image's capture (``sync.capture_ns.<cam>``).
        state_gap_ns: Width of the bracket of readings that ``state`` was interpolated in (``sync.state_gap_ns``).
        wall_ns: Measured time since the episode's first frame (``sync.wall_ns``).
        repeated: Cameras whose image had served an earlier frame, since no new one came (``sync.repeated.<cam>``, 0/1).
    """

    state: ArrayLike
    action: ArrayLike
    z: ArrayLike
    request: ArrayLike
    waypoint: int
    images: Mapping[str, NDArray[np.uint8]]
    capture_ns: Mapping[str, int]
    state_gap_ns: int
    wall_ns: int
    repeated: frozenset[str] = field(default_factory=frozenset)

    def row(self) -> dict[str, Any]:
        """The values of the columns other than images and :data:`LEROBOT_COLUMNS`, by column name."""
        values: dict[str, Any] = {
            "observation.state": self.state,
            "action": self.action,
            "walk.z": self.z,
            "walk.request": self.request,
            "walk.waypoint": self.waypoint,
        }
        for camera in self.images:
            values[f"sync.capture_ns.{camera}"] = self.capture_ns[camera]
            values[f"sync.repeated.{camera}"] = int(camera in self.repeated)
        values["sync.state_gap_ns"] = self.state_gap_ns
        values["sync.wall_ns"] = self.wall_ns
        return values


def features(cameras: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, Any]]:
    """LeRobot's ``features`` of our datasets, in the order of the columns.

    Args:
        cameras: Height and width [px] of each camera's images, by name; both even, as 4:2:0 video asks.

    Returns:
        Column name to ``{"dtype", "shape", "names"}``; columns outside ``observation.*`` and ``action`` are ignored by
        LeRobot's policies. Times are int64 nanoseconds: LeRobot hands float64 back as float32.

    Raises:
        DatasetError: There is no camera, or a size is odd or not positive.
    """
    if not cameras:
        raise DatasetError("a dataset needs at least one camera")
    vector = {"dtype": "float32", "shape": (N,)}
    scalar = {"dtype": "int64", "shape": (1,), "names": None}
    table: dict[str, dict[str, Any]] = {
        "observation.state": {**vector, "names": list(FEATURE_NAMES)},
        "action": {**vector, "names": list(FEATURE_NAMES)},
    }
    for camera, (height, width) in cameras.items():
        if height <= 0 or width <= 0 or height % 2 or width % 2:
            raise DatasetError(f"camera {camera!r} is {width}x{height} px; width and height must be even and above 0")
        table[IMAGE + camera] = {
            "dtype": "video",
            "shape": (height, width, 3),
            "names": ["height", "width", "channels"],
        }
    table["walk.z"] = {**vector, "names": list(JOINTS)}
    table["walk.request"] = {**vector, "names": list(FEATURE_NAMES)}
    table["walk.waypoint"] = dict(scalar)
    for camera in cameras:
        table[f"sync.capture_ns.{camera}"] = dict(scalar)
        table[f"sync.repeated.{camera}"] = dict(scalar)
    table["sync.state_gap_ns"] = dict(scalar)
    table["sync.wall_ns"] = dict(scalar)
    return {**table, **{name: dict(feature) for name, feature in LEROBOT_COLUMNS.items()}}


def camera_sizes(table: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Height and width [px] of each camera, from a dataset's ``features``: the inverse of :func:`features`."""
    return {
        name.removeprefix(IMAGE): (int(f["shape"][0]), int(f["shape"][1]))
        for name, f in table.items()
        if name.startswith(IMAGE) and f["dtype"] == "video"
    }


def feature_of(camera: str) -> str:
    """The image column of a camera: ``front`` to ``observation.images.front``."""
    return IMAGE + camera


def data_path(episode: int) -> str:
    """Where the rows of an episode lie, relative to the dataset (LeRobot's ``data_path``, a file an episode)."""
    return f"data/chunk-{episode // CHUNK:03d}/file-{episode % CHUNK:03d}.parquet"


def video_path(camera: str, episode: int) -> str:
    """Where a camera's video of an episode lies, relative to the dataset (LeRobot's ``video_path``)."""
    return f"videos/{IMAGE}{camera}/chunk-{episode // CHUNK:03d}/file-{episode % CHUNK:03d}.mp4"


def raw_path(episode: int) -> str:
    """Where the full-rate log of an episode lies, relative to the dataset."""
    return RAW.format(episode=episode)
