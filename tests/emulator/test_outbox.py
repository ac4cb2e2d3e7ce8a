"""Messages go at their time, in order."""

import threading
import time

from so101walk.emulator.outbox import Outbox


def test_order_by_due_time_and_never_early():
    got, done = [], threading.Event()

    def sent(channel, tag, now_ns):
        got.append((channel, tag, now_ns))
        if len(got) == 3:
            done.set()

    payloads = []
    outbox = Outbox(lambda channel, payload: payloads.append(payload), sent)
    start = time.perf_counter_ns()
    outbox.put(start + 60_000_000, "a", b"late", (start + 60_000_000,))
    outbox.put(start + 20_000_000, "b", b"first", (start + 20_000_000,))
    outbox.put(start + 20_000_000, "b", b"second", (start + 20_000_000,))
    assert done.wait(10)
    outbox.close()
    assert payloads == [b"first", b"second", b"late"]
    assert all(now >= tag[0] for _, tag, now in got)


def test_closing_drops_what_isnt_due():
    payloads = []
    outbox = Outbox(lambda _, payload: payloads.append(payload), lambda *_: None)
    outbox.put(time.perf_counter_ns() + 10**12, "a", b"never", ())
    outbox.close()
    assert payloads == []
