"""Sends messages at their time: a thread that owns the cameras' sockets."""

import heapq
import threading
import time
from collections.abc import Callable

__all__ = ["Outbox"]


class Outbox:
    """A queue of messages, each sent at its due time [ns of ``time.perf_counter_ns``] by one thread.

    Args:
        send: Sends one message: (channel, payload). Only ever called from the thread.
        sent: Told of each message after it went: (channel, tag, time in ns).
    """

    def __init__(self, send: Callable[[str, bytes], None], sent: Callable[[str, tuple[int, ...], int], None]) -> None:
        self._send, self._sent = send, sent
        self._queue: list[tuple[int, int, str, bytes, tuple[int, ...]]] = []
        self._count = 0
        self._closed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, due_ns: int, channel: str, payload: bytes, tag: tuple[int, ...]) -> None:
        """Queue a message; messages with the same due time go in the order of their coming."""
        with self._wake:
            self._count += 1
            heapq.heappush(self._queue, (due_ns, self._count, channel, payload, tag))
            self._wake.notify()

    def close(self) -> None:
        """End the thread; what isn't due yet is never sent."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._closed:
                    left_s = (self._queue[0][0] - time.perf_counter_ns()) / 1e9 if self._queue else None
                    if left_s is not None and left_s <= 0:
                        break
                    self._wake.wait(left_s)
                if self._closed:
                    return
                _, _, channel, payload, tag = heapq.heappop(self._queue)
            self._send(channel, payload)
            self._sent(channel, tag, time.perf_counter_ns())
