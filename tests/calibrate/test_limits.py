import numpy as np
import pytest

from so101walk.calibrate.limits import joint_limits
from so101walk.errors import ConfigError
from so101walk.joints import MODEL_RANGE_RAD, TickScale, rad_to_q


def test_limits_are_the_models_less_the_margin():
    limits = joint_limits(5.0)
    low, high = rad_to_q(MODEL_RANGE_RAD.T)
    assert limits[:5] == pytest.approx(np.stack([low + 5, high - 5], axis=1)[:5], abs=0.011)
    assert limits[5].tolist() == [5.0, 95.0]
    assert limits[0].tolist() == [-105.0, 105.0]
    assert (limits == limits.round(2)).all()


@pytest.mark.parametrize("margin", [-1.0, 60.0, float("nan")])
def test_a_margin_out_of_range_is_refused(margin):
    with pytest.raises(ConfigError, match="it must be 0 to 45"):
        joint_limits(margin)


def test_a_measured_range_narrows_but_never_widens():
    model = TickScale.of_model()
    low, high = list(model.range_min), list(model.range_max)
    low[0], high[0] = low[0] - 200, high[0] + 200
    low[4], high[4] = 1024, 3072  # a stop a quarter turn to either side
    limits = joint_limits(5.0, TickScale(tuple(low), tuple(high)))
    usual = joint_limits(5.0)
    assert limits[[0, 5]].tolist() == usual[[0, 5]].tolist()
    assert limits[4] == pytest.approx([-85.02, 85.02], abs=0.011)
    assert (limits[:, 0] >= usual[:, 0]).all()
    assert (limits[:, 1] <= usual[:, 1]).all()


def test_a_range_with_nothing_left_is_refused():
    model = TickScale.of_model()
    low, high = list(model.range_min), list(model.range_max)
    low[2], high[2] = 2000, 2094
    with pytest.raises(ConfigError, match="elbow_flex: a margin of 5 deg leaves nothing"):
        joint_limits(5.0, TickScale(tuple(low), tuple(high)))
