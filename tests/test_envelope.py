import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.envelope import Envelope, load_envelope
from so101walk.errors import ConfigError, UsageError
from so101walk.joints import JOINTS
from so101walk.scene.clearance import GAP_M, Clearance, ClearanceConfig, KeepOut

CENTER = np.array([0.0, -30.0, -20.0, 0.0, 0.0, 50.0])
SCALE = np.array([30.0, 20.0, 20.0, 25.0, 45.0, 14.0])
LOWER = np.array([-105.0, -80.0, -90.0, -90.0, -150.0, 5.0])
UPPER = np.array([105.0, 85.0, 90.0, 90.0, 150.0, 95.0])

POST = KeepOut("post", (0.30, 0.0, 0.25), (0.04, 0.02, 0.5))
FORWARD = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0])  # stretched ahead, 0.25 m over the table


def panned(deg):
    return np.array([deg, *FORWARD[1:]])


FILE = """
name = "mine"
{joints}
[clearance]
table_m = 0.02
self_m = 0.01
"""


def table(joint, center=0, scale=10, lower=-90, upper=90):
    return f"[joints.{joint}]\ncenter = {center}\nscale = {scale}\nlower = {lower}\nupper = {upper}\n"


def write(path, text=None, **first):
    joints = table(JOINTS[0], **first) + "".join(table(j, center=5, lower=5 - 60) for j in JOINTS[1:])
    path.write_text(FILE.format(joints=joints) if text is None else text)
    return path


def limits_only(**changes):
    values = {"center": CENTER, "scale": SCALE, "lower": LOWER, "upper": UPPER, "clearance": None, **changes}
    return Envelope("test", **values)


@pytest.fixture(scope="module")
def with_post():
    return limits_only(clearance=ClearanceConfig(keep_out=(POST,)))


@pytest.fixture(scope="module")
def shipped():
    return load_envelope("so101-tabletop")


@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6))
def test_z_and_q_are_inverse(z):
    envelope = limits_only()
    assert envelope.q_to_z(envelope.z_to_q(z)) == pytest.approx(z, abs=1e-12)
    assert envelope.z_to_q(np.zeros((3, 6))) == pytest.approx(np.tile(CENTER, (3, 1)))


def test_limits_are_inclusive_and_each_joint_is_checked():
    envelope = limits_only()
    assert envelope.contains(LOWER)
    assert envelope.contains(UPPER)
    for i in range(6):
        for edge, past in ((LOWER, -0.01), (UPPER, 0.01)):
            q = CENTER.copy()
            q[i] = edge[i] + past
            assert not envelope.contains(q)
            assert envelope.refusal(q).cause == f"limit:{JOINTS[i]}"


def test_the_message_names_joint_value_bounds_file_and_mend():
    q = CENTER.copy()
    q[1] = 97.2
    envelope = limits_only(source="calibration/so101-tabletop.toml")
    assert envelope.why_not(q) == (
        "shoulder_lift asked for 97.2 deg; the envelope allows -80.0 to 85.0 (calibration/so101-tabletop.toml). "
        "Lower its scale or widen the envelope."
    )
    assert envelope.why_not(CENTER) is None


def test_the_joint_furthest_past_in_units_of_its_scale_is_named():
    q = CENTER.copy()
    q[0], q[5] = UPPER[0] + 20.0, UPPER[5] + 14.0  # 0.67 scales, 1 scale
    assert limits_only().refusal(q).cause == "limit:gripper"


def test_nan_is_outside_and_named():
    q = CENTER.copy()
    q[3] = np.nan
    envelope = limits_only()
    assert not envelope.contains(q)
    assert envelope.why_not(q).startswith("wrist_flex asked for nan deg")
    assert not envelope.segment_ok(CENTER, q)
    assert not envelope.segment_ok(q, CENTER)


def test_a_contact_is_named_with_its_distance(with_post):
    refusal = with_post.refusal(FORWARD)
    first, second = refusal.cause.removeprefix("contact:").split("/")
    assert second == "post"
    assert refusal.message.startswith(f"{first} would be ")
    assert "mm inside post; the envelope keeps 20.0 mm (the envelope)." in refusal.message
    near = with_post.refusal(panned(12.0))
    assert "would come within" in near.message


