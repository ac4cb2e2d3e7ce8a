"""Any LeRobot camera behind our protocol: a thread takes each new image with the time of its capture.

LeRobot's cameras read in a thread of their own and keep the newest image with its ``perf_counter`` time. Ours waits for
each one and puts it into a queue, so that none is overlooked and none is taken for new twice.
"""

import functools
import importlib
import logging
import pkgutil
import threading
import time
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError, nearest
from ..rig import CameraConfig
from ..safety.stops import EpisodeStop
from .camera import Image

__all__ = ["LerobotCamera", "known_types", "make_camera"]

WAIT_MS = 200.0
"""One wait for an image; a camera that is closed is noticed at least this often."""

OPENING_S = 4.0
"""A camera that is opened must deliver within this time: a cold USB webcam takes one to three seconds."""

READER = "_read_loop"
"""How the names of LeRobot's reading threads end (``cameras/opencv/camera_opencv.py`` of 0.6.1 and its siblings)."""

KEPT = 64
"""Images that wait to be drained: two seconds. More means that nobody drains."""


class LerobotCamera:
    """One camera of LeRobot's.

    Args:
        name: Its name in the rig.
        config: Type, size, rate, and the options that go to LeRobot as they are.
        silence_s: With no image for so long while it gathers, :meth:`drain` raises.

    Raises:
        HardwareError: LeRobot has no camera of this type, or refuses the options.
    """

    def __init__(self, name: str, config: CameraConfig, silence_s: float = 1.0) -> None:
        self.name, self.width, self.height = name, config.width, config.height
        self._silence_ns = round(silence_s * 1e9)
        self._camera = make_camera(name, config)
        self._images: deque[Image] = deque(maxlen=KEPT)
        self._gathering = False
        self._since_ns = self._newest_ns = 0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._failure: str | None = None

    def start(self) -> None:
        """Begin to gather images from now on; opens the device at the first call.

        Raises:
            HardwareError: The camera can't be opened or delivers no image, or another size than the rig says.
        """
        if self._thread is None:
            self._open()
        self._images.clear()
        self._since_ns = time.perf_counter_ns()
        self._gathering = True

    def drain(self) -> list[Image]:
        """The images captured since the last call, oldest first.

        Raises:
            EpisodeStop: The camera has been silent for too long, or its thread has ended.
        """
        images = []
        while self._images:
            images.append(self._images.popleft())
        if images:
            self._since_ns = images[-1].t_ns
        elif self._gathering and time.perf_counter_ns() - self._since_ns > self._silence_ns:
            why = f" ({self._failure})" if self._failure else ""
            raise EpisodeStop(
                "hold",
                "camera",
                f"camera {self.name!r} delivered no image for {self._silence_ns / 1e9:g} s{why}; likely unplugged, or "
                'the USB bus is full. Check its cable, or set fourcc = "MJPG" in its options',
            )
        return images

    @property
    def silent(self) -> bool:
        """Whether no image has come for too long, or none comes any more."""
        return time.perf_counter_ns() - self._newest_ns > self._silence_ns

    def stop(self) -> None:
        """Stop gathering and forget what was not drained. Safe to call more than once."""
        self._gathering = False
        self._images.clear()

    def close(self) -> None:
        """Give the device back. Safe to call more than once; never raises for what is already gone."""
        self.stop()
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)
            self._thread = None
        try:
            if self._camera.is_connected:
                self._camera.disconnect()
        except Exception as e:  # a device that is gone can't be closed any better
            logging.getLogger(__name__).debug("closing camera %s: %s", self.name, e)

    def _open(self) -> None:
        logging.getLogger("lerobot").setLevel(logging.ERROR)  # a warning for each late image is no news here
        _hush_readers()
        try:
            # Not LeRobot's own warm-up: where it fails, its ZMQ camera closes the socket under its reading thread, and
            # libzmq aborts the process with the arm under torque.
            self._camera.connect(warmup=False)
            shape = np.shape(self._warmed_up())
        except Exception as e:
            self.close()
            raise HardwareError(
                f"camera {self.name!r} can't be opened: {_first_line(e)}. Check its cable, name and options; "
                "lerobot-find-cameras lists what is there"
            ) from e
        if shape != (self.height, self.width, 3):
            self.close()
            height, width = shape[:2]
            raise HardwareError(
                f"camera {self.name!r} delivers {width}x{height} px; the rig says {self.width}x{self.height}. "
                "Change the rig, or the camera's options"
            )
        self._stop.clear()
        self._thread = threading.Thread(target=self._gather, name=f"camera {self.name}", daemon=True)
        self._thread.start()

    def _warmed_up(self) -> NDArray[np.uint8]:
        """An image after the camera has delivered for its warm-up time: exposure has settled by then."""
        settled_s = time.monotonic() + float(getattr(self._camera.config, "warmup_s", 1.0))
        latest_s = time.monotonic() + OPENING_S
        image = None
        while image is None or time.monotonic() < settled_s:
            try:
                image = self._camera.async_read(timeout_ms=WAIT_MS)
            except TimeoutError:
                if time.monotonic() > latest_s:
                    raise
        return image

    def _gather(self) -> None:
        last_ns = -1
        while not self._stop.is_set():
            try:
                rgb, t_ns = self._next()
                self._failure = None
            except TimeoutError:
                continue
            except Exception as e:
                self._failure = _first_line(e)
                if self._stop.wait(WAIT_MS / 1000):
                    return
                continue
            if t_ns != last_ns and self._gathering:
                rgb.setflags(write=False)
                self._images.append(Image(t_ns, rgb))
            last_ns = self._newest_ns = t_ns

    def _next(self) -> tuple[NDArray[np.uint8], int]:
        """A new image and its capture time, of one piece."""
        camera = self._camera
        rgb = camera.async_read(timeout_ms=WAIT_MS)
        lock = getattr(camera, "frame_lock", None)
        if lock is None or getattr(camera, "latest_timestamp", None) is None:
            return rgb, time.perf_counter_ns()
        with lock:
            newest, stamp_s = camera.latest_frame, camera.latest_timestamp
        if newest is None or stamp_s is None:
            raise TimeoutError
        return newest, round(stamp_s * 1e9)


