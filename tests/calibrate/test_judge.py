import numpy as np
import pytest
from scipy import stats

from so101walk.calibrate.judge import judge, judge_walk, upper_bound
from so101walk.envelope import Envelope, load_envelope
from so101walk.joints import JOINTS
from so101walk.rig import LimitsConfig

NARROW = Envelope(
    "narrow", np.zeros(6), np.full(6, 10.0), np.array([-10.0, *[-35.0] * 5]), np.array([20.0, *[35.0] * 5]), None
)


def test_the_upper_bound_is_clopper_and_pearsons():
    assert upper_bound(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert stats.binom.cdf(7, 500, upper_bound(7, 500)) == pytest.approx(0.05)
    assert upper_bound(5, 5) == 1.0


def test_acceptance_and_causes_are_those_of_the_normal_law():
    judged = judge(NARROW, 20_000, np.random.default_rng(0))
    first = stats.norm.cdf(-1.0) + stats.norm.sf(2.0)
    other = 2 * stats.norm.sf(3.5)
    assert judged.leave_by_limit["shoulder_pan"] == pytest.approx(first)
    assert judged.leave_by_limit["gripper"] == pytest.approx(other)
    assert judged.accept == pytest.approx((1 - first) * (1 - other) ** 5, abs=0.011)
    assert sum(judged.causes.values()) == pytest.approx(1 - judged.accept)
    assert next(iter(judged.causes)) == "limit:shoulder_pan"
    assert judged.leave_upper > 1 - judged.accept
    assert judged.coverage["shoulder_pan"] == pytest.approx(30.0 / 220.0, rel=1e-3)


def test_the_shipped_envelope_is_left_with_a_chance_of_one_percent_at_most():
    """A sample of its own. Were it left with 1.5 % of poses, this would fail with a chance of 98 %."""
    judged = judge(load_envelope("so101-tabletop"), 8_000, np.random.default_rng(7))
    assert 1 - judged.accept <= 0.0125
    assert set(judged.leave_by_limit) == set(judged.coverage) == set(JOINTS)
    assert min(judged.coverage.values()) > 0.35


def test_a_larger_walk_would_leave_the_shipped_one_more_often():
    e = load_envelope("so101-tabletop")
    larger = Envelope("larger", e.center, 1.15 * e.scale, e.lower, e.upper, e.clearance)
    assert judge(larger, 4_000, np.random.default_rng(8)).accept < 0.985


def test_a_walk_is_refused_about_as_often_as_a_pose():
    walked = judge_walk(NARROW, 0.9, 2_400, LimitsConfig(), 30.0, np.random.default_rng(1))
    assert walked.steps == 2_400
    assert sum(walked.causes.values()) == pytest.approx(walked.rejected)
    assert set(walked.causes) <= {f"limit:{j}" for j in JOINTS}
    assert 0.05 < walked.rejected < 0.2
    assert walked.rejected_between == 0.0
    assert walked.step_s == pytest.approx(0.5, abs=0.01)


def test_slow_limits_stretch_the_walk():
    slow = judge_walk(NARROW, 0.9, 240, LimitsConfig(10.0, 50.0), 30.0, np.random.default_rng(2))
    assert slow.stretched > 0.9
    assert slow.step_s > 0.6
