"""One camera's timetable, what ails it, and the form its images travel in."""

import base64
import json
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .faults import Fault

__all__ = ["Stream", "message"]

JPEG_QUALITY = 90


@dataclass
class Stream:
    """One camera's timetable and what ails it. Times in ns of ``time.perf_counter_ns``.

    Args:
        name: The camera.
        fps: Images a second.
        due_ns: When the first image is due.
    """

    name: str
    fps: float
    due_ns: int
    serial: int = -1
    payload: bytes | None = None
    t_ns: int = 0
    _slow: tuple[float, float] | None = None
    _frozen: list[float] = field(default_factory=lambda: [0.0, -math.inf])
    _dropped: list[float] = field(default_factory=lambda: [0.0, -math.inf])

    def strike(self, fault: Fault, now_ns: int) -> None:
        """Begin a camera fault: for its count of images, its duration, or for ever."""
        until = math.inf if fault.duration_s is None else now_ns + fault.duration_s * 1e9
        extent = [float(fault.count), math.inf] if fault.count is not None else [math.inf, until]
        match fault.kind:
            case "slow_camera":
                self._slow = (fault.fps or self.fps, until)
            case "freeze_camera":
                self._frozen = extent
            case "drop_camera":
                self._dropped = extent

    def next(self, now_ns: int) -> str:
        """Use up the image that is due: move on to the next, and say what becomes of this one.

        Returns:
            ``"render"`` it, ``"repeat"`` the last one's bytes, or ``"skip"`` it.
        """
        if self._slow is not None and now_ns >= self._slow[1]:
            self._slow = None
        period_ns = 1e9 / (self._slow[0] if self._slow else self.fps)
        # a camera that the machine held up leaves images out; it never sends a burst
        self.due_ns += round(period_ns * max(1, math.floor((now_ns - self.due_ns) / period_ns) + 1))
        if _take(self._dropped, now_ns):
            return "skip"
        return "repeat" if self.payload is not None and _take(self._frozen, now_ns) else "render"


def _take(extent: list[float], now_ns: int) -> bool:
    if extent[0] <= 0 or now_ns >= extent[1]:
        return False
    extent[0] -= 1
    return True


def message(name: str, rgb: NDArray[np.uint8], wall_s: float) -> bytes:
    """One image as a ZMQ message.

    Args:
        name: The camera.
        rgb: Shape (H, W, 3). Encoded as if it were OpenCV's BGR, as LeRobot's own image server does, because
            ``ZMQCamera`` decodes with OpenCV and doesn't convert: its user gets RGB.
        wall_s: Time of capture, seconds of ``time.time``.
    """
    import cv2

    ok, jpeg = cv2.imencode(".jpg", rgb, [int(cv2.IMWRITE_JPEG_QUALITY), JPEG_QUALITY])
    if not ok:
        raise ValueError(f"{name}: an image of shape {rgb.shape} can't be encoded")
    image = base64.b64encode(jpeg.tobytes()).decode("ascii")
    return json.dumps({"timestamps": {name: wall_s}, "images": {name: image}}).encode()
