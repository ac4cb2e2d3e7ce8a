import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.errors import ConfigError
from so101walk.joints import q_to_rad, rad_to_q
from so101walk.rig import ArmConfig, CameraConfig, Rig
from so101walk.scene import world as scene_world
from so101walk.scene.world import World

HOLD = rad_to_q([0, -0.6, -0.3, 0.3, 0, 0.6])
REACH = rad_to_q([0, 0.9, -0.9, 0, 0, 0.6])
SMALL = {"front": CameraConfig(width=64, height=64), "wrist": CameraConfig(width=48, height=32, fps=27)}
RIG = Rig("test", cameras=SMALL)


@pytest.fixture(scope="module")
def world():
    w = World(RIG)
    yield w
    w.close()


class PaintedRenderer:
    """Draws nothing; counts what it was asked for."""

    def __init__(self, model, cameras):
        self.asked = []

    def render(self, data, name):
        self.asked.append((name, data.time))
        return np.zeros((2, 2, 3), np.uint8)

    def close(self):
        pass


@pytest.fixture(scope="module")
def painted():
    w = World(RIG)
    w._renderer = PaintedRenderer(w.model, RIG.cameras)
    return w


def run(world, seconds):
    world.clock.sleep_until(world.clock.now_ns() + round(seconds * 1e9))


def state(world):
    return world.data.qpos.tobytes() + world.data.qvel.tobytes() + world.data.actuator_force.tobytes()


def test_a_reset_puts_the_arm_at_rest_at_time_zero(world):
    world.reset(HOLD)
    assert world.clock.now_ns() == 0
    assert world.data.time == 0
    assert np.abs(world.data.qvel).max() < 1e-5
    start = world.joints()
    assert np.abs(start - HOLD).max() < 0.1
    run(world, 2.0)
    assert np.abs(world.joints() - start).max() < 1e-3


def test_the_arm_sags_under_its_weight(world):
    world.reset(REACH)
    sag = world.joints() - REACH
    assert 0.02 < sag[1] < 1.0  # shoulder_lift forwards, down
    assert 0.005 < sag[2] < 1.0


def test_load_is_the_torque_that_holds_the_arm_up(world):
    world.reset(REACH)
    torque = world.load() / 100 * world.model.actuator_forcerange[:, 1]
    friction = world.model.dof_frictionloss
    assert np.all(np.abs(torque - world.data.qfrc_bias) < 1.05 * friction + 1e-3)
    assert world.load()[1] < -20  # the lift works against gravity; its positive sense is forwards
    assert np.abs(world.load()).max() <= 100


def test_what_happens_after_a_reset_depends_on_nothing_before(world):
    def story(w):
        w.reset(HOLD)
        w.command(HOLD + 5)
        run(w, 0.33)
        w.start_capture("front")
        w.command(HOLD - 5)
        run(w, 0.4)
        return state(w), [(i.t_ns, i.rgb.tobytes()) for i in w.drain("front")]

    first = story(world)
    world.reset(REACH)
    world.torque(False)
    world.start_capture("wrist")
    run(world, 0.77)
    assert story(world) == first
    other = World(RIG)
    assert story(other) == first
    other.close()


def test_images_change_nothing_in_the_physics(painted):
    def story(capture):
        painted.reset(HOLD)
        if capture:
            painted.start_capture("front")
            painted.start_capture("wrist")
        painted.command(REACH)
        run(painted, 1.0)
        return state(painted)

    assert story(True) == story(False)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 200_000_000), max_size=8))
def test_the_clocks_strides_do_not_matter(painted, strides):
    def story(strides):
        painted.reset(HOLD)
        painted.start_capture("front")
        painted.start_capture("wrist")
        painted.command(HOLD + 3)
        for stride in strides:
            painted.clock.sleep_until(min(painted.clock.now_ns() + stride, 500_000_000))
        painted.clock.sleep_until(500_000_000)
        return state(painted), [[i.t_ns for i in painted.drain(n)] for n in SMALL]

    assert story(strides) == story([])


