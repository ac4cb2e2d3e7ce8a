from itertools import pairwise

import numpy as np
import pytest

from so101walk.arms.simulated import REST_Q
from so101walk.cameras.simulated import make_simulated
from so101walk.errors import ConfigError
from so101walk.joints import rad_to_q
from so101walk.rig import ArmConfig, CameraConfig, Rig, load_rig

CENTER = rad_to_q([0, -0.6, -0.3, 0.3, 0, 0.6])


@pytest.fixture(scope="module")
def rig_parts():
    cameras = {
        "front": CameraConfig(width=48, height=48),
        "hand": CameraConfig(width=64, height=32, fps=15, view="wrist"),
    }
    arm, views = make_simulated(Rig("test", cameras=cameras))
    arm.connect()
    yield arm, views
    arm.close()


@pytest.fixture
def parts(rig_parts):
    arm, views = rig_parts
    arm.reset(CENTER)
    yield arm, views
    for view in views.values():
        view.stop()


def test_names_and_sizes_are_the_rigs(parts):
    _, views = parts
    assert {(v.name, v.width, v.height) for v in views.values()} == {("front", 48, 48), ("hand", 64, 32)}
    assert list(views) == ["front", "hand"]


def test_images_come_while_the_arm_follows(parts):
    arm, views = parts
    for view in views.values():
        view.start()
    taken = {name: [] for name in views}

    def on_tick(tick):
        for name, view in views.items():
            new = view.drain()
            assert all(i.t_ns <= tick.t_after_ns for i in new)
            taken[name] += new

    arm.follow(lambda t: CENTER + 20 * t, arm.clock.now_ns(), 0.4, on_tick)
    assert [i.t_ns for i in taken["front"]] == [round(k * 1e9 / 30) for k in range(13)]
    assert [i.t_ns for i in taken["hand"]] == [round(k * 1e9 / 15) for k in range(7)]
    assert taken["front"][0].rgb.shape == (48, 48, 3)
    assert taken["hand"][0].rgb.shape == (32, 64, 3)
    frames = np.array([i.rgb for i in taken["front"]])
    assert all(np.any(a != b) for a, b in pairwise(frames[2:]))


def test_start_comes_twice_without_a_second_image(parts):
    _, views = parts
    views["front"].start()
    views["front"].start()
    assert len(views["front"].drain()) == 1


def test_stop_forgets_and_start_begins_anew(parts):
    arm, views = parts
    view = views["front"]
    view.start()
    arm.clock.sleep_until(100_000_000)
    view.stop()
    view.stop()
    assert view.drain() == []
    arm.clock.sleep_until(215_000_000)
    view.start()
    arm.clock.sleep_until(290_000_000)
    stamps = [i.t_ns for i in view.drain()]
    assert stamps[0] == pytest.approx(215_000_000, abs=2e6)
    assert np.diff(stamps) == pytest.approx([1e9 / 30, 1e9 / 30], abs=1)


def test_a_reset_stops_the_cameras(parts):
    arm, views = parts
    views["front"].start()
    arm.reset(REST_Q)
    arm.clock.sleep_until(200_000_000)
    assert views["front"].drain() == []


def test_views_differ_and_two_cameras_may_share_one(parts):
    twins = {
        "left": CameraConfig(width=48, height=48, view="front"),
        "right": CameraConfig(width=48, height=48, view="front"),
    }
    arm, views = make_simulated(Rig("twins", cameras={**twins, "wrist": CameraConfig(width=48, height=48)}))
    arm.reset(CENTER)
    for view in views.values():
        view.start()
    images = {name: view.drain()[0].rgb for name, view in views.items()}
    np.testing.assert_array_equal(images["left"], images["right"])
    assert np.mean(np.abs(images["left"].astype(int) - images["wrist"])) > 10
    arm.close()


def test_a_real_rig_has_a_simulated_twin():
    real = Rig(
        "real",
        arm=ArmConfig(type="so101_follower", control_hz=100),
        cameras={
            "top": CameraConfig(type="opencv", width=64, height=48, options={"index_or_path": 0}),
            "hand": CameraConfig(type="opencv", width=64, height=48, options={"index_or_path": 2}),
        },
    )
    arm, views = make_simulated(real.twin())
    arm.connect()
    assert arm.simulated
    for view in views.values():
        view.start()
        assert view.drain()[0].rgb.shape == (48, 64, 3)
    arm.close()


def test_the_shipped_rig_can_be_made():
    arm, views = make_simulated(load_rig("sim"))
    assert set(views) == {"front", "wrist"}
    arm.close()


def test_a_camera_without_a_view_is_refused():
    with pytest.raises(ConfigError, match="camera 'side' has no view"):
        make_simulated(Rig("test", cameras={"side": CameraConfig()}))
