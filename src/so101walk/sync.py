"""Joints and images on one grid of frames, built while they arrive.

The technique is UMI's (arXiv 2402.10329, section on latency matching): every stream carries its own measured times,
latencies are subtracted, low-dimensional streams are interpolated, images are taken as they are.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arms.arm import Tick
from .cameras.camera import Image
from .errors import HardwareError

__all__ = ["FrameGrid", "SyncedFrame"]

REACH = 0.75
"""An image counts for a frame if it is at most this share of a frame period away. More than a half, so that a camera
that drifts through the middle between two frames costs one repeat, not one at every jitter; less than one, so that
a late camera catches up by a repeat and does not stay a whole frame behind."""


@dataclass(frozen=True)
class SyncedFrame:
    """One row of the dataset before the policy's columns are added. Joints in LeRobot units, shape (6,); times in ns.

    Attributes:
        index: Frame number; its nominal time is ``index / fps`` after the grid's start.
        state: Joints interpolated at the first camera's capture.
        request: What motion asked at the first control tick at or after that moment.
        sent: What went on the wire at that tick.
        images: An image of each camera, (H, W, 3) uint8.
        capture_ns: From the frame's nominal time to each image's capture.
        repeated: Cameras whose image had served an earlier frame, because no new one came.
        state_gap_ns: Width of the bracket of joint readings that ``state`` was interpolated in.
        wall_ns: Time of ``state`` since that of frame 0.
    """

    index: int
    state: NDArray[np.float64]
    request: NDArray[np.float64]
    sent: NDArray[np.float64]
    images: dict[str, NDArray[np.uint8]]
    capture_ns: dict[str, int]
    repeated: frozenset[str]
    state_gap_ns: int
    wall_ns: int


class FrameGrid:
    """Builds frames from a stream of control ticks and streams of images.

    Each frame takes the nearest image of each camera that no earlier frame has used, if one lies within 0.75 of a frame
    period; else it repeats the last one and says so. Joints are interpolated linearly between the last good reading
    before and the first one after the first camera's capture. Ticks with an unreadable joint are passed over: the
    bracket gets wider, and ``state_gap_ns`` tells it.

    Args:
        fps: Frames a second.
        cameras: Names; joints are interpolated at the first one's capture.
        start_ns: Nominal time of frame 0 on the arm's clock.
        frames: How many frames.
        camera_latency_ns: From capture to stamp, for each camera (0 where not given).
        bus_latency_ns: From measurement in the servo to the middle of the read.
    """

    def __init__(
        self,
        fps: float,
        cameras: Sequence[str],
        start_ns: int,
        frames: int,
        camera_latency_ns: Mapping[str, int] | None = None,
        bus_latency_ns: int = 0,
    ) -> None:
        self._period_ns = 1e9 / fps
        self._cameras = tuple(cameras)
        self._start_ns = start_ns
        self._frames = frames
        self._latency_ns = {c: int((camera_latency_ns or {}).get(c, 0)) for c in self._cameras}
        self._bus_latency_ns = bus_latency_ns
        self._ticks: deque[tuple[int, Tick]] = deque()
        self._images: dict[str, deque[Image]] = {c: deque() for c in self._cameras}
        self._last: dict[str, Image] = {}
        self._next = 0
        self._first_state_ns = 0
        self.skipped: dict[str, int] = dict.fromkeys(self._cameras, 0)
        self.repeated: dict[str, int] = dict.fromkeys(self._cameras, 0)
        self.bad_ticks = 0

    @property
    def built(self) -> int:
        """How many frames have been built."""
        return self._next

    @property
    def done(self) -> bool:
        """Whether every frame has been built."""
        return self._next >= self._frames

    def add_tick(self, tick: Tick) -> None:
        """Take one turn of the control loop; ticks arrive in order of time."""
        if np.isfinite(tick.q).all():
            self._ticks.append((tick.t_ns - self._bus_latency_ns, tick))
        else:
            self.bad_ticks += 1

    def add_images(self, camera: str, images: Iterable[Image]) -> None:
        """Take new images of one camera, oldest first."""
        for image in images:
            self._images[camera].append(Image(image.t_ns - self._latency_ns[camera], image.rgb))

    def ready(self, now_ns: int) -> Iterator[SyncedFrame]:
        """Every frame that can be decided by ``now_ns``, in order.

        A frame waits for its images until one camera period after its nominal time has passed.

        Raises:
            HardwareError: A camera had delivered nothing by its first frame.
        """
        while not self.done:
            nominal_ns = self._start_ns + round(self._next * self._period_ns)
            deadline_ns = nominal_ns + 2 * self._period_ns + max(self._latency_ns.values(), default=0)
            if now_ns < deadline_ns and not all(self._decidable(c, nominal_ns) for c in self._cameras):
                return
            state_ns = self._peek(self._cameras[0], nominal_ns).t_ns
            if not self._ticks or self._ticks[-1][0] < state_ns:
                return
            yield self._build(nominal_ns)

    def _decidable(self, camera: str, nominal_ns: int) -> bool:
        queue = self._images[camera]
        return bool(queue) and queue[-1].t_ns >= nominal_ns

    def _unused(self, camera: str, nominal_ns: int) -> Image | None:
        near = [i for i in self._images[camera] if abs(i.t_ns - nominal_ns) <= REACH * self._period_ns]
        return min(near, key=lambda i: abs(i.t_ns - nominal_ns), default=None)

    def _peek(self, camera: str, nominal_ns: int) -> Image:
        image = self._unused(camera, nominal_ns) or self._last.get(camera)
        if image is None:
            raise HardwareError(f"camera {camera!r} delivered no image by frame {self._next}; is it streaming?")
        return image

    def _take(self, camera: str, nominal_ns: int) -> tuple[Image, bool]:
        chosen = self._peek(camera, nominal_ns)
        if chosen is self._last.get(camera):
            self.repeated[camera] += 1
            return chosen, True
        queue = self._images[camera]
        while queue[0] is not chosen:
            queue.popleft()
            if camera in self._last:
                self.skipped[camera] += 1
        queue.popleft()
        self._last[camera] = chosen
        return chosen, False

    def _build(self, nominal_ns: int) -> SyncedFrame:
        taken = {c: self._take(c, nominal_ns) for c in self._cameras}
        state_ns = taken[self._cameras[0]][0].t_ns
        before, after = self._bracket(state_ns)
        if self._next == 0:
            self._first_state_ns = state_ns
        frame = SyncedFrame(
            index=self._next,
            state=_interpolate(before, after, state_ns),
            request=after[1].request,
            sent=after[1].sent,
            images={c: image.rgb for c, (image, _) in taken.items()},
            capture_ns={c: image.t_ns - nominal_ns for c, (image, _) in taken.items()},
            repeated=frozenset(c for c, (_, again) in taken.items() if again),
            state_gap_ns=max(after[0], state_ns) - min(before[0], state_ns),
            wall_ns=state_ns - self._first_state_ns,
        )
        self._next += 1
        return frame

    def _bracket(self, t_ns: int) -> tuple[tuple[int, Tick], tuple[int, Tick]]:
        """The last reading at or before ``t_ns`` and the first at or after it; older ones are forgotten."""
        while len(self._ticks) > 1 and self._ticks[1][0] <= t_ns:
            self._ticks.popleft()
        before = self._ticks[0]
        if before[0] >= t_ns or len(self._ticks) == 1:
            return before, before
        return before, self._ticks[1]


def _interpolate(before: tuple[int, Tick], after: tuple[int, Tick], t_ns: int) -> NDArray[np.float64]:
    width = after[0] - before[0]
    if width == 0:
        return before[1].q
    share = (t_ns - before[0]) / width
    return before[1].q + share * (after[1].q - before[1].q)
