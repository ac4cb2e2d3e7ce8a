import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.errors import UsageError
from so101walk.joints import GRIPPER, N
from so101walk.motion import PEAK_ACCELERATION, PEAK_SPEED, min_jerk, move_time_s, plan_path, slow_path
from so101walk.rig import LimitsConfig

LIMITS = LimitsConfig()

poses = st.lists(
    st.lists(st.floats(-150.0, 150.0, allow_nan=False), min_size=N, max_size=N), min_size=2, max_size=5
).map(np.array)
limits = st.builds(LimitsConfig, st.floats(5.0, 400.0), st.floats(20.0, 3000.0))


def test_min_jerk_peaks_are_the_stated_ones():
    s = np.linspace(0.0, 1.0, 200_001)
    m = min_jerk(s)
    speed = np.gradient(m, s)
    assert speed.max() == pytest.approx(PEAK_SPEED, rel=1e-6)
    assert np.abs(np.gradient(speed, s)[2:-2]).max() == pytest.approx(PEAK_ACCELERATION, rel=1e-4)
    assert (m[0], m[-1]) == (0.0, 1.0)
    assert speed[0] == pytest.approx(0.0, abs=1e-8)


def test_min_jerk_is_clamped_outside():
    assert min_jerk([-3.0, 0.0, 0.5, 1.0, 7.0]).tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]


@settings(max_examples=60, deadline=None)
@given(poses, limits, st.sampled_from([1, 10, 25, 30, 60]), st.integers(1, 30), st.data())
def test_limits_are_never_passed_and_arrivals_are_frames(q, limits, fps, frames_per_step, data):
    settle = data.draw(st.integers(0, frames_per_step - 1))
    path = plan_path(q, fps, frames_per_step, settle, limits)

    for k in range(len(q) - 1):
        t = path.start_s[k] + np.linspace(0.0, path.move_s[k], 2001)
        x = path.at(t)
        h = path.move_s[k] / 2000
        speed = np.diff(x, axis=0) / h
        acceleration = np.diff(x, n=2, axis=0) / h**2
        rounding = 1e-13 * np.abs(q).max()
        assert (np.abs(speed) <= limits.velocity() * (1 + 1e-6) + rounding / h).all()
        assert (np.abs(acceleration) <= limits.acceleration() * (1 + 1e-6) + 4 * rounding / h**2).all()
        toward = np.sign(q[k + 1] - q[k])
        assert (speed * toward >= -rounding / h).all()

    assert path.arrivals.dtype == np.int64
    assert path.arrivals[0] == 0
    assert (np.diff(path.arrivals) == frames_per_step + path.stretched).all()
    for waypoint, frame in zip(q, path.arrivals, strict=True):
        held = np.arange(max(frame - settle, 0), frame + 1) / fps
        assert (path.at(held) == waypoint).all()
    assert path.duration_s == path.arrivals[-1] / fps


@settings(max_examples=60, deadline=None)
@given(poses, limits)
def test_no_step_takes_a_frame_more_than_it_needs(q, limits):
    path = plan_path(q, 30, 15, 3, limits)
    for dq, extra in zip(np.diff(q, axis=0), path.stretched, strict=True):
        needed_s = move_time_s(dq, limits)
        assert (12 + extra) / 30 >= needed_s - 1e-9
        if extra:
            assert (12 + extra - 1) / 30 < needed_s


def test_the_move_time_is_that_of_the_tighter_limit():
    fast_turn = np.eye(N)[0] * 90.0
    assert move_time_s(fast_turn, LimitsConfig(120, 6000)) == pytest.approx(PEAK_SPEED * 90 / 120)
    assert move_time_s(fast_turn, LimitsConfig(1200, 600)) == pytest.approx(np.sqrt(PEAK_ACCELERATION * 90 / 600))
    gripper = np.eye(N)[GRIPPER] * 50.0  # half its range is 55 degrees of the servo, to 0.1 %
    assert move_time_s(gripper, LimitsConfig(120, 6000)) == pytest.approx(PEAK_SPEED * 55.0 / 120, rel=2e-3)