@functools.cache
def _hush_readers() -> None:
    """No traceback when a reading thread of LeRobot's dies of a camera that is gone: :meth:`drain` tells of it."""
    before = threading.excepthook

    def hook(death: threading.ExceptHookArgs) -> None:
        if death.thread is None or not death.thread.name.endswith(READER):
            before(death)

    threading.excepthook = hook


def known_types() -> dict[str, Any]:
    """LeRobot's camera types by name, each with its configuration class; imports LeRobot's camera packages."""
    import lerobot.cameras
    from lerobot.cameras.configs import CameraConfig as LerobotConfig

    for module in pkgutil.iter_modules(lerobot.cameras.__path__):
        if module.ispkg:
            try:
                importlib.import_module(f"lerobot.cameras.{module.name}")
            except ImportError:  # a maker's library that isn't installed: that type isn't to be had
                continue
    return dict(LerobotConfig.get_known_choices())


def make_camera(name: str, config: CameraConfig) -> Any:
    """LeRobot's camera object, not yet open.

    Raises:
        HardwareError: An unknown type (nearest named), or options that LeRobot refuses.
    """
    from lerobot.cameras.utils import make_cameras_from_configs

    types = known_types()
    if config.type not in types:
        raise HardwareError(f"camera {name!r}: LeRobot has no type {config.type!r}; {nearest(config.type, types)}")
    fps = round(config.fps) if config.fps == round(config.fps) else config.fps
    given: dict[str, Any] = {"width": config.width, "height": config.height, "fps": fps, **config.options}
    try:
        settings = types[config.type](**{k: v for k, v in given.items() if v != "none"})
        return make_cameras_from_configs({name: settings})[name]
    except Exception as e:
        raise HardwareError(f"camera {name!r}: LeRobot's {config.type} refuses its options: {_first_line(e)}") from e


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
