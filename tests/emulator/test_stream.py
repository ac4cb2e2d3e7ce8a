"""A camera's timetable under faults, and its messages as LeRobot reads them."""

import base64
import json

import cv2
import numpy as np
import pytest

from so101walk.emulator.faults import Fault
from so101walk.emulator.stream import Stream, message

MS = 1_000_000


def run(stream, seconds, hold_ms=0):
    """What becomes of each image, by its time in ms, on a clock that wakes exactly when an image is due."""
    out = []
    while stream.due_ns < seconds * 1e9:
        now = stream.due_ns + hold_ms * MS
        what = stream.next(now)
        if what == "render":
            stream.serial += 1
            stream.payload = b"%d" % stream.serial
        out.append((now // MS, what))
    return out


def test_thirty_a_second():
    assert len(run(Stream("front", 30.0, 0), 10)) == pytest.approx(300, abs=1)


def test_held_up_it_leaves_images_out_and_keeps_its_grid():
    stream = Stream("front", 50.0, 0)
    assert stream.next(95 * MS) == "render"
    assert stream.due_ns == 100 * MS


def test_freeze_repeats_for_its_count():
    stream = Stream("front", 30.0, 0)
    run(stream, 0.5)
    stream.strike(Fault("freeze_camera", at_s=0.0, camera="front", count=20), stream.due_ns)
    kinds = [what for _, what in run(stream, 2.5)]
    assert kinds[:20] == ["repeat"] * 20
    assert set(kinds[20:]) == {"render"}


def test_drop_for_a_time_and_for_ever():
    stream = Stream("front", 10.0, 0)
    stream.strike(Fault("drop_camera", at_s=0.0, camera="front", duration_s=1.0), 0)
    kinds = run(stream, 3)
    assert {what for t, what in kinds if t < 1000} == {"skip"}
    assert {what for t, what in kinds if t >= 1000} == {"render"}
    stream.strike(Fault("drop_camera", at_s=0.0, camera="front"), stream.due_ns)
    assert {what for _, what in run(stream, 20)} == {"skip"}


def test_slow_delivers_the_other_rate_for_its_time():
    stream = Stream("front", 30.0, 0)
    stream.strike(Fault("slow_camera", at_s=0.0, camera="front", fps=18.0, duration_s=10.0), 0)
    times = [t for t, _ in run(stream, 20)]
    assert sum(t < 10_000 for t in times) == pytest.approx(180, abs=2)
    assert sum(t >= 10_000 for t in times) == pytest.approx(300, abs=2)


def test_message_is_read_by_lerobot_as_rgb():
    rgb = np.zeros((48, 64, 3), np.uint8)
    rgb[..., 0] = 200  # red
    table = json.loads(message("front", rgb, 12.5))
    assert table["timestamps"] == {"front": 12.5}
    jpeg = np.frombuffer(base64.b64decode(table["images"]["front"]), np.uint8)
    seen = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)  # what ZMQCamera hands out, as it is
    assert seen[..., 0].mean() > 180
    assert seen[..., 2].mean() < 20
