import os

import mujoco
import numpy as np
import pytest

from so101walk.rig import CameraConfig
from so101walk.scene import gl
from so101walk.scene.model import load_model
from so101walk.scene.render import SceneRenderer

CAMERAS = {"front": CameraConfig(width=160, height=160), "wrist": CameraConfig(width=128, height=96)}
WALK_CENTER = (0.0, -0.6, -0.3, 0.3, 0.0, 0.6)
REACHING = (-0.4, 0.2, 0.6, 0.6, 0.2, 0.2)


def posed(model, rad):
    data = mujoco.MjData(model)
    data.qpos[:] = rad
    mujoco.mj_forward(model, data)
    return data


@pytest.fixture(scope="module")
def scene():
    model = load_model(CAMERAS)
    renderer = SceneRenderer(model, CAMERAS)
    yield model, renderer
    renderer.close()


@pytest.mark.parametrize("name", CAMERAS)
def test_an_image_is_new_and_read_only_and_of_the_cameras_size(scene, name):
    model, renderer = scene
    data = posed(model, WALK_CENTER)
    image = renderer.render(data, name)
    assert image.shape == (CAMERAS[name].height, CAMERAS[name].width, 3)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    assert not image.flags.writeable
    before = image.copy()
    renderer.render(posed(model, REACHING), name)
    np.testing.assert_array_equal(image, before)


def test_the_same_pose_gives_the_same_bytes_whatever_was_drawn_before(scene):
    model, renderer = scene
    first = [renderer.render(posed(model, WALK_CENTER), name) for name in CAMERAS]
    for name in CAMERAS:
        renderer.render(posed(model, REACHING), name)
    other = SceneRenderer(load_model(CAMERAS), CAMERAS)
    for renderer_ in (renderer, other):
        again = [renderer_.render(posed(model, WALK_CENTER), name) for name in CAMERAS]
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    other.close()


@pytest.mark.parametrize("name", CAMERAS)
@pytest.mark.parametrize("rad", [WALK_CENTER, REACHING])
def test_no_part_of_an_image_is_flat(scene, name, rad):
    model, renderer = scene
    image = renderer.render(posed(model, rad), name).astype(float)
    height, width = image.shape[0] // 2, image.shape[1] // 2
    for rows in (slice(0, height), slice(height, None)):
        for columns in (slice(0, width), slice(width, None)):
            assert image[rows, columns].mean(axis=2).std() > 4


def test_up_is_up(scene):
    model, renderer = scene
    image = renderer.render(posed(model, WALK_CENTER), "front").astype(float)
    red, _, blue = image[:10].mean((0, 1))
    assert blue > red + 5  # the bluish wall above
    red, _, blue = image[-10:].mean((0, 1))
    assert red > blue + 10  # the brownish table below


def shown_by(model, renderer, data, body, name):
    """Share of an image that shows a body's visible geometries, by painting them."""
    before = renderer.render(data, name).astype(int)
    geoms = np.flatnonzero((model.geom_bodyid == model.body(body).id) & (model.geom_group == 2))
    kept = model.geom_rgba[geoms].copy()
    model.geom_rgba[geoms] = (0, 0, 1, 1)
    try:
        after = renderer.render(data, name).astype(int)
    finally:
        model.geom_rgba[geoms] = kept
    return np.mean(np.abs(after - before).max(axis=2) > 20)


@pytest.mark.parametrize("gripper_rad", [-0.17, 0.2, 0.6, 1.0, 1.3])
def test_the_wrist_camera_shows_both_jaws(scene, gripper_rad):
    model, renderer = scene
    data = posed(model, (*WALK_CENTER[:5], gripper_rad))
    assert shown_by(model, renderer, data, "gripper", "wrist") > 0.02
    assert shown_by(model, renderer, data, "moving_jaw_so101_v1", "wrist") > 0.02


@pytest.mark.parametrize(
    "body", ["base", "shoulder", "upper_arm", "lower_arm", "wrist", "gripper", "moving_jaw_so101_v1"]
)
def test_the_front_camera_shows_every_link(scene, body):
    model, renderer = scene
    assert shown_by(model, renderer, posed(model, REACHING), body, "front") > 0.0005


@pytest.mark.parametrize("joint", range(6))
def test_every_joint_shows_in_the_images(scene, joint):
    model, renderer = scene
    moved = np.array(WALK_CENTER)
    moved[joint] += 0.1
    changed = [
        np.mean(renderer.render(posed(model, WALK_CENTER), n) != renderer.render(posed(model, moved), n))
        for n in CAMERAS
    ]
    assert max(changed) > 0.01


def test_decimated_meshes_look_like_the_originals(scene):
    model, renderer = scene
    full_model = load_model(CAMERAS, full_meshes=True)
    full = SceneRenderer(full_model, CAMERAS)
    limits = {"front": 1.0, "wrist": 3.0}  # grey levels a pixel; an image without the arm differs by 3 and 6
    for rad in (WALK_CENTER, REACHING):
        for name, limit in limits.items():
            ours = renderer.render(posed(model, rad), name).astype(float)
            theirs = full.render(posed(full_model, rad), name).astype(float)
            assert np.abs(ours - theirs).mean() < limit
    full.close()


def test_another_context_in_the_same_thread_does_no_harm(scene):
    model, renderer = scene
    data = posed(model, WALK_CENTER)
    before = renderer.render(data, "front")
    theirs = gl._context_class(os.environ.get("MUJOCO_GL", ""))(32, 32)
    theirs.make_current()
    foreign = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, foreign)
    np.testing.assert_array_equal(renderer.render(data, "front"), before)
    theirs.make_current()
    foreign.free()
    theirs.free()
    np.testing.assert_array_equal(renderer.render(data, "front"), before)


def test_after_close_there_is_nothing_to_draw_with(scene):
    model, _ = scene
    renderer = SceneRenderer(model, CAMERAS)
    renderer.close()
    renderer.close()
    with pytest.raises(RuntimeError, match="after close"):
        renderer.render(posed(model, WALK_CENTER), "front")
