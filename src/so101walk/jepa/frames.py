"""A dataset's images, decoded once and shrunk to the recipe's size.

One uint8 array on disk, memory-mapped, never floats.

The file is named by the content of the dataset's videos, the views and the size, so a second training starts at once
and a changed dataset never meets stale images.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..dataset.durable import make_dirs, rename, told
from ..dataset.reader import Dataset
from ..errors import DatasetError
from ..probe.latents import dataset_digest
from .pairs import Timeline

__all__ = ["Frames", "cache_dir", "open_frames", "shrink", "step_frames_of", "timeline_of"]

Progress = Callable[[int, int], None]
"""Called with frames decoded so far and in all."""


@dataclass(frozen=True)
class Frames:
    """Every frame of a dataset as training sees it.

    Attributes:
        images: Shape (n, cameras, size, size, 3), uint8, memory-mapped, read-only.
        timeline: Where each row stands.
        cameras: Column names of the views, in the order of the second axis.
        digest: Of the dataset's rows and of these views' images.
    """

    images: NDArray[np.uint8]
    timeline: Timeline
    cameras: tuple[str, ...]
    digest: str

    def __len__(self) -> int:
        return len(self.images)

    @property
    def size_px(self) -> int:
        """Height and width of the images."""
        return int(self.images.shape[2])


def cache_dir() -> Path:
    """Where decoded frames are kept: ``$XDG_CACHE_HOME/so101walk/frames``, in ``~/.cache`` by default."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "so101walk" / "frames"


def step_frames_of(dataset: Dataset) -> int:
    """Frames from one waypoint to the next, as the dataset's own metadata say; 0 where they don't."""
    policy = (dataset.meta or {}).get("policy") or {}
    value = policy.get("frames_per_step", 0)
    return value if isinstance(value, int) else 0


def timeline_of(dataset: Dataset) -> Timeline:
    """Where each row of a dataset stands, and which are waypoints."""
    lengths = [e.length for e in dataset.episodes]
    episode = np.repeat(np.array([e.index for e in dataset.episodes], dtype=np.int64), lengths)
    frame = np.concatenate([np.arange(n, dtype=np.int64) for n in lengths])
    waypoint = None
    if "walk.waypoint" in dataset.features:
        waypoint = dataset.columns(["walk.waypoint"])["walk.waypoint"].reshape(-1).astype(np.int64)
    return Timeline(episode, frame, waypoint, step_frames_of(dataset))


def shrink(image: NDArray[np.uint8], size_px: int) -> NDArray[np.uint8]:
    """An image (H, W, 3) at (size, size, 3): area-averaged down, bilinear up.

    Returned as it is when it fits already.
    """
    import cv2

    height, width = image.shape[:2]
    if (height, width) == (size_px, size_px):
        return image
    way = cv2.INTER_AREA if min(height, width) >= size_px else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (size_px, size_px), interpolation=way), dtype=np.uint8)


def open_frames(
    dataset: Dataset,
    cameras: tuple[str, ...] = (),
    size_px: int = 64,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Frames:
    """All frames of a dataset at a size: from the cache, or decoded into it as a stream.

    Args:
        dataset: Any LeRobot v3 dataset with cameras.
        cameras: Views by column name or its last part; empty for all.
        size_px: Height and width of the result.
        folder: The cache, :func:`cache_dir` by default.
        progress: Told while decoding.

    Raises:
        DatasetError: No camera, an unknown one, images that can't be decoded, or a cache that can't be written.
    """
    names = tuple(dataset.camera(c) for c in cameras) or dataset.cameras
    if not names:
        raise DatasetError(f"{dataset.root} has no cameras; training needs at least one")
    digest = dataset_digest(dataset, names)
    shape = (dataset.frame_count, len(names), size_px, size_px, 3)
    folder = folder or cache_dir()
    key = hashlib.sha256(repr((digest, names, size_px)).encode()).hexdigest()[:20]
    path = folder / f"{key}-{size_px}px.npy"
    if not _whole(path, shape):
        _decode(dataset, names, path, shape, progress)
    images = np.load(path, mmap_mode="r")
    return Frames(images, timeline_of(dataset), names, digest)


def _whole(path: Path, shape: tuple[int, ...]) -> bool:
    try:
        return np.load(path, mmap_mode="r").shape == shape
    except (OSError, ValueError):
        return False


def _decode(
    dataset: Dataset, cameras: tuple[str, ...], path: Path, shape: tuple[int, ...], progress: Progress | None
) -> None:
    make_dirs(path.parent)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.partial.npy")
    try:
        with told(partial, needed=int(np.prod(shape))):
            out = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            with partial.open("r+b") as f:  # a full disk is told here, not by a bus error while decoding
                os.posix_fallocate(f.fileno(), 0, partial.stat().st_size)
        row = 0
        for e in dataset.episodes:
            for images in _together(dataset, cameras, e.index, e.length):
                for view, image in enumerate(images):
                    out[row, view] = shrink(image, shape[2])
                row += 1
            if progress:
                progress(row, shape[0])
        out.flush()
        rename(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _together(
    dataset: Dataset, cameras: tuple[str, ...], episode: int, length: int
) -> Iterator[tuple[NDArray[np.uint8], ...]]:
    count = 0
    for images in zip(*(dataset.frames(c, episode) for c in cameras), strict=True):
        count += 1
        yield images
    if count != length:
        raise DatasetError(
            f"{dataset.root}: episode {episode} has {count} images for {length} rows; run so101walk check"
        )
