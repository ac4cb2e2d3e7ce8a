import importlib.util

import mujoco
import numpy as np
import pytest

from so101walk.errors import ConfigError, HardwareError
from so101walk.joints import JOINTS, MODEL_RANGE_RAD
from so101walk.rig import CameraConfig
from so101walk.scene import model as scene_model
from so101walk.scene.model import BASE_BOXES_M, GRIPPER_SITE, load_model, model_file, view_of
from so101walk.scene.room import TABLE_TOP_M


@pytest.fixture(scope="module")
def original():
    """The Menagerie model as it comes, with its kinematics at the zero pose."""
    model = mujoco.MjModel.from_xml_path(str(model_file()))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.fixture(scope="module")
def bare():
    return load_model(visuals=False)


@pytest.fixture(scope="module")
def shown():
    return load_model()


def base_points(original):
    """Vertices of the four meshes of the base and midpoints of their edges, in the base's frame. Shape (n, 3)."""
    model, data = original
    points = []
    for geom in range(model.ngeom):
        if model.body(model.geom_bodyid[geom]).name == "base":
            mesh = model.geom_dataid[geom]
            v0, f0 = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
            vertices = model.mesh_vert[v0 : v0 + model.mesh_vertnum[mesh]]
            faces = model.mesh_face[f0 : f0 + model.mesh_facenum[mesh]]
            cloud = np.concatenate(
                [vertices, (vertices[faces] + vertices[np.roll(faces, 1, axis=1)]).reshape(-1, 3) / 2]
            )
            points.append(cloud @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom])
    assert len(points) == 4
    return np.concatenate(points)


def test_joints_and_servos_are_ours_in_order(bare):
    assert tuple(bare.joint(i).name for i in range(bare.njnt)) == JOINTS
    assert [bare.actuator_trnid[i, 0] for i in range(bare.nu)] == list(range(6))
    np.testing.assert_array_equal(bare.jnt_range, MODEL_RANGE_RAD)


def test_every_collision_geometry_has_a_name_of_its_own(bare):
    names = [bare.geom(g).name for g in range(bare.ngeom) if bare.geom_contype[g]]
    assert "" not in names
    assert len(set(names)) == len(names) == 33
    assert {"table", "base_foot", "base_column", "upper_arm_0", "gripper_1", "camera_box2"} <= set(names)


def test_base_boxes_are_the_bounding_boxes_of_its_meshes(original):
    points = base_points(original)
    cut_m = BASE_BOXES_M["base_foot"][1][2]
    for name, inside in (("base_foot", points[:, 2] <= cut_m), ("base_column", points[:, 2] > cut_m)):
        low, high = map(np.array, BASE_BOXES_M[name])
        np.testing.assert_allclose(points[inside][:, :2].min(0), low[:2], atol=2e-4)
        np.testing.assert_allclose(points[inside][:, :2].max(0), high[:2], atol=2e-4)
    np.testing.assert_allclose(points[:, 2].min(), BASE_BOXES_M["base_foot"][0][2], atol=1e-4)
    np.testing.assert_allclose(points[:, 2].max(), BASE_BOXES_M["base_column"][1][2], atol=1e-4)


def test_the_base_stands_on_the_table(original, bare):
    table = bare.geom("table")
    assert base_points(original)[:, 2].min() == pytest.approx(TABLE_TOP_M, abs=1e-4)
    assert table.pos[2] + table.size[2] == pytest.approx(TABLE_TOP_M)


def test_stated_inertia_of_the_camera_mount_is_that_of_its_mesh(original, bare):
    for what in ("mass", "ipos", "inertia", "iquat"):
        np.testing.assert_allclose(
            getattr(bare.body("camera_mount"), what), getattr(original[0].body("camera_mount"), what), rtol=1e-5
        )


@pytest.mark.parametrize("kind", [{}, {"full_meshes": True}])
def test_dynamics_do_not_depend_on_what_is_shown(bare, kind):
    other = load_model(**kind)
    for what in ("body_mass", "body_ipos", "body_inertia", "dof_damping", "actuator_gainprm", "jnt_range"):
        np.testing.assert_array_equal(getattr(bare, what), getattr(other, what))
    ours = {bare.geom(g).name: (*bare.geom_pos[g], *bare.geom_size[g]) for g in np.flatnonzero(bare.geom_contype)}
    theirs = {other.geom(g).name: (*other.geom_pos[g], *other.geom_size[g]) for g in np.flatnonzero(other.geom_contype)}
    assert ours == theirs


def test_visuals_can_be_left_out(bare, shown):
    def count(model):
        return int((model.geom_group == scene_model.VISUAL_GROUP).sum())

    assert count(bare) == 0
    assert count(shown) == 14
    assert count(load_model(full_meshes=True)) == 18


def contacts(model, rad):
    data = mujoco.MjData(model)
    data.qpos[:] = rad
    mujoco.mj_forward(model, data)
    return {frozenset((model.geom(c.geom1).name, model.geom(c.geom2).name)) for c in data.contact}


def test_the_base_touches_neither_its_table_nor_the_shoulder_that_turns_on_it(bare):
    rng = np.random.default_rng(0)
    for _ in range(200):
        pairs = contacts(bare, rng.uniform(MODEL_RANGE_RAD[:, 0], MODEL_RANGE_RAD[:, 1]))
        for pair in pairs:
            if pair & set(BASE_BOXES_M):
                assert not pair & {"table", "shoulder_0", "shoulder_1"}


def test_the_arm_cannot_pass_through_its_base_or_the_table(bare):
    into_base = contacts(bare, [0, -1.0, 1.65, 1.6, 0, 0])
    assert any(pair & set(BASE_BOXES_M) for pair in into_base)
    into_table = contacts(bare, [0, 1.3, 0.2, 0, 0, 0])
    assert any("table" in pair for pair in into_table)
    assert contacts(bare, [0, -0.6, -0.3, 0.3, 0, 0.6]) == set()


def test_rates_and_sizes_come_from_the_rig():
    cameras = {"front": CameraConfig(width=320, height=240), "wrist": CameraConfig(width=96, height=480)}
    model = load_model(cameras, visuals=False, physics_hz=500)
    assert model.opt.timestep == pytest.approx(0.002)
    assert (model.vis.global_.offwidth, model.vis.global_.offheight) == (320, 480)
    assert model.vis.quality.offsamples == 0


def test_the_gripper_site_is_between_the_finger_tips(bare):
    data = mujoco.MjData(bare)
    mujoco.mj_forward(bare, data)
    tips = [data.geom(f"{jaw}_jaw_sph_tip1").xpos for jaw in ("fixed", "moving")]
    assert np.linalg.norm(data.site(GRIPPER_SITE).xpos - np.mean(tips, axis=0)) < 0.02


def test_a_camera_stands_for_its_view_or_else_its_name():
    assert view_of("left", CameraConfig(view="wrist")) == "wrist_cam"
    assert view_of("front", CameraConfig()) == "front"
    with pytest.raises(ConfigError, match=r"camera 'frnt' has no view; .*did you mean 'front'"):
        load_model({"frnt": CameraConfig()}, visuals=False)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HardwareError, match="pip install so101-nexus"):
        load_model(visuals=False)


def test_a_missing_file_of_the_package_is_named(monkeypatch, tmp_path):
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec)
    with pytest.raises(HardwareError, match=r"so101\.xml is missing from package so101-nexus"):
        load_model(visuals=False)
