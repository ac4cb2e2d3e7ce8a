"""FrameGrid: nearest image, each used once unless none came, joints interpolated at the capture, nothing filled in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.arms.arm import Tick
from so101walk.cameras.camera import Image
from so101walk.errors import HardwareError
from so101walk.sync import FrameGrid, SyncedFrame

MS = 1_000_000
PERIOD_MS = 1000 / 30


def joints_at(t_ns: float) -> np.ndarray:
    """A motion whose joints are linear in time, so that interpolation is exact."""
    return np.arange(1, 7) * t_ns / 1e9


def tick(t_ns: int, q: np.ndarray | None = None) -> Tick:
    measured = joints_at(t_ns) if q is None else q
    return Tick(t_ns, t_ns, measured, np.zeros(6, np.int64), joints_at(t_ns) + 1, joints_at(t_ns) + 2, {})


def image(t_ms: float, serial: int = 0) -> Image:
    return Image(round(t_ms * MS), np.full((2, 2, 3), serial % 256, np.uint8))


def run(images: dict[str, list[Image]], frames: int, ticks: list[Tick] | None = None, **latency) -> list[SyncedFrame]:
    grid = FrameGrid(30, list(images), start_ns=100 * MS, frames=frames, **latency)
    out: list[SyncedFrame] = []
    waiting = {c: list(i) for c, i in images.items()}
    for t in ticks or [tick(t_ms * MS) for t_ms in range(0, round(200 + PERIOD_MS * (frames + 3)), 10)]:
        grid.add_tick(t)
        for c, queue in waiting.items():
            come = [i for i in queue if i.t_ns <= t.t_ns]
            grid.add_images(c, come)
            waiting[c] = queue[len(come) :]
        out += list(grid.ready(t.t_ns))
    assert grid.done == (len(out) == frames)
    return out


def steady(frames: int, offset_ms: float = 0.0, period_ms: float = PERIOD_MS) -> list[Image]:
    return [image(100 + offset_ms + k * period_ms, k) for k in range(-3, frames + 4)]


def test_a_steady_camera_gives_each_frame_its_own_image() -> None:
    frames = run({"front": steady(20, 5.0), "wrist": steady(20, -7.0)}, 20)
    assert [f.index for f in frames] == list(range(20))
    for f in frames:
        assert abs(f.capture_ns["front"] - 5 * MS) < 2
        assert abs(f.capture_ns["wrist"] + 7 * MS) < 2
        assert not f.repeated
        assert f.images["front"][0, 0, 0] == f.index
    assert frames[0].wall_ns == 0
    assert frames[19].wall_ns == pytest.approx(19 * PERIOD_MS * MS, abs=2)


def test_joints_are_those_at_the_first_cameras_capture() -> None:
    for f in run({"front": steady(10, 4.2), "wrist": steady(10, -3.0)}, 10):
        t_ns = 100 * MS + f.index * PERIOD_MS * MS + f.capture_ns["front"]
        np.testing.assert_allclose(f.state, joints_at(t_ns), atol=1e-6)
        assert f.state_gap_ns == 10 * MS
        later = f.sent[0] - 2 - t_ns / 1e9
        assert -1e-6 <= later < 0.0101, "sent is the first setpoint at or after the frame"


def test_latencies_are_taken_off() -> None:
    late = [Image(i.t_ns + 100 * MS, i.rgb) for i in steady(20)]
    frames = run({"front": late}, 20, camera_latency_ns={"front": 100 * MS}, bus_latency_ns=2 * MS)
    for f in frames:
        assert abs(f.capture_ns["front"]) < 2
        assert f.images["front"][0, 0, 0] == f.index
        t_ns = 100 * MS + f.index * PERIOD_MS * MS
        np.testing.assert_allclose(f.state, joints_at(t_ns + 2 * MS), atol=1e-6)


def test_a_missing_image_is_a_marked_repeat_and_no_new_one_is_passed_over() -> None:
    images = [i for k, i in enumerate(steady(20)) if k - 3 not in (7, 8)]
    frames = run({"front": images}, 20)
    assert [f.index for f in frames if f.repeated] == [7, 8]
    assert frames[8].images["front"][0, 0, 0] == 6
    assert frames[9].images["front"][0, 0, 0] == 9


@pytest.mark.parametrize("fps", [29.5, 30.5])
def test_a_camera_off_its_rate_repeats_or_skips_only_what_it_must(fps: float) -> None:
    n = 300
    images = [image(100 + k * 1000 / fps, k) for k in range(-3, 400)]
    frames = run({"front": images}, n)
    repeats = sum(bool(f.repeated) for f in frames)
    assert repeats == (5 if fps < 30 else 0)
    assert max(abs(f.capture_ns["front"]) for f in frames) <= 0.75 * PERIOD_MS * MS
    fresh = [f for f in frames if not f.repeated]
    used = [f.capture_ns["front"] + round(f.index * PERIOD_MS * MS) for f in fresh]
    assert len(set(used)) == len(used)


def test_an_unreadable_tick_widens_the_bracket_and_is_counted() -> None:
    bad = np.array([0, 0, np.nan, 0, 0, 0.0])
    ticks = [tick(t * MS, bad if t in (160, 170) else None) for t in range(0, 400, 10)]
    grid_frames = run({"front": steady(5)}, 5, ticks)
    assert grid_frames[2].state_gap_ns == 30 * MS
    assert np.isfinite(grid_frames[2].state).all()
    np.testing.assert_allclose(grid_frames[2].state, joints_at(100 * MS + 2 * PERIOD_MS * MS), atol=1e-6)


def test_a_camera_that_never_delivers_is_named() -> None:
    with pytest.raises(HardwareError, match="'wrist'"):
        run({"front": steady(5), "wrist": []}, 5)


@given(st.lists(st.floats(-12.0, 12.0), min_size=47, max_size=47), st.floats(-16.0, 16.0))
@settings(max_examples=50, deadline=None)
def test_under_any_jitter_no_image_serves_twice_unmarked(jitter_ms: list[float], offset_ms: float) -> None:
    images = sorted(
        (image(100 + offset_ms + k * PERIOD_MS + jitter_ms[k + 3], k) for k in range(-3, 44)), key=lambda i: i.t_ns
    )
    frames = run({"front": images}, 40)
    assert len(frames) == 40
    used = [round(f.index * PERIOD_MS * MS) + f.capture_ns["front"] for f in frames if not f.repeated]
    assert len(set(used)) == len(used)
    assert used == sorted(used)