def test_images_are_due_every_period_from_the_start_of_the_capture(painted):
    painted.reset(HOLD)
    run(painted, 0.123)
    begin_ns = painted.clock.now_ns()
    for name in SMALL:
        painted.start_capture(name)
    run(painted, 2.0)
    step_ns = 1e9 / RIG.arm.physics_hz
    for name, camera in SMALL.items():
        stamps = np.array([i.t_ns for i in painted.drain(name)])
        due = begin_ns + np.arange(len(stamps)) * 1e9 / camera.fps
        assert len(stamps) == round(2.0 * camera.fps) + 1
        assert abs(stamps[0] - begin_ns) <= step_ns / 2
        assert np.abs(stamps - due - (stamps[0] - begin_ns)).max() <= step_ns / 2 + 1
        assert painted.drain(name) == []


def test_an_image_shows_the_moment_it_is_stamped_with(world):
    """While the arm moves: the image taken on the way is the one that a fresh look at the same state gives."""
    world.reset(HOLD)
    world.command(REACH)
    run(world, 0.1)
    world.start_capture("front")
    world.clock.sleep_until(200_000_000)
    last = world.drain("front")[-1]
    assert last.t_ns == 200_000_000
    import mujoco

    data = mujoco.MjData(world.model)
    data.qpos[:] = world.data.qpos
    mujoco.mj_forward(world.model, data)
    np.testing.assert_array_equal(world._renderer.render(data, "front"), last.rgb)
    data.qpos[:] += world.data.qvel / RIG.arm.physics_hz
    mujoco.mj_forward(world.model, data)
    assert np.any(world._renderer.render(data, "front") != last.rgb)


def test_nothing_is_drawn_that_nobody_captures(painted):
    painted.reset(HOLD)
    painted._renderer.asked.clear()
    run(painted, 1.0)
    assert painted._renderer.asked == []
    painted.start_capture("front")
    run(painted, 0.5)
    painted.stop_capture("front")
    assert painted.drain("front") == []
    run(painted, 0.5)
    assert {name for name, _ in painted._renderer.asked} == {"front"}
    assert len(painted._renderer.asked) == 16


def test_opengl_is_not_asked_for_before_the_first_capture(monkeypatch):
    def refuse(*args):
        raise AssertionError("a renderer was made")

    monkeypatch.setattr(scene_world, "SceneRenderer", refuse)
    w = World(RIG)
    w.command(HOLD)
    run(w, 0.1)
    w.close()


def test_without_torque_a_raised_arm_drops(world):
    world.reset(REACH)
    world.torque(False)
    run(world, 0.5)
    assert world.joints()[1] > REACH[1] + 10
    world.reset(REACH)
    run(world, 0.5)
    assert abs(world.joints()[1] - REACH[1]) < 1


def test_the_table_stops_the_arm(world):
    into_the_table = rad_to_q([0, 1.3, 0.4, 0, 0, 0.6])
    world.reset(HOLD)
    for share in np.linspace(0, 1, 200):
        world.command(HOLD + share * (into_the_table - HOLD))
        run(world, 0.01)
    world._mujoco.mj_kinematics(world.model, world.data)
    tips_m = [world.data.geom(f"{jaw}_jaw_sph_tip1").xpos[2] for jaw in ("fixed", "moving")]
    assert min(tips_m) > -0.01
    np.testing.assert_allclose(world.data.ctrl, q_to_rad(into_the_table))
    assert np.abs(world.joints() - into_the_table).max() > 5


def test_a_camera_faster_than_the_physics_is_refused():
    rig = Rig("fast", arm=ArmConfig(control_hz=10, physics_hz=60), cameras={"front": CameraConfig(fps=120)})
    with pytest.raises(ConfigError, match="raise physics_hz to at least 120"):
        World(rig)


def test_close_can_come_twice_and_the_physics_lives_on():
    w = World(RIG)
    w.start_capture("front")
    w.close()
    w.close()
    run(w, 0.1)
    w.start_capture("front")
    assert w.drain("front")[0].rgb.std() > 0
    w.close()
