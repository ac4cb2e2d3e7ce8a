import mujoco
import numpy as np
import pytest

from so101walk.joints import GRIPPER, MODEL_RANGE_RAD
from so101walk.scene.model import load_model, model_file
from so101walk.scene.room import FRONT_CAMERA, ROOM_HIGH_M, ROOM_LOW_M, WRIST_CAMERA, WRIST_QUAT


@pytest.fixture(scope="module")
def scene():
    model = load_model(visuals=False)
    return model, mujoco.MjData(model)


def on_image(scene, camera, points):
    """Where points (n, 3) fall on a square image: (n, 2), within -1 to 1 if in view; NaN behind the camera."""
    model, data = scene
    camera = model.camera(camera).id
    seen = (points - data.cam_xpos[camera]) @ data.cam_xmat[camera].reshape(3, 3)
    depth = np.where(seen[:, 2] < 0, -seen[:, 2], np.nan)[:, None]
    return seen[:, :2] / depth / np.tan(np.radians(model.cam_fovy[camera]) / 2)


def arm_corners(scene):
    """Corners of the boxes around the arm's collision geometries, in the world."""
    model, data = scene
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    arm = np.flatnonzero((model.geom_contype == 1) & (model.geom_bodyid > 0))
    corners = [
        data.geom_xpos[g]
        + (model.geom_aabb[g, :3] + signs * model.geom_aabb[g, 3:]) @ data.geom_xmat[g].reshape(3, 3).T
        for g in arm
    ]
    return np.concatenate(corners)


def test_the_front_camera_sees_the_whole_arm_over_the_hand_made_walk(scene):
    model, data = scene
    center = np.array([0, -0.6, -0.3, 0.3, 0, 0.6])
    scale = np.minimum(center - MODEL_RANGE_RAD[:, 0], MODEL_RANGE_RAD[:, 1] - center) / 3
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        data.qpos[:] = np.clip(center + scale * rng.standard_normal(6), *MODEL_RANGE_RAD.T)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)
        inside.append(np.all(np.abs(on_image(scene, FRONT_CAMERA, arm_corners(scene))) < 1))
    assert np.mean(inside) > 0.99


def tips(scene, gripper_percent):
    model, data = scene
    low, high = MODEL_RANGE_RAD[GRIPPER]
    data.qpos[:] = [0.3, -0.6, -0.3, 0.3, 0.2, low + gripper_percent / 100 * (high - low)]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    points = np.array([data.geom(f"{jaw}_jaw_sph_tip1").xpos for jaw in ("fixed", "moving")])
    return on_image(scene, WRIST_CAMERA, points)


@pytest.mark.parametrize("gripper_percent", range(0, 81, 10))
def test_the_wrist_camera_sees_both_finger_tips(scene, gripper_percent):
    assert np.all(np.abs(tips(scene, gripper_percent)) < 0.98)


def test_the_moving_tip_goes_from_left_to_right_as_the_gripper_opens(scene):
    across = [tips(scene, p)[1, 0] for p in range(0, 81, 10)]
    assert np.all(np.diff(across) > 0.05)


def test_the_wrist_camera_is_the_menagerie_models_turned(scene):
    original = mujoco.MjModel.from_xml_path(str(model_file())).camera("wrist_cam")
    np.testing.assert_allclose(original.quat, WRIST_QUAT, atol=1e-6)
    np.testing.assert_array_equal(original.pos, scene[0].camera("wrist_cam").pos)
    turn_deg = 2 * np.degrees(np.arccos(abs(original.quat @ scene[0].camera("wrist_cam").quat)))
    assert turn_deg == pytest.approx(29.1, abs=0.2)  # arccos of the product of cos(25/2) and cos(15/2), doubled


def test_the_room_holds_everything_and_touches_nothing(scene):
    model, data = scene
    mujoco.mj_forward(model, data)
    assert np.all(data.cam_xpos > ROOM_LOW_M)
    assert np.all(data.cam_xpos < ROOM_HIGH_M)
    walls = [g for g in range(model.ngeom) if model.geom(g).name.startswith(("wall", "floor", "ceiling"))]
    assert len(walls) == 6
    middle = (np.array(ROOM_LOW_M) + ROOM_HIGH_M) / 2
    for wall in walls:
        assert model.geom_contype[wall] == model.geom_conaffinity[wall] == 0
        normal = data.geom_xmat[wall].reshape(3, 3)[:, 2]
        assert (middle - data.geom_xpos[wall]) @ normal > 0.5  # faces inwards
