import mujoco
import numpy as np
import pytest

from so101walk.errors import ConfigError
from so101walk.joints import MODEL_RANGE_RAD, q_to_rad, rad_to_q
from so101walk.scene.clearance import GAP_M, Clearance, ClearanceConfig, KeepOut
from so101walk.scene.model import load_model
from so101walk.scene.room import TABLE_TOP_M


@pytest.fixture(scope="module")
def clearance():
    return Clearance(ClearanceConfig())


@pytest.fixture(scope="module")
def model():
    return load_model(visuals=False)


def random_poses(n, seed):
    return rad_to_q(np.random.default_rng(seed).uniform(*MODEL_RANGE_RAD.T, (n, 6)))


def at_pose(model, q):
    data = mujoco.MjData(model)
    data.qpos[:] = q_to_rad(q)
    mujoco.mj_kinematics(model, data)
    return data


def test_every_contact_that_mujoco_finds_is_found(clearance, model):
    """MuJoCo's own collision detection over random poses, jaws through the table and links through each other."""
    found = 0
    pairs = {frozenset(p) for p in clearance.pairs}
    for q in random_poses(150, 0):
        data = at_pose(model, q)
        mujoco.mj_collision(model, data)
        deep = [{model.geom(int(g)).name for g in c.geom} for c in data.contact if c.dist < -1e-3]
        for contact in deep:
            assert frozenset(contact) in pairs
            found += 1
        assert not deep or not clearance.clear(q)
    assert found > 100


def test_pairs_leave_out_links_that_share_a_joint(clearance):
    names = {"/".join(p) for p in clearance.pairs}
    assert "gripper_1/table" in names
    assert "camera_box2/lower_arm_0" in names
    assert "lower_arm_0/base_column" in names
    assert not {"lower_arm_0/upper_arm_0", "shoulder_0/base_column", "base_foot/table", "shoulder_1/table"} & names
    assert not any("wall" in n for n in names)


def test_distances_are_those_of_every_pair_measured_alone(clearance, model):
    """The bounds that spare most measurements leave out no pair that is near."""
    for q in random_poses(25, 1):
        data = at_pose(model, q)
        alone = [
            min(mujoco.mj_geomDistance(model, data, model.geom(a).id, model.geom(b).id, 0.08, None), 0.08)
            for a, b in clearance.pairs
        ]
        assert clearance.distances_m(q, 0.08) == pytest.approx(alone, abs=1e-9)


def test_the_distance_to_the_table_is_that_of_the_lowest_vertex(clearance, model):
    pair = clearance.pairs.index(("gripper_1", "table"))
    geom = model.geom("gripper_1")
    mesh = model.mesh(int(geom.dataid[0]))
    start, count = int(mesh.vertadr[0]), int(mesh.vertnum[0])
    checked = 0
    for q in random_poses(200, 2):
        data = at_pose(model, q)
        vertices = model.mesh_vert[start : start + count] @ data.geom_xmat[geom.id].reshape(3, 3).T
        over_table = (vertices + data.geom_xpos[geom.id])[:, 2].min() - TABLE_TOP_M
        if 0.0 < over_table < 0.2:
            # MuJoCo's hull of the mesh keeps 64 of its vertices (maxhullvert), so it may miss a lowest one by a little.
            assert over_table - 1e-6 <= clearance.distances_m(q, 0.3)[pair] <= over_table + 1e-3
            checked += 1
    assert checked > 20


def test_no_pair_comes_nearer_than_the_bound_says(clearance):
    rng = np.random.default_rng(3)
    tightest = 0.0
    for q0 in random_poses(60, 4):
        q1 = q0 + rng.normal(0.0, 4.0, 6) * rng.integers(0, 2, 6)
        before, after = clearance.distances_m(q0, 1.0), clearance.distances_m(q1, 1.0)
        bound = clearance.approach_m(q0, q1)
        change = np.abs(after - before)
        assert (change <= bound + 1e-6).all()
        tightest = max(tightest, float((change[bound > 1e-3] / bound[bound > 1e-3]).max(initial=0.0)))
    assert tightest > 0.5  # a bound, not a wild guess


