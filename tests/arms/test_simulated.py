import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.arms.simulated import REST_Q, SimulatedArm
from so101walk.errors import SafetyStop
from so101walk.joints import JOINTS, MODEL_RANGE_RAD, TickScale, q_to_rad, rad_to_q
from so101walk.motion import slow_path
from so101walk.rig import CameraConfig, Rig
from so101walk.scene.model import load_model
from so101walk.scene.world import World

CENTER = rad_to_q([0, -0.6, -0.3, 0.3, 0, 0.6])
SCALE = TickScale.of_model()
TICK = np.abs(SCALE.to_units(np.full(6, 2001)) - SCALE.to_units(np.full(6, 2000)))
LOW, HIGH = rad_to_q(MODEL_RANGE_RAD.T)


@pytest.fixture(scope="module")
def arm():
    arm = SimulatedArm(World(Rig("test", cameras={"front": CameraConfig(width=32, height=32)})))
    arm.connect()
    return arm


@pytest.fixture(autouse=True)
def at_center(arm):
    arm.reset(CENTER)


def follow(arm, setpoint, duration_s):
    ticks = []
    arm.follow(setpoint, arm.clock.now_ns(), duration_s, ticks.append)
    return ticks


def still(q):
    return lambda t: q


def sway(t):
    return CENTER + 10 * np.sin(3 * t + np.arange(6))


def min_jerk_step(q0, q1, move_s):
    def setpoint(t):
        s = np.clip(t / move_s, 0, 1)
        return q0 + (q1 - q0) * s**3 * (10 - 15 * s + 6 * s**2)

    return setpoint


def test_ticks_come_at_the_control_rate_to_the_end(arm):
    begin_ns = arm.clock.now_ns()
    ticks = follow(arm, still(CENTER), 0.255)
    assert [t.t_ns - begin_ns for t in ticks] == [k * 10_000_000 for k in range(26)]
    assert all(t.t_before_ns == t.t_after_ns for t in ticks)  # a bus that takes no time


def test_a_start_in_the_future_is_waited_for(arm):
    seen = []
    arm.follow(lambda t: seen.append(t) or CENTER, 500_000_000, 0.02)
    assert seen == [0.0, 0.01, 0.02]


def test_readings_are_whole_ticks_next_to_the_truth(arm):
    true = []
    ticks = []

    def on_tick(tick):
        ticks.append(tick)
        true.append(arm._world.joints())

    arm.follow(sway, arm.clock.now_ns(), 1.0, on_tick)
    q = np.array([t.q for t in ticks])
    np.testing.assert_array_equal(SCALE.to_units(np.array([t.ticks for t in ticks])), q)
    errors = (q - np.array(true)) / TICK
    assert np.abs(errors).max() <= 0.5 + 1e-6
    assert np.abs(errors.mean(axis=0)).max() < 0.12  # rounded, not cut: 0.29 / sqrt(101) is 0.03


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_sent_is_the_request_through_the_servos_ticks(arm, share):
    q = LOW + np.array(share) * (HIGH - LOW)
    tick = follow(arm, still(q), 0.0)[0]
    np.testing.assert_array_equal(tick.request, q)
    np.testing.assert_array_equal(tick.sent, SCALE.to_units(SCALE.to_ticks(q)))
    assert np.all(np.abs(tick.sent - q) <= TICK * (1 + 1e-9))
    np.testing.assert_allclose(arm._world.data.ctrl, q_to_rad(tick.sent))


def test_only_load_is_read_beside_the_joints(arm):
    ticks = follow(arm, sway, 0.5)
    assert all(set(t.extra) == {"load"} for t in ticks)
    load = np.array([t.extra["load"] for t in ticks])
    assert load.shape == (51, 6)
    assert np.abs(load).max() <= 100
    assert np.abs(load[:, 1]).max() > 5


@pytest.mark.parametrize("joint", range(6))
@pytest.mark.parametrize("bad", [np.nan, np.inf, "above", "below"])
def test_what_cannot_be_sent_stops_the_arm_and_names_the_joint(arm, joint, bad):
    wrong = CENTER.copy()
    wrong[joint] = {"above": HIGH[joint] + 1, "below": LOW[joint] - 1}.get(bad, bad)
    goal = arm._world.data.ctrl.copy()
    seen = []
    with pytest.raises(SafetyStop, match=JOINTS[joint]) as e:
        arm.follow(lambda t: wrong if t > 0.045 else CENTER, arm.clock.now_ns(), 1.0, seen.append)
    assert len(seen) == 5
    assert "0.05 s" in str(e.value)
    assert "\n" not in str(e.value)
    np.testing.assert_allclose(arm._world.data.ctrl, goal, atol=2e-3)
    assert np.isfinite(arm._world.data.qpos).all()