def test_ends_are_safe_and_the_middle_is_not(with_post):
    left, right = panned(40.0), panned(-40.0)
    assert with_post.contains(left)
    assert with_post.contains(right)
    there, back = with_post.why_not_segment(left, right), with_post.why_not_segment(right, left)
    assert there.cause.endswith("/post")
    assert there.cause == back.cause
    assert 0.2 < there.at < 0.8
    assert there.at == pytest.approx(1.0 - back.at)
    assert not with_post.segment_ok(left, right)
    assert with_post.segment_ok(left, panned(20.0))


def test_a_thin_obstacle_is_not_stepped_over():
    blade = KeepOut("blade", (0.35, 0.0, 0.25), (0.001, 0.001, 0.001))
    envelope = limits_only(clearance=ClearanceConfig(table_m=GAP_M, self_m=GAP_M, keep_out=(blade,)))
    rng = np.random.default_rng(0)
    for _ in range(20):
        swing = rng.uniform(15.0, 90.0, 2)
        a, b = panned(swing[0]), panned(-swing[1])
        assert envelope.contains(a)
        assert envelope.contains(b)
        assert not envelope.segment_ok(a, b)


def test_segments_agree_with_a_dense_check_and_with_themselves_reversed():
    """Refused whenever some pose is nearer than margin - GAP_M; allowed whenever every pose keeps the margin."""
    config = ClearanceConfig(keep_out=(POST,))
    envelope = limits_only(clearance=config)
    clearance = Clearance(config)
    margin = np.array([config.table_m if other in ("table", "post") else config.self_m for _, other in clearance.pairs])
    rng = np.random.default_rng(1)
    verdicts = []
    for _ in range(60):
        a, b = (rng.uniform(LOWER, UPPER) * [0.6, 0.6, 0.6, 0.6, 0.6, 1.0] for _ in range(2))
        poses = a + (b - a) * np.linspace(0, 1, 150)[:, None]
        slack = min((clearance.distances_m(q, 0.05) - margin).min() for q in poses)
        ok = envelope.segment_ok(a, b)
        assert ok == envelope.segment_ok(b, a)
        if slack < -GAP_M:
            assert not ok
        elif slack > GAP_M:
            assert ok
        verdicts.append(ok)
    assert 10 < sum(verdicts) < 50


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_what_is_contained_is_a_segment_of_no_length(shipped, seed):
    q = np.random.default_rng(seed).uniform(LOWER, UPPER)
    assert shipped.contains(q) == shipped.segment_ok(q, q) == (shipped.why_not(q) is None)


def test_contains_each_is_contains(shipped):
    q = shipped.z_to_q(1.6 * np.random.default_rng(2).standard_normal((60, 6)))
    each = shipped.contains_each(q.reshape(5, 12, 6))
    assert each.shape == (5, 12)
    assert each.ravel().tolist() == [shipped.contains(pose) for pose in q]
    assert 0 < each.sum() < 60


def test_arrays_are_read_only_copies():
    center = CENTER.copy()
    envelope = limits_only(center=center)
    center[0] = 99.0
    assert envelope.center[0] == 0.0
    with pytest.raises(ValueError):
        envelope.scale[0] = 1.0


def test_the_digest_follows_what_is_allowed_and_not_where_it_came_from(tmp_path):
    base = limits_only(clearance=ClearanceConfig())
    assert base.digest == limits_only(clearance=ClearanceConfig(), source="elsewhere.toml").digest
    others = [
        limits_only(),
        limits_only(clearance=ClearanceConfig(table_m=0.03)),
        limits_only(clearance=ClearanceConfig(keep_out=(POST,))),
        limits_only(clearance=ClearanceConfig(), scale=SCALE * 1.001),
        limits_only(clearance=ClearanceConfig(), center=CENTER + 0.01),
    ]
    assert len({base.digest, *(o.digest for o in others)}) == 6


def test_it_can_be_pickled_after_use(with_post):
    with_post.contains(FORWARD)
    copy = pickle.loads(pickle.dumps(with_post))
    assert copy.digest == with_post.digest
    assert copy.why_not(FORWARD) == with_post.why_not(FORWARD)