def test_joints_below_a_pair_do_not_move_it(clearance):
    pair = clearance.pairs.index(("camera_box2", "lower_arm_0"))
    q = np.zeros(6)
    moves = [clearance.approach_m(q, q + 10.0 * np.eye(6)[j])[pair] > 0 for j in range(6)]
    assert moves == [False, False, False, True, True, False]


def test_margins_differ_for_the_table_and_for_self():
    q = rad_to_q([0.0, -0.6, -0.3, 0.3, 0.0, 0.6])
    probe = Clearance(ClearanceConfig())
    table = min(d for d, p in zip(probe.distances_m(q, 1.0), probe.pairs, strict=True) if p[1] == "table")
    own = min(d for d, p in zip(probe.distances_m(q, 1.0), probe.pairs, strict=True) if p[1] != "table")
    assert table > 0.1
    assert 0.01 < own < 0.1
    assert Clearance(ClearanceConfig(table_m=0.1, self_m=0.01)).clear(q)
    short = Clearance(ClearanceConfig(table_m=0.02, self_m=own + 0.001)).contact(q)
    assert short.distance_m == pytest.approx(own)
    assert short.margin_m == own + 0.001
    assert short.other != "table"


def test_a_keep_out_box_is_a_table_of_its_own(clearance):
    x, z = 0.39, 0.246  # the tip at the pose of zeros, stretched ahead
    q = np.array([0.0, 0, 0, 0, 0, 50.0])
    assert clearance.clear(q)
    touching = Clearance(ClearanceConfig(keep_out=(KeepOut("shelf", (x + 0.06, 0.0, z), (0.1, 0.1, 0.1)),)))
    assert touching.contact(q).other == "shelf"
    away = Clearance(ClearanceConfig(keep_out=(KeepOut("shelf", (x + 0.2, 0.0, z), (0.1, 0.1, 0.1)),)))
    assert away.clear(q)
    inside_the_base = KeepOut("core", (0.0, 0.0, 0.02), (0.02, 0.02, 0.02))
    assert Clearance(ClearanceConfig(keep_out=(inside_the_base,))).clear(q)  # the base doesn't move


def test_clear_takes_any_shape(clearance):
    q = random_poses(6, 5)
    assert clearance.clear(q.reshape(2, 3, 6)).tolist() == clearance.clear(q).reshape(2, 3).tolist()
    assert clearance.clear(q[0]).shape == ()
    assert clearance.clear(np.zeros((0, 6))).shape == (0,)


def test_a_still_segment_is_its_pose(clearance):
    for q in random_poses(20, 6):
        alone, segment = clearance.contact(q), clearance.segment_contact(q, q)
        assert (alone is None) == (segment is None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ClearanceConfig(table_m=0.0), "table_m is 0.0"),
        (lambda: ClearanceConfig(self_m=-0.01), "self_m is -0.01"),
        (lambda: ClearanceConfig(self_m=float("nan")), "self_m is nan"),
        (lambda: ClearanceConfig(table_m=5.0), "to 0.1 m"),
        (lambda: KeepOut("my box", (0, 0, 0), (1, 1, 1)), "letters, digits and underscores"),
        (lambda: KeepOut("box", (0, 0, 50.0), (1, 1, 1)), "within 5 m"),
        (lambda: KeepOut("box", (0, 0, 0), (1, 0, 1)), "above 0"),
        (lambda: ClearanceConfig(keep_out=(KeepOut("a", (0, 0, 1), (1, 1, 1)),) * 2), "two boxes of one name"),
        (
            lambda: Clearance(ClearanceConfig(keep_out=(KeepOut("table", (0, 0, 1), (1, 1, 1)),))),
            "'table' is one of the scene's own",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_the_smallest_margin_covers_the_gap_between_checks():
    assert ClearanceConfig(table_m=GAP_M, self_m=GAP_M).table_m == GAP_M
