"""LeRobot's cameras behind our protocol: here its OpenCV camera, reading a stream that a small server sends."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import cv2
import numpy as np
import pytest

from so101walk.cameras.lerobot import LerobotCamera, _hush_readers, make_camera
from so101walk.errors import HardwareError
from so101walk.rig import CameraConfig
from so101walk.safety.stops import EpisodeStop

WIDTH, HEIGHT, FPS = 96, 72, 25.0


class Webcam:
    """An MJPEG stream over HTTP whose images have their serial number as brightness, eight levels a number."""

    def __init__(self) -> None:
        self.on = True
        webcam = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=image")
                self.end_headers()
                serial = 0
                while webcam.on:
                    flat = np.full((HEIGHT, WIDTH, 3), serial * 8 % 256, np.uint8)
                    jpeg = cv2.imencode(".jpg", flat)[1].tobytes()
                    try:
                        self.wfile.write(b"--image\r\nContent-Type: image/jpeg\r\n")
                        self.wfile.write(b"Content-Length: %d\r\n\r\n%s\r\n" % (len(jpeg), jpeg))
                    except OSError:
                        return
                    serial += 1
                    time.sleep(1 / FPS)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/stream.mjpg"

    def close(self) -> None:
        self.on = False
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def webcam() -> Iterator[Webcam]:
    made = Webcam()
    yield made
    made.close()


def config(webcam: Webcam, width: int = WIDTH) -> CameraConfig:
    """As docs/first-walk.md says for a stream: it opens only without size and rate."""
    options = {"index_or_path": webcam.url, "width": "none", "height": "none", "fps": "none", "warmup_s": 0}
    return CameraConfig("opencv", width, HEIGHT, FPS, options=options)


def gathered(camera: LerobotCamera, count: int) -> list[Any]:
    images: list[Any] = []
    until = time.monotonic() + 20
    while len(images) < count and time.monotonic() < until:
        images += camera.drain()
        time.sleep(0.01)
    return images


def test_each_image_comes_once_in_order_with_its_time(webcam: Webcam) -> None:
    camera = LerobotCamera("front", config(webcam))
    try:
        camera.start()
        images = gathered(camera, 20)
    finally:
        camera.close()
        camera.close()
    assert len(images) >= 20
    times = np.array([image.t_ns for image in images])
    assert (np.diff(times) > 0).all()
    assert abs(times[-1] - time.perf_counter_ns()) < 10e9
    serials = np.array([round(float(image.rgb.mean()) / 8) for image in images])
    steps = np.diff(serials) % 32
    assert (steps >= 1).all(), "no image twice"
    assert np.median(steps) == 1
    assert images[0].rgb.shape == (HEIGHT, WIDTH, 3)
    assert not images[0].rgb.flags.writeable


def test_a_stream_that_ends_is_told_without_a_traceback(webcam: Webcam, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    _hush_readers.cache_clear()
    camera = LerobotCamera("front", config(webcam), silence_s=1.0)
    try:
        camera.start()
        assert gathered(camera, 3)
        webcam.on = False
        with pytest.raises(EpisodeStop, match=r"camera 'front' delivered no image for 1 s.*likely unplugged"):
            gathered(camera, 1000)
        assert camera.silent
        died = threading.Thread(target=lambda: 1 / 0, name="another")
        died.start()
        died.join()
    finally:
        camera.close()
    assert len(shown) == 1, "other threads' deaths are told as ever"


def test_another_size_and_a_dead_address_are_refused(webcam: Webcam) -> None:
    wrong = LerobotCamera("front", config(webcam, width=128))
    with pytest.raises(HardwareError, match=r"delivers 96x72 px; the rig says 128x72"):
        wrong.start()
    webcam.close()
    gone = LerobotCamera("front", config(webcam))
    with pytest.raises(HardwareError, match=r"camera 'front' can't be opened.*lerobot-find-cameras"):
        gone.start()


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("opencvv", {}, r"LeRobot has no type 'opencvv'.*opencv"),
        ("opencv", {"index_or_path": 0, "colour": "rgb"}, r"LeRobot's opencv refuses its options.*colour"),
    ],
)
def test_what_lerobot_does_not_know_is_refused(kind: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(HardwareError, match=words):
        make_camera("front", CameraConfig(kind, WIDTH, HEIGHT, FPS, options=options))
