"""Frames of a dataset as a stream of batches: decoded ahead in a thread a camera, never more than a few batches in
memory."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from ..errors import DatasetError
from .samples import Samples

__all__ = ["Batch", "batches"]

AHEAD = 2
"""Batches that each camera's thread may be ahead of the encoder."""


@dataclass(frozen=True)
class Batch:
    """Some consecutive encoded rows: ``start`` is the place of the first, ``views`` holds (n, H, W, 3) uint8 a
    camera."""

    start: int
    views: list[NDArray[np.uint8]]

    def __len__(self) -> int:
        return len(self.views[0])

    @property
    def part(self) -> slice:
        """Places of its rows among the encoded rows."""
        return slice(self.start, self.start + len(self))


def batches(dataset: Dataset, samples: Samples, cameras: tuple[str, ...], size: int) -> Iterator[Batch]:
    """Every encoded row of ``samples`` in order, ``size`` at a time (the last batch may be smaller).

    Args:
        dataset: What to decode.
        samples: Which rows.
        cameras: Their views, in this order.
        size: Frames a batch.

    Raises:
        DatasetError: An image can't be decoded, or an episode has fewer images than rows.
    """
    stop = threading.Event()
    queues: list[queue.Queue[Any]] = [queue.Queue(maxsize=AHEAD) for _ in cameras]
    for camera, out in zip(cameras, queues, strict=True):
        run = threading.Thread(target=_decode, args=(dataset, samples, camera, size, out, stop), daemon=True)
        run.start()
    try:
        for start in range(0, len(samples.rows), size):
            views = [out.get() for out in queues]
            for view in views:
                if isinstance(view, BaseException):
                    raise view
            yield Batch(start, views)
    finally:
        stop.set()


def _decode(
    dataset: Dataset, samples: Samples, camera: str, size: int, out: "queue.Queue[Any]", stop: threading.Event
) -> None:
    try:
        for chunk in _chunks(dataset, samples, camera, size):
            if not _put(out, chunk, stop):
                return
    except BaseException as e:  # handed to the reader of the queue, which raises it
        _put(out, e, stop)


def _put(out: "queue.Queue[Any]", item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            out.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False


def _chunks(dataset: Dataset, samples: Samples, camera: str, size: int) -> Iterator[NDArray[np.uint8]]:
    total, done = len(samples.rows), 0
    buffer: NDArray[np.uint8] | None = None
    filled = 0
    for episode in dataset.episodes:
        expected = int(np.count_nonzero(samples.episode == episode.index))
        count = 0
        for image in dataset.frames(camera, episode.index, samples.stride):
            if buffer is None or filled == len(buffer):
                buffer, filled = np.empty((min(size, total - done), *image.shape), np.uint8), 0
            if image.shape != buffer.shape[1:]:
                raise DatasetError(
                    f"{dataset.root}: {camera} changes its size in episode {episode.index}, frame {count}"
                )
            buffer[filled] = image
            filled, done, count = filled + 1, done + 1, count + 1
            if filled == len(buffer):
                yield buffer
        if count != expected:
            raise DatasetError(
                f"{dataset.root}: {camera} has {count} images in episode {episode.index} for {expected} rows"
            )
