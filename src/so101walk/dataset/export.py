"""A dataset in another program's layout, written as a stream: one image in memory at a time."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError, UsageError
from .durable import make_dirs, rename, told
from .reader import Dataset

if TYPE_CHECKING:
    import h5py

__all__ = ["FORMATS", "Exported", "export_swm_hdf5"]

FORMATS = ("swm-hdf5",)
"""``swm-hdf5`` is the HDF5 layout that stable-worldmodel's ``HDF5Dataset`` reads."""

CHUNK_FRAMES = 16
"""Frames in a compressed chunk of pixels: random windows of a few frames touch one or two chunks."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    episodes: int
    frames: int
    pixels: tuple[int, int]
    cameras: tuple[str, ...]


def export_swm_hdf5(
    dataset: Dataset,
    out: Path,
    size_px: int | None = None,
    cameras: tuple[str, ...] = (),
    tile: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Write stable-worldmodel's HDF5 layout.

    ``pixels`` (N, H, W, 3) uint8, ``action`` (N, 6) float32, ``proprio`` (N, 6) float32 (the state), ``ep_len`` (E,)
    int32, ``ep_offset`` (E,) int64; also ``ep_idx`` (N,) int32 and ``step_idx`` (N,) int32.

    Args:
        dataset: Any LeRobot v3 dataset with a camera, state and action.
        out: The file; it must not exist. Written beside and renamed when it is whole.
        size_px: Height and width of the images; those of the camera if None.
        cameras: Which views, all if empty. Without ``tile`` the first of them is taken.
        tile: Put the views side by side, left to right; each is then ``size_px`` high and its share wide.
        progress: Told frames done and in all.

    Raises:
        UsageError: The file exists, or the size can't be.
        DatasetError: A column or camera is missing, images can't be decoded, or the disk is full.
    """
    import h5py

    if out.exists():
        raise UsageError(f"{out} exists; give another --out")
    if size_px is not None and not 8 <= size_px <= 4096:
        raise UsageError(f"--size is {size_px}; it must be 8 to 4096 px")
    for name in ("action", "observation.state"):
        if name not in dataset.features:
            raise DatasetError(f"{dataset.root} has no column {name!r}; this layout needs it")
    views = tuple(dataset.camera(c) for c in cameras) or dataset.cameras
    if not views:
        raise DatasetError(f"{dataset.root} has no cameras; this layout needs one")
    views = views if tile else views[:1]
    height, width = _shape(dataset, views, size_px)
    make_dirs(out.parent)
    partial = out.with_name(f"{out.name}.{os.getpid()}.partial")
    total = dataset.frame_count
    try:
        with told(out, needed=total * height * width), h5py.File(partial, "w") as file:
            _write_tables(file, dataset)
            pixels = file.create_dataset(
                "pixels", (total, height, width, 3), np.uint8,
                chunks=(min(CHUNK_FRAMES, total), height, width, 3), compression="gzip", compression_opts=1,
            )  # fmt: skip
            row = 0
            for block in _blocks(dataset, views, height, width):
                pixels[row : row + len(block)] = block
                row += len(block)
                progress(row, total)
        rename(partial, out)
    finally:
        partial.unlink(missing_ok=True)
    return Exported(out, len(dataset.episodes), total, (height, width), views)


def _shape(dataset: Dataset, views: tuple[str, ...], size_px: int | None) -> tuple[int, int]:
    if size_px is not None:
        return size_px, size_px
    sizes = [tuple(int(s) for s in dataset.features[v]["shape"][:2]) for v in views]
    if len({h for h, _ in sizes}) > 1:
        raise UsageError("--tile needs views of one height; give --size")
    return sizes[0][0], sum(w for _, w in sizes)


def _write_tables(file: "h5py.File", dataset: Dataset) -> None:
    table = dataset.columns(["action", "observation.state"])
    lengths = np.array([e.length for e in dataset.episodes], dtype=np.int64)
    file["action"] = table["action"].astype(np.float32)
    file["proprio"] = table["observation.state"].astype(np.float32)
    file["ep_len"] = lengths.astype(np.int32)
    file["ep_offset"] = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    file["ep_idx"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    file["step_idx"] = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
    file.attrs["fps"] = dataset.fps
    file.attrs["source"] = dataset.root.name


def _blocks(dataset: Dataset, views: tuple[str, ...], height: int, width: int) -> Iterator[NDArray[np.uint8]]:
    """Images of every row in order, a chunk at a time."""
    block: list[NDArray[np.uint8]] = []
    for e in dataset.episodes:
        count = 0
        for images in zip(*(dataset.frames(v, e.index) for v in views), strict=True):
            block.append(_tiled(images, height, width))
            count += 1
            if len(block) == CHUNK_FRAMES:
                yield np.stack(block)
                block = []
        if count != e.length:
            raise DatasetError(f"{dataset.root}: episode {e.index} has {count} images for {e.length} rows")
    if block:
        yield np.stack(block)


def _tiled(images: tuple[NDArray[np.uint8], ...], height: int, width: int) -> NDArray[np.uint8]:
    import cv2

    edges = np.linspace(0, width, len(images) + 1).round().astype(int)
    parts = []
    for image, left, right in zip(images, edges, edges[1:], strict=False):
        size = (int(right - left), height)
        if image.shape[1::-1] != size:
            way = cv2.INTER_AREA if image.shape[0] >= height else cv2.INTER_LINEAR
            image = np.asarray(cv2.resize(image, size, interpolation=way), dtype=np.uint8)
        parts.append(image)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
