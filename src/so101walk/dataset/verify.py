"""Whether one episode's files are whole and agree: what must hold before it counts, and what repair looks for."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import DatasetError
from .raw import read_raw
from .schema import data_path, features, raw_path, video_path
from .tables import column, read_parquet
from .video import probe

__all__ = ["EpisodeFiles", "check_files", "check_rows", "check_video"]


@dataclass(frozen=True)
class EpisodeFiles:
    """Where the files of one episode lie."""

    data: Path
    videos: Mapping[str, Path]
    raw: Path

    @classmethod
    def in_dataset(cls, root: Path, cameras: Mapping[str, tuple[int, int]], episode: int) -> "EpisodeFiles":
        """Those of an episode of a whole dataset."""
        videos = {c: root / video_path(c, episode) for c in cameras}
        return cls(root / data_path(episode), videos, root / raw_path(episode))

    @classmethod
    def in_staging(cls, folder: Path, cameras: Mapping[str, tuple[int, int]]) -> "EpisodeFiles":
        """Those of an episode in its own folder, a dataset of one episode with its log beside the data."""
        return cls(folder / data_path(0), {c: folder / video_path(c, 0) for c in cameras}, folder / "raw.h5")

    def all(self) -> list[Path]:
        """Every file: data, videos, log."""
        return [self.data, *self.videos.values(), self.raw]


def check_rows(table: pa.Table, cameras: Mapping[str, tuple[int, int]], fps: int, waypoints: int | None = None) -> None:
    """Check one episode's rows: the columns, the numbering, finite values, one flag for each waypoint reached.

    Args:
        table: The rows, see :func:`~so101walk.dataset.tables.data_table`.
        cameras: Height and width [px] of each camera's images.
        fps: Frames a second.
        waypoints: How many waypoints must be flagged, if known.

    Raises:
        DatasetError: The first thing wrong, with its row.
    """
    expected = {name: f for name, f in features(cameras).items() if f["dtype"] != "video"}
    if set(table.column_names) != set(expected):
        odd = sorted(set(table.column_names) ^ set(expected))
        raise DatasetError(f"columns differ from what so101walk writes: {', '.join(odd)}")
    if not len(table):
        raise DatasetError("the episode has no rows")
    frame = np.arange(len(table))
    if not np.array_equal(column(table, "frame_index"), frame):
        raise DatasetError("frame_index does not count the rows from 0")
    if not np.array_equal(column(table, "timestamp"), (frame / fps).astype(np.float32)):
        raise DatasetError(f"timestamp is not frame_index / {fps}")
    for name, feature in expected.items():
        if feature["dtype"] == "float32" and not np.isfinite(values := column(table, name)).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise DatasetError(f"{name} holds a value that is not finite at row {row}")
    _check_waypoints(column(table, "walk.waypoint"), waypoints)


def _check_waypoints(flags: np.ndarray, wanted: int | None) -> None:
    reached = flags[flags != -1]
    if (reached < 0).any():
        raise DatasetError(f"walk.waypoint is {int(reached.min())} at some row; it must be -1 or a waypoint's index")
    steps = np.flatnonzero(np.diff(reached) != 1)
    if len(steps):
        at = int(steps[0])
        raise DatasetError(
            f"walk.waypoint goes from {int(reached[at])} to {int(reached[at + 1])}; each is flagged once, in turn"
        )
    if wanted is not None and len(reached) != wanted:
        raise DatasetError(f"{len(reached)} waypoints are flagged but {wanted} were reached")


def check_video(path: Path, rows: int, size: tuple[int, int], fps: int) -> None:
    """Check that every row has its image: decode the whole video.

    Args:
        path: The mp4.
        rows: How many frames it must hold.
        size: Height and width [px] that they must have.
        fps: Frame ``k`` must be at ``k / fps`` seconds.

    Raises:
        DatasetError: What is wrong, with the file.
    """
    count, height, width = probe(path, fps)
    if count != rows:
        raise DatasetError(f"{path} has {count} decodable frames for {rows} rows")
    if (height, width) != size:
        raise DatasetError(f"{path} is {width}x{height} px; {size[1]}x{size[0]} was to be written")


def check_files(
    files: EpisodeFiles, cameras: Mapping[str, tuple[int, int]], fps: int, waypoints: int | None = None
) -> pa.Table:
    """Read back every file of an episode and check that they are whole and agree.

    Returns:
        The rows.

    Raises:
        DatasetError: The first thing wrong; the message names the file.
    """
    table = read_parquet(files.data)
    try:
        check_rows(table, cameras, fps, waypoints)
    except DatasetError as e:
        raise DatasetError(f"{files.data}: {e}") from e
    with ThreadPoolExecutor(max_workers=len(files.videos)) as pool:
        for done in [pool.submit(check_video, p, len(table), cameras[c], fps) for c, p in files.videos.items()]:
            done.result()
    read_raw(files.raw)
    return table