def test_a_dwell_takes_one_step_and_holds_still():
    q = np.tile(np.arange(6.0), (3, 1))
    path = plan_path(q, 30, 15, 3, LIMITS)
    assert path.arrivals.tolist() == [0, 15, 30]
    assert path.stretched.tolist() == [0, 0]
    assert (path.at(np.linspace(0, 1, 101)) == q[0]).all()


def test_at_takes_any_shape_and_holds_the_ends():
    q = np.array([np.zeros(6), np.full(6, 5.0)])
    path = plan_path(q, 30, 15, 3, LIMITS)
    assert path.at(0.1).shape == (6,)
    assert path.at(np.zeros((2, 3))).shape == (2, 3, 6)
    assert path.at(np.zeros(0)).shape == (0, 6)
    assert (path.at([-1.0, 9.0]) == q).all()
    one = plan_path(q[:1], 30, 15, 3, LIMITS)
    assert one.duration_s == 0.0
    assert (one.at([0.0, 1.0]) == 0.0).all()


def test_a_path_is_read_only():
    path = plan_path(np.zeros((2, 6)), 30, 15, 3, LIMITS)
    with pytest.raises(ValueError):
        path.q[0, 0] = 1.0


def test_a_slow_path_keeps_a_share_of_the_limits_and_ends_exactly():
    q0, q1 = np.array([0.0, -90, 60, 10, -120, 5]), np.array([30.0, 20, -60, 10, 140, 90])
    path = slow_path(q0, q1, LIMITS, 0.25)
    t = np.linspace(0, path.duration_s, 20_001)
    speed = np.abs(np.diff(path.at(t), axis=0)) / (t[1] - t[0])
    share = speed.max(axis=0) / LIMITS.velocity()
    assert share.max() <= 0.25 + 1e-6
    assert path.duration_s == pytest.approx(move_time_s(q1 - q0, LIMITS, 0.25))
    assert (path.at([0.0, path.duration_s]) == [q0, q1]).all()
    assert len(path.arrivals) == 0
    still = slow_path(q0, q0, LIMITS)
    assert (still.at([0.0, 1.0]) == q0).all()


@pytest.mark.parametrize(
    ("waypoints", "frames", "settle", "words"),
    [
        (np.zeros((0, 6)), 15, 3, r"shape \(0, 6\)"),
        (np.zeros((3, 5)), 15, 3, r"shape \(3, 5\)"),
        ([[0, 0, np.nan, 0, 0, 0]], 15, 3, "waypoint 0 asks elbow_flex for nan"),
        (np.zeros((2, 6)), 5, 5, "leaves no frame to move in"),
        (np.zeros((2, 6)), 5, -1, "settle_frames must be 0 to"),
    ],
)
def test_what_cannot_be_a_path_is_refused(waypoints, frames, settle, words):
    with pytest.raises(UsageError, match=words):
        plan_path(waypoints, 30, frames, settle, LIMITS)


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.5, float("nan")])
def test_a_slow_factor_out_of_range_is_refused(factor):
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        slow_path(np.zeros(6), np.ones(6), LIMITS, factor)


def test_a_slow_path_to_nowhere_is_refused():
    with pytest.raises(UsageError, match="finite joints"):
        slow_path(np.zeros(6), np.full(6, np.inf), LIMITS)


def test_one_moment_is_the_same_as_many() -> None:
    q = np.random.default_rng(2).normal(0.0, 20.0, (12, 6))
    path = plan_path(q, 30, 15, 3, LimitsConfig())
    moments = np.concatenate([np.linspace(-0.5, path.duration_s + 0.5, 500), path.start_s, path.arrivals / 30])
    np.testing.assert_allclose([path.at(float(t)) for t in moments], path.at(moments), rtol=0, atol=1e-12)
    alone = plan_path(q[:1], 30, 15, 3, LimitsConfig())
    np.testing.assert_array_equal(alone.at(0.7), q[0])
    for k, frame in enumerate(path.arrivals):
        np.testing.assert_array_equal(path.at(float(frame / 30)), q[k])