def test_the_ends_of_the_range_can_be_sent(arm):
    for end in (LOW, HIGH):
        follow(arm, still(end), 0.0)


def test_a_stop_from_the_watcher_ends_the_loop(arm):
    class Enough(Exception):
        pass

    def on_tick(tick):
        if tick.t_ns >= 100_000_000:
            raise Enough

    with pytest.raises(Enough):
        arm.follow(sway, 0, 10.0, on_tick)
    assert arm.clock.now_ns() == 100_000_000


@pytest.mark.parametrize("joint", range(6))
@pytest.mark.parametrize("sign", [-1, 1])
def test_servos_lag_behind_a_move_and_settle_after_it(arm, joint, sign):
    goal = CENTER.copy()
    goal[joint] += sign * 20
    ticks = follow(arm, min_jerk_step(CENTER, goal, 0.4), 0.5)
    t = np.array([k.t_ns for k in ticks]) / 1e9
    request, q = np.array([k.request for k in ticks])[:, joint], np.array([k.q for k in ticks])[:, joint]
    halfway = CENTER[joint] + sign * 10
    crossings = [np.interp(10, sign * (x - CENTER[joint]), t) for x in (request, q)]
    assert 0.003 < crossings[1] - crossings[0] < 0.05
    assert halfway == pytest.approx(np.interp(crossings[0], t, request))
    assert np.abs(q[-1] - goal[joint]) < 0.25  # a degree is what the walk can bear
    assert np.abs(q - request).max() > 0.3  # action is not state


def test_the_rest_pose_touches_nothing():
    model = load_model(visuals=False)
    data = mujoco.MjData(model)
    data.qpos[:] = q_to_rad(REST_Q)
    mujoco.mj_forward(model, data)
    assert data.ncon == 0


def test_rest_folds_the_arm_and_lets_go_of_it(arm):
    begin_ns = arm.clock.now_ns()
    arm.rest()
    np.testing.assert_allclose(arm.present(), REST_Q, atol=0.3)
    assert arm.clock.now_ns() - begin_ns > 2e9  # slowly
    arm.clock.sleep_until(arm.clock.now_ns() + 3_000_000_000)
    dropped = np.abs(arm.present() - REST_Q)
    assert 1.0 < dropped.max() < 6.0
    arm.rest()
    np.testing.assert_allclose(arm.clock.now_ns(), begin_ns, atol=60e9)


def test_the_way_to_rest_keeps_the_speed_limits(arm):
    seen = []
    command = arm._world.command
    arm._world.command = lambda q: (seen.append(q), command(q))
    try:
        arm.rest()
    finally:
        del arm._world.command
    speed = np.abs(np.diff(np.array(seen[1:]), axis=0)) * 100
    assert np.all(speed.max(axis=0) <= 0.25 * arm._world.rig.limits.velocity() + 2 * TICK * 100)


def test_after_rest_the_arm_can_walk_again(arm):
    arm.rest()
    path = slow_path(arm.present(), CENTER, arm._world.rig.limits)
    arm.follow(path.at, arm.clock.now_ns(), path.duration_s + 0.1)
    np.testing.assert_allclose(arm.present(), CENTER, atol=0.3)


def test_an_episode_does_not_depend_on_the_one_before(arm):
    def episode():
        arm.prepare()
        assert arm.clock.now_ns() == 0
        return [t.q.tobytes() + t.extra["load"].tobytes() for t in follow(arm, sway, 0.5)]

    first = episode()
    follow(arm, still(CENTER), 0.37)
    arm.rest()
    assert episode() == first


def test_prepare_holds_the_rest_pose(arm):
    arm.prepare()
    np.testing.assert_allclose(arm.present(), REST_Q, atol=0.15)


def test_close_comes_twice_and_rest_after_it_does_nothing():
    arm = SimulatedArm(World(Rig("test", cameras={"front": CameraConfig(width=32, height=32)})))
    arm.connect()
    arm.close()
    arm.close()
    before = arm.clock.now_ns()
    arm.rest()
    assert arm.clock.now_ns() == before
