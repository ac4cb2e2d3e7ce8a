"""One episode on its way to disk: frames come in, a finished and verified one-episode dataset comes out, or nothing.

The episode is written in ``tmp/``, read back, checked, flushed to the disk and only then renamed into ``episodes/``.
A crash before the rename leaves earlier episodes untouched; after it this one is safe as well.
"""

import dataclasses
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import __version__
from ..errors import DatasetError
from ..joints import ROBOT_TYPE, N
from .durable import fsync_tree, json_bytes, make_dirs, plain, rename, told, write_bytes
from .metadata import Layout, metadata_files, write_metadata
from .raw import RawLog, write_raw
from .schema import Frame, feature_of, features
from .staging import RECORD, Staging
from .tables import column_stats, data_table, episode_row, episodes_table, parquet_bytes
from .verify import EpisodeFiles, check_files
from .video import VideoWriter

__all__ = ["ChecksFailed", "EpisodeWriter", "SavedEpisode"]


class ChecksFailed(DatasetError):
    """An episode's files are not what they should be; it was set aside and can be done again."""


@dataclass(frozen=True)
class SavedEpisode:
    """An episode that is safe on disk.

    Attributes:
        walk_index: Which episode of the walk it is.
        path: Its folder in the staging folder.
        frames: Its rows.
        record: What ``meta/so101walk.json`` will tell about it.
    """

    walk_index: int
    path: Path
    frames: int
    record: dict[str, Any]


