"""One camera's images to one mp4 and back: H.264 without B-frames, so that image ``k`` is frame ``k`` of the file."""

import queue
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from .durable import disk_trouble
from .stats import ImageStats

__all__ = ["CRF", "VideoWriter", "decode", "key_frame_every", "probe", "video_info"]

KEY_FRAME_S = 1 / 3
"""Time from one key frame to the next [s]: 10 images at 30 a second. A random access decodes 5 on average; with 2, as
LeRobot has it, files are twice as large and encode 20 % slower (360 images of 224 px: 4.0 MB against 1.9 MB). Up to
four a second each is coded for itself. An image that differs much from the one before would keep a ghost of it, and a
model that learns what two images share finds the ghost: at one image a second, pair correlation 0.67 where the joints
had 0.60."""

CRF = 18
"""Quality of x264, where 18 is taken for visually lossless (FFmpeg's H.264 guide)."""

PRESET = "ultrafast"
"""Encodes 2,400 and decodes 6,800 images of 224 px a second on one core; ``veryfast`` 1,300 and 3,600, for files 40 %
smaller."""

QUEUE = 32
"""Images that may wait for the encoder; then :meth:`VideoWriter.add` waits. An image is never dropped."""

EXTRA = {"bf": 0, "sc_threshold": 0}
"""No B-frames: they break the look-up by frame number. No extra key frames at scene cuts."""


class VideoWriter:
    """Encodes images in a thread of its own while they come.

    Args:
        path: The mp4 to write.
        fps: Frames a second.
        height: Of every image [px], even.
        width: Of every image [px], even.
    """

    def __init__(self, path: Path, fps: int, height: int, width: int) -> None:
        self._path, self._fps, self._height, self._width = path, fps, height, width
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=QUEUE)
        self._error: BaseException | None = None
        self._cancelled = threading.Event()
        self._stats = ImageStats()
        self._thread = threading.Thread(target=self._run, name=f"encode {path.parent.parent.name}", daemon=True)
        self._thread.start()

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Give the next image, (H, W, 3) uint8; it is copied. Waits while the encoder is behind.

        Raises:
            DatasetError: The encoder failed, for example on a full disk.
        """
        import av

        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
        self._stats.add(rgb)
        self._put(frame)

    def finish(self) -> ImageStats:
        """Write what is left, close the file, and give the statistics of the images.

        Raises:
            DatasetError: The encoder failed, for example on a full disk.
        """
        self._put(None)
        self._thread.join()
        self._raise()
        return self._stats

    def cancel(self) -> None:
        """Stop the encoder and its thread; the file is left torn, for the caller to remove. Never raises."""
        self._cancelled.set()
        while self._thread.is_alive():
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                try:
                    self._queue.get_nowait()
                except queue.Empty:
                    pass
            self._thread.join(timeout=0.02)

    def _put(self, frame: Any) -> None:
        while True:
            self._raise()
            if not self._thread.is_alive():
                return
            try:
                self._queue.put(frame, timeout=0.5)
                return
            except queue.Full:
                continue

    def _raise(self) -> None:
        if isinstance(self._error, OSError):
            raise disk_trouble(self._error, self._path) from self._error
        if self._error is not None:
            raise DatasetError(f"{self._path}: the images can't be encoded ({self._error})") from self._error

    def _run(self) -> None:
        try:
            self._encode()
        except BaseException as e:
            self._error = e

    def _encode(self) -> None:
        import av

        time_base = Fraction(1, self._fps)
        # A path, not a file object of ours: PyAV 15.1 crashes when a container that failed on one is taken down.
        with av.open(str(self._path), "w", format="mp4") as container:
            stream = container.add_stream("h264", self._fps, options=_options(self._fps))
            stream.width, stream.height = self._width, self._height
            stream.pix_fmt, stream.time_base = "yuv420p", time_base
            count = 0
            while (frame := self._queue.get()) is not None and not self._cancelled.is_set():
                frame.pts, frame.time_base = count, time_base
                container.mux(stream.encode(frame))
                count += 1
            if count:
                container.mux(stream.encode())


def key_frame_every(fps: int) -> int:
    """Images from one key frame to the next at ``fps`` images a second; 1 codes each for itself."""
    return max(1, round(KEY_FRAME_S * fps))


def _options(fps: int) -> dict[str, str]:
    chosen = {"preset": PRESET, "crf": CRF, "g": key_frame_every(fps), "threads": 1, **EXTRA}
    return {name: str(value) for name, value in chosen.items()}


def video_info(fps: int, height: int, width: int) -> dict[str, Any]:
    """What ``info.json`` tells about a video column, with the names that LeRobot reads its encoder settings from."""
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": "h264",
        "video.pix_fmt": "yuv420p",
        "video.fps": fps,
        "video.channels": 3,
        "has_audio": False,
        "video.g": key_frame_every(fps),
        "video.crf": CRF,
        "video.preset": PRESET,
        "video.fast_decode": 0,
        "video.video_backend": "pyav",
        "video.extra_options": dict(EXTRA),
        "is_depth_map": False,
    }


def decode(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Every image of a video in order, (H, W, 3) uint8.

    Raises:
        DatasetError: The file is missing, torn, or holds no video.
    """
    for frame in _frames(path):
        yield frame.to_ndarray(format="rgb24")


def probe(path: Path, fps: int) -> tuple[int, int, int]:
    """Decode a whole video and tell how many frames it has, their height and their width [px].

    Raises:
        DatasetError: It is missing or torn, frame ``k`` is not at ``k / fps``, or the size changes on the way.
    """
    count, size = 0, (0, 0)
    for frame in _frames(path):
        if count and (frame.height, frame.width) != size:
            raise DatasetError(f"{path}: frame {count} is {frame.width}x{frame.height} px, not {size[1]}x{size[0]}")
        size = (frame.height, frame.width)
        if frame.pts is None or frame.pts * frame.time_base * fps != count:
            raise DatasetError(f"{path}: frame {count} is not at {count}/{fps} s")
        count += 1
    return count, *size


def _frames(path: Path) -> Iterator[Any]:
    import av

    try:
        _check_boxes(path)
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise DatasetError(f"{path} holds no video")
            stream = container.streams.video[0]
            if stream.codec_context is None:  # PyAV 15.1 crashes on decoding such a stream
                raise DatasetError(f"{path} is torn (it does not tell its codec)")
            stream.thread_count = 1
            yield from container.decode(stream)
    except FileNotFoundError as e:
        raise DatasetError(f"{path} is missing") from e
    except (av.FFmpegError, OSError) as e:
        raise DatasetError(f"{path} is torn ({e.strerror or e})") from e


def _check_boxes(path: Path) -> None:
    """Check that the boxes of an mp4 (ISO/IEC 14496-12, 4.2) end where the file does, and that one is its index."""
    length = path.stat().st_size
    at, kinds = 0, set()
    with path.open("rb") as f:
        while at < length:
            f.seek(at)
            header = f.read(16)
            size, kind = int.from_bytes(header[:4], "big"), header[4:8]
            if size == 1:
                size = int.from_bytes(header[8:16], "big")
            if size < 8:
                break
            kinds.add(kind)
            at += size
    if at != length or b"moov" not in kinds:
        raise DatasetError(f"{path} is torn (it ends at byte {length}, in the middle of a part)")
