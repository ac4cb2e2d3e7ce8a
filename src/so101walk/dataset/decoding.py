"""mp4 files decoded exactly by frame number, as a stream, with PyAV (which brings its own FFmpeg).

A LeRobot v3 video file holds one or more episodes one after another. Frame ``k`` of an episode that begins at
``from_s`` is the one shown at ``from_s + k / fps``; it is found by its presentation time, never by counting packets,
so that a seek lands on the same frame as a decode from the start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DatasetError

if TYPE_CHECKING:
    import av

__all__ = ["Span", "decode", "decode_file"]

SEEK_FRAMES = 24
"""A gap of more frames than this is jumped over by a seek: about the cost of one seek in decoded 224 px frames."""


@dataclass(frozen=True)
class Span:
    """Where one episode lies in a video file: its first frame is shown at ``from_s``, it has ``length`` frames."""

    path: Path
    from_s: float
    length: int
    fps: float

    def number(self, t_s: float) -> int:
        """Number within the episode of the frame shown at ``t_s`` of the file; outside 0..length-1 it is another's."""
        return round((t_s - self.from_s) * self.fps)


def decode_file(path: Path, start_s: float = 0.0) -> "Iterator[tuple[float, av.VideoFrame]]":
    """Stream the frames of an mp4 from the last keyframe at or before ``start_s`` on, each with its time [s].

    Raises:
        DatasetError: The file is missing, torn, or holds no video. A file that is torn in its middle raises after its
            last good frame.
    """
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise DatasetError(f"{path}: holds no video stream")
            stream = container.streams.video[0]
            if stream.codec_context is None:  # of a torn file; PyAV 15.1 crashes when it is decoded
                raise DatasetError(f"{path}: its video can't be decoded, the file is torn")
            stream.thread_type = "AUTO"
            base = stream.time_base
            if base is None:
                raise DatasetError(f"{path}: its video stream states no time base")
            if start_s > 0:
                container.seek(round(start_s / base), stream=stream, backward=True)
            for frame in container.decode(stream):
                if frame.pts is not None:
                    yield float(frame.pts * base), frame
    except FileNotFoundError as e:
        raise DatasetError(f"{path}: the video file is missing") from e
    except av.FFmpegError as e:
        raise DatasetError(f"{path}: can't be decoded, the file is torn or no video ({e.strerror})") from e


def decode(span: Span, wanted: Sequence[int]) -> "Iterator[tuple[int, av.VideoFrame]]":
    """Stream the wanted frames of an episode in order, each with its number.

    Args:
        span: Where the episode lies.
        wanted: Frame numbers within the episode, strictly increasing, each in 0..length-1. Far gaps are jumped over.

    Raises:
        DatasetError: The file can't be decoded, or a wanted frame isn't in it.
    """
    done = 0
    while done < len(wanted):
        start = wanted[done]
        for t_s, frame in decode_file(span.path, max(0.0, span.from_s + (start - 0.25) / span.fps)):
            number = span.number(t_s)
            if number < wanted[done]:
                continue
            if number > wanted[done]:
                break
            yield number, frame
            done += 1
            if done == len(wanted) or wanted[done] - number > SEEK_FRAMES:
                break
        else:
            number = span.length
        if done < len(wanted) and (number > wanted[done] or wanted[done] == start):
            raise DatasetError(f"{span.path}: frame {wanted[done]} of {span.length} of the episode can't be decoded")