class EpisodeWriter:
    """Writes one episode. Use it as a context manager: an exception inside drops the episode without a trace.

    Args:
        staging: Where to; its session has begun.
        walk_index: Which episode of the walk, from 0.
        fps: Frames a second.
        cameras: Height and width [px] of each camera's images, by name.
        robot_type: As stock LeRobot writes it for this arm.
        task: What the episode does, in words.
        attempt: How often this episode has failed before.

    Raises:
        DatasetError: The folder can't be made, or the walk index is saved already.
    """

    def __init__(
        self,
        staging: Staging,
        walk_index: int,
        *,
        fps: int,
        cameras: Mapping[str, tuple[int, int]],
        robot_type: str = ROBOT_TYPE,
        task: str = "Random walk in joint space.",
        attempt: int = 0,
    ) -> None:
        self._staging, self._walk_index, self._attempt = staging, walk_index, attempt
        self._fps, self._cameras, self._task = fps, dict(cameras), task
        self._layout = Layout(fps, robot_type, self._cameras)
        self._features = features(cameras)
        name = f"episode-{walk_index:06d}"
        self._final = staging.episodes / name
        if self._final.exists():
            raise DatasetError(f"{self._final} is there already; episode {walk_index} of the walk was saved before")
        self._folder = staging.tmp / f"{name}-attempt-{attempt}-{os.getpid()}"
        self._files = EpisodeFiles.in_staging(self._folder, self._cameras)
        self._rows: dict[str, list[Any]] = {n: [] for n, f in self._features.items() if f["dtype"] != "video"}
        self._count = 0
        self._open = True
        for path in (self._files.data, *self._files.videos.values()):
            make_dirs(path.parent)
        self._videos = {c: VideoWriter(self._files.videos[c], fps, *size) for c, size in self._cameras.items()}

    def add(self, frame: Frame) -> None:
        """Take the next frame. Waits when an encoder is behind; a frame is never dropped.

        Raises:
            DatasetError: A column or an image is missing or has the wrong shape, or the disk is full.
        """
        if frame.images.keys() != self._cameras.keys():
            raise DatasetError(
                f"frame {self._count} has images of {', '.join(frame.images) or 'no camera'}; "
                f"the dataset wants {', '.join(self._cameras)}"
            )
        for camera, image in frame.images.items():
            if image.shape != (*self._cameras[camera], 3) or image.dtype != np.uint8:
                height, width = self._cameras[camera]
                raise DatasetError(
                    f"frame {self._count}: the image of camera {camera!r} is {image.dtype} {image.shape}; "
                    f"it must be uint8 ({height}, {width}, 3)"
                )
        for name, value in frame.row().items():
            if np.shape(value) != ((N,) if self._features[name]["shape"] == (N,) else ()):
                raise DatasetError(f"frame {self._count}: {name} has shape {np.shape(value)}")
            self._rows[name].append(value)
        for camera, image in frame.images.items():
            self._videos[camera].add(image)
        self._count += 1

    def finish(self, record: Mapping[str, Any], raw: RawLog, waypoints: int | None = None) -> SavedEpisode:
        """Write what is left, verify the episode from its files, and make it durable.

        Args:
            record: What to keep about the episode in ``meta/so101walk.json``: acceptance, cadence, ages, faults.
            raw: Its full-rate log; the record and the session are added to its attributes.
            waypoints: How many waypoints were reached, each to be flagged once; not checked if None.

        Raises:
            ChecksFailed: A check failed, and the episode was set aside with its reason.
            DatasetError: The disk is full, and it was dropped. Earlier episodes are whole either way.
        """
        kept = self._record(record)
        try:
            self._write(kept, raw)
        except DatasetError as e:
            self.abandon(str(e))
            raise
        try:
            check_files(self._files, self._cameras, self._fps, waypoints)
        except DatasetError as e:
            where = self._set_aside(str(e))
            raise ChecksFailed(f"episode {self._walk_index} failed its checks and was set aside ({where}): {e}") from e
        with told(self._final):
            fsync_tree(self._folder)
            rename(self._folder, self._final)
        self._open = False
        return SavedEpisode(self._walk_index, self._final, self._count, kept)

    def set_aside(self, reason: str, record: Mapping[str, Any], raw: RawLog) -> Path:
        """Keep an episode that failed a check of the session's: outside of the dataset, with its reason.

        Returns:
            Its folder, under ``set-aside/``.

        Raises:
            DatasetError: The disk is full; the episode was dropped.
        """
        try:
            self._write(self._record(record), raw)
            return self._set_aside(reason)
        except DatasetError as e:
            self.abandon(str(e))
            raise

    def abandon(self, reason: str = "") -> None:
        """Drop the episode: the encoders end, nothing of it stays on disk. Safe to call more than once; never raises.

        Args:
            reason: Why, for whoever reads the call.
        """
        if self._open:
            self._open = False
            for video in self._videos.values():
                video.cancel()
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.abandon("left without finish")

    def _record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        fixed = {"walk_index": self._walk_index, "attempt": self._attempt, "frames": self._count}
        return plain({**fixed, **record, **fixed, "task": self._task, "so101walk": __version__})

    def _write(self, record: Mapping[str, Any], raw: RawLog) -> None:
        if not self._count:
            raise DatasetError(f"episode {self._walk_index} has no frames")
        images = {feature_of(camera): video.finish().result() for camera, video in self._videos.items()}
        columns = {name: np.array(values) for name, values in self._rows.items() if values}
        table = data_table(self._features, columns, self._fps)
        write_bytes(self._files.data, parquet_bytes(table))
        row = episode_row(len(table), self._task, self._fps, {**column_stats(table), **images})
        episodes = episodes_table(self._features, [row])
        write_metadata(self._folder, metadata_files(self._layout, episodes, [self._task]))
        attrs = {**raw.attrs, "episode": record, "layout": self._layout.to_dict(), "session": self._staging.session()}
        write_raw(self._files.raw, dataclasses.replace(raw, attrs=attrs))
        write_bytes(self._folder / RECORD, json_bytes(record))

    def _set_aside(self, reason: str) -> Path:
        name = f"{self._final.name}-attempt-{self._attempt}"
        taken = {p.name for p in self._staging.aside.glob(f"{name}*")}
        target = next(t for k in range(len(taken) + 1) if (t := f"{name}-{k}" if k else name) not in taken)
        with told(self._staging.aside):
            (self._folder / "reason.txt").write_text(reason + "\n")
            rename(self._folder, self._staging.aside / target)
        self._open = False
        return self._staging.aside / target