def test_mujoco_is_imported_at_the_first_clearance_check_only():
    code = """if True:
        import sys
        from so101walk.envelope import load_envelope
        envelope = load_envelope("so101-tabletop")
        envelope.z_to_q([0.0] * 6)
        print("mujoco" in sys.modules)
        envelope.contains(envelope.center)
        print("mujoco" in sys.modules)
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_a_file_is_read_whole(tmp_path):
    path = write(tmp_path / "mine.toml", center=1, scale=5, lower=-5, upper=90.5)
    path.write_text(
        path.read_text() + '[[clearance.keep_out]]\nname = "shelf"\ncenter_m = [0.1, 0.2, 0.3]\nsize_m = [1, 1, 0.1]\n'
    )
    envelope = load_envelope(path)
    assert envelope.name == "mine"
    assert (envelope.center[0], envelope.scale[0], envelope.lower[0], envelope.upper[0]) == (1.0, 5.0, -5.0, 90.5)
    assert envelope.clearance == ClearanceConfig(0.02, 0.01, (KeepOut("shelf", (0.1, 0.2, 0.3), (1.0, 1.0, 0.1)),))
    assert envelope.source == str(path)


def test_the_shipped_file_is_named_short(shipped):
    assert shipped.source == "calibration/so101-tabletop.toml"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"center": 100}, "shoulder_pan: center is 100; it must be within its own limits, -90 to 90"),
        ({"scale": 0}, "scale is 0; it must be above 0"),
        ({"scale": -5}, "scale is -5; it must be above 0"),
        ({"scale": "nan"}, "scale is nan; it must be a finite number"),
        ({"lower": "nan"}, "lower is nan; it must be a finite number"),
        ({"upper": "inf"}, "upper is inf; it must be a finite number"),
        ({"lower": 90, "upper": 5}, "lower is 90 and upper 5; lower must be below upper"),
        ({"lower": 5, "upper": 5, "center": 5}, "lower must be below upper"),
        ({"upper": '"high"'}, "upper is 'high'; it must be a number"),
    ],
)
def test_a_joint_that_cannot_be_is_refused_in_one_line(tmp_path, first, words):
    path = write(tmp_path / "mine.toml", **first)
    with pytest.raises(ConfigError) as e:
        load_envelope(path)
    assert words in str(e.value)
    assert str(e.value).startswith(f"{path}: joints.shoulder_pan: ")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[joints.gripper]", "[joints.griper]"), "unknown joint 'griper'; did you mean 'gripper'?"),
        (("table_m = 0.02", "table_m = 0.001"), "table_m is 0.001; it must be 0.002 m"),
        (("table_m = 0.02", "table_m = nan"), "table_m is nan"),
        (("table_m", "tabel_m"), "unknown key 'tabel_m'; did you mean 'table_m'"),
        (('name = "mine"', ""), "key 'name' is missing"),
        (('name = "mine"', 'nmae = "mine"'), "did you mean 'name'?"),
        (("scale = 10", "scal = 10"), "unknown key 'scal'"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_one_line(tmp_path, change, words):
    path = write(tmp_path / "mine.toml")
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(ConfigError) as e:
        load_envelope(path)
    assert words in str(e.value)
    assert "\n" not in str(e.value)


def test_a_missing_joint_is_named(tmp_path):
    text = FILE.format(joints="".join(table(j) for j in JOINTS if j not in ("elbow_flex", "gripper")))
    with pytest.raises(ConfigError, match="no table for elbow_flex, gripper; all six joints need one"):
        load_envelope(write(tmp_path / "mine.toml", text))


def test_an_unknown_envelope_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="unknown envelope 'so101-tabeltop'; did you mean 'so101-tabletop'"):
        load_envelope("so101-tabeltop")


def test_arrays_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match=r"scale has shape \(5,\)"):
        limits_only(scale=SCALE[:5])
    with pytest.raises(ConfigError, match="here: gripper: center is 120"):
        limits_only(center=[0, 0, 0, 0, 0, 120], source="here")
