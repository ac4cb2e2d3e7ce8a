import pytest

from so101walk.errors import ConfigError
from so101walk.policies.fields import active_joints, check_frames, check_rho


def test_unnamed_joints_are_on():
    assert active_joints({}).tolist() == [True] * 6
    assert active_joints({"wrist_roll": False, "gripper": True}).tolist() == [True, True, True, True, False, True]


def test_an_unknown_joint_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown joint 'wrist_rol'; did you mean 'wrist_roll'"):
        active_joints({"wrist_rol": True})


def test_all_off_is_refused():
    names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    with pytest.raises(ConfigError, match="every joint is off"):
        active_joints(dict.fromkeys(names, False))


@pytest.mark.parametrize(("frames", "settle"), [(0, 0), (301, 3), (10, 10), (10, -1)])
def test_frames_out_of_range_are_refused(frames, settle):
    with pytest.raises(ConfigError, match="it must be"):
        check_frames(frames, settle)


def test_values_in_range_pass():
    check_frames(2, 1)
    check_frames(1, 0)
    check_rho(1e-9)
    check_rho(1 - 1e-9)
