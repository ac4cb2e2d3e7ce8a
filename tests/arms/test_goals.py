"""Whatever is asked, what goes out is near the goal before, within the range, and a number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.arms.goals import Goals
from so101walk.errors import ConfigError
from so101walk.joints import TickScale
from so101walk.rig import ArmConfig

SCALE = TickScale.of_model()
STEP = ArmConfig(type="so101_follower", max_step_deg=5).max_step()
MIDDLE = np.full(6, 2047)

anything = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.tuples(*[anything] * 6), min_size=1, max_size=8))
def test_no_request_gets_through_unchecked(requests: list[tuple[float, ...]]) -> None:
    goals = Goals(SCALE, STEP)
    goals.hold(MIDDLE)
    for request in requests:
        before = goals.ticks.copy()
        ticks = goals.toward(request)
        assert (ticks >= SCALE.range_min).all()
        assert (ticks <= SCALE.range_max).all()
        moved = np.abs(SCALE.to_units(ticks) - SCALE.to_units(before))
        assert (moved <= STEP + 0.1).all(), "one tick is 0.088 deg"
        unknown = ~np.isfinite(request)
        assert (ticks[unknown] == before[unknown]).all()


def test_a_reachable_request_is_sent_as_lerobot_would() -> None:
    goals = Goals(SCALE, STEP)
    goals.hold(MIDDLE)
    request = np.array([1.0, -2.0, 3.0, 4.9, -4.9, 52.0])
    np.testing.assert_array_equal(goals.toward(request), SCALE.to_ticks(request))
    np.testing.assert_array_equal(goals.sent, SCALE.to_units(SCALE.to_ticks(request)))


def test_far_requests_are_reached_step_by_step() -> None:
    goals = Goals(SCALE, STEP)
    goals.hold(MIDDLE)
    sent = []
    for _ in range(11):
        goals.toward(np.array([40.0, 40, 40, 40, 40, 90]))
        sent.append(goals.sent)
    assert sent[0][0] == pytest.approx(5.0, abs=0.1)
    np.testing.assert_allclose(sent[-1], [40.0, 40, 40, 40, 40, 90], atol=0.1)


def test_a_pose_outside_the_range_is_held_at_its_edge() -> None:
    goals = Goals(SCALE, STEP)
    assert goals.hold(np.full(6, 4095)).tolist() == list(SCALE.range_max)


@pytest.mark.parametrize("value", [float("nan"), 0, -5])
def test_a_limit_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="max_step_deg"):
        ArmConfig(max_step_deg=value)


def test_a_request_of_the_wrong_length() -> None:
    goals = Goals(SCALE, STEP)
    with pytest.raises(ValueError, match=r"\(5,\)"):
        goals.toward(np.zeros(5))
