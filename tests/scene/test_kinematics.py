import numpy as np
import pytest

from so101walk.joints import MODEL_RANGE_RAD, q_to_rad
from so101walk.scene.kinematics import TOLERANCE_M, Kinematics

PAN_AXIS_XY_M = (0.0388353, 0.0)  # body "shoulder" of the Menagerie model


@pytest.fixture(scope="module")
def arm():
    return Kinematics.shared()


def test_panning_turns_the_tip_about_the_pan_axis(arm):
    q = np.array([0.0, -20, 30, 40, 10, 50])
    panned = np.array([90.0, -20, 30, 40, 10, 50])
    before, after = (arm.tip_m(pose) - [*PAN_AXIS_XY_M, 0.0] for pose in (q, panned))
    assert np.hypot(*before[:2]) == pytest.approx(np.hypot(*after[:2]))
    assert after[2] == pytest.approx(before[2])
    assert before[:2] @ after[:2] == pytest.approx(0.0, abs=1e-6)


def test_tip_takes_any_shape(arm):
    q = np.zeros((2, 3, 6))
    assert arm.tip_m(q).shape == (2, 3, 3)
    assert (arm.tip_m(q) == arm.tip_m(q[0, 0])).all()


def test_the_gripper_does_not_move_the_tip(arm):
    assert (arm.tip_m([0, 0, 0, 0, 0, 5]) == arm.tip_m([0, 0, 0, 0, 0, 95])).all()


def test_a_solution_brings_the_tip_there_and_leaves_the_wrist_alone(arm):
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(60):
        start = np.array([0.0, -30, 30, *rng.uniform(50, 80, 1), rng.uniform(-30, 30), 40])
        radius, azimuth = rng.uniform(0.2, 0.32), rng.uniform(-0.8, 0.8)
        target = np.array([radius * np.cos(azimuth), radius * np.sin(azimuth), rng.uniform(0.03, 0.08)])
        q = arm.solve(target, start)
        if q is None:
            continue
        solved += 1
        assert np.linalg.norm(arm.tip_m(q) - target) < TOLERANCE_M
        assert q[3:] == pytest.approx(start[3:])
        assert ((q_to_rad(q) >= MODEL_RANGE_RAD[:, 0]) & (q_to_rad(q) <= MODEL_RANGE_RAD[:, 1])).all()
    assert solved > 45


@pytest.mark.parametrize("target", [(1.0, 0.0, 0.2), (0.0, 0.0, 2.0)])
def test_what_is_out_of_reach_has_no_solution(arm, target):
    assert arm.solve(target, np.zeros(6)) is None


def test_shared_is_one_object():
    assert Kinematics.shared() is Kinematics.shared()
