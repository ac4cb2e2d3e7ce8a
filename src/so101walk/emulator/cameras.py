"""The cameras' process: renders the shared pose and streams JPEGs over ZMQ, in the form of LeRobot's ``ZMQCamera``.

A message is a JSON object ``{"timestamps": {name: s}, "images": {name: base64 JPEG}}``; one port a camera, because
``ZMQCamera`` takes the first image when its camera's name is missing.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import strip
from .faults import Fault
from .outbox import Outbox
from .pose import SharedPose
from .precedence import go_first
from .stream import Stream, message

__all__ = ["CamerasConfig", "run_cameras"]

PRIORITY = 1
"""After the servos, before the programs that look."""

IDLE_S = 0.2
"""How often the images' log rows are sent on."""


@dataclass(frozen=True)
class CamerasConfig:
    """What the cameras' process is to be.

    Attributes:
        ports: Camera name to TCP port.
        width: Image width [px].
        height: Image height [px].
        fps: Images a second.
        latency_ms: How much later than it could be an image is published.
        host: Address that the ports are bound at.
    """

    ports: dict[str, int]
    width: int = 320
    height: int = 240
    fps: float = 30.0
    latency_ms: float = 0.0
    host: str = "127.0.0.1"


class _Publisher:
    """ZMQ sockets, one a camera; log rows of what went out."""

    def __init__(self, config: CamerasConfig) -> None:
        import zmq

        from ..errors import UsageError

        self._context = zmq.Context()
        self._sockets: dict[str, Any] = {}
        self._rows: dict[str, list[tuple[int, ...]]] = {name: [] for name in config.ports}
        self._lock = threading.Lock()
        for name, port in config.ports.items():
            socket = self._context.socket(zmq.PUB)
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, 4)  # a reader that can't keep up loses images, never gains delay
            self._sockets[name] = socket
            try:
                socket.bind(f"tcp://{config.host}:{port}")
            except zmq.ZMQError as e:
                self.close()
                raise UsageError(f"camera {name}: port {port} can't be used ({e}); give --camera another") from e

    def send(self, name: str, payload: bytes) -> None:
        """Publish one message; called from the outbox's thread only."""
        self._sockets[name].send(payload)

    def sent(self, name: str, tag: tuple[int, ...], now_ns: int) -> None:
        """Keep the log row of an image: serial, true time, when it went, whether it is a repeat."""
        serial, t_ns, repeated = tag
        with self._lock:
            self._rows[name].append((serial, t_ns, now_ns, repeated))

    def take_rows(self) -> dict[str, NDArray[np.int64]]:
        """Log rows since the last call, of the cameras that have any."""
        with self._lock:
            taken, self._rows = self._rows, {name: [] for name in self._rows}
        return {name: np.array(rows, np.int64) for name, rows in taken.items() if rows}

    def close(self) -> None:
        """Close the sockets; what isn't sent is dropped."""
        for socket in self._sockets.values():
            socket.close()
        self._context.term()


def _renderer(config: CamerasConfig) -> Callable[[str, NDArray[np.float64]], NDArray[np.uint8]]:
    """A function from a camera's name and joint angles [rad] to an image that may be drawn into."""
    from .picture import Pictures

    return Pictures(tuple(config.ports), config.width, config.height).of


def run_cameras(config: CamerasConfig, control: Connection, faults: Connection, pose: SharedPose) -> None:
    """Be the cameras until told to stop; the process's entry. Sends ``("ready",)`` once images can be had.

    A failure to start is sent as ``("failed", message)``; log rows as ``("images", camera, rows)``.
    """
    import signal
    import sys

    from ..errors import So101WalkError

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stage decides; Ctrl-C reaches the whole group
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    go_first(PRIORITY)
    try:
        publisher = _Publisher(config)
        picture = _renderer(config)
        for name in config.ports:
            picture(name, pose.read().rad)  # the first one compiles shaders
    except So101WalkError as e:
        control.send(("failed", str(e)))
        return
    control.send(("ready",))
    outbox = Outbox(publisher.send, publisher.sent)
    start_ns = time.perf_counter_ns()
    streams = {name: Stream(name, config.fps, start_ns) for name in config.ports}
    try:
        _serve(config, streams, picture, outbox, publisher, control, faults, pose)
    finally:
        outbox.close()
        try:
            _send_rows(publisher, control)
            control.send(("gone",))
        except OSError:
            pass
        publisher.close()


def _serve(
    config: CamerasConfig,
    streams: dict[str, Stream],
    picture: Callable[[str, NDArray[np.float64]], NDArray[np.uint8]],
    outbox: Outbox,
    publisher: _Publisher,
    control: Connection,
    faults: Connection,
    pose: SharedPose,
) -> None:
    rows_due_ns = time.perf_counter_ns()
    sources = [control, faults]
    while True:
        now_ns = time.perf_counter_ns()
        for stream in streams.values():
            if stream.due_ns <= now_ns:
                _serve_one(stream, config, picture, outbox, pose)
        if now_ns >= rows_due_ns:
            rows_due_ns = now_ns + round(IDLE_S * 1e9)
            _send_rows(publisher, control)
        left_s = (min(s.due_ns for s in streams.values()) - time.perf_counter_ns()) / 1e9
        for source in wait(sources, max(0.0, min(left_s, IDLE_S))):
            assert isinstance(source, Connection)
            try:
                order = source.recv()
            except (EOFError, OSError):
                if source is control:
                    return
                sources.remove(source)  # the arm is gone; the stage will say stop
                continue
            if order == ("stop",):
                return
            if isinstance(order, Fault) and order.camera in streams:
                streams[order.camera].strike(order, time.perf_counter_ns())


def _serve_one(
    stream: Stream,
    config: CamerasConfig,
    picture: Callable[[str, NDArray[np.float64]], NDArray[np.uint8]],
    outbox: Outbox,
    pose: SharedPose,
) -> None:
    what = stream.next(time.perf_counter_ns())
    if what == "skip":
        return
    if what == "render":
        wall_s = time.time()
        now = pose.read()
        rgb = picture(stream.name, now.rad)
        stream.serial += 1
        strip.draw(rgb, stream.serial)
        stream.payload, stream.t_ns = message(stream.name, rgb, wall_s), now.t_ns
    assert stream.payload is not None
    due_ns = time.perf_counter_ns() + round(config.latency_ms * 1e6)
    outbox.put(due_ns, stream.name, stream.payload, (stream.serial, stream.t_ns, int(what == "repeat")))


def _send_rows(publisher: _Publisher, control: Connection) -> None:
    for name, rows in publisher.take_rows().items():
        control.send(("images", name, rows))
