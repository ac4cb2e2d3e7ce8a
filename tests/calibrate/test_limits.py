import numpy as np
import pytest

from so101walk.calibrate.limits import joint_limits
from so101walk.errors import ConfigError
from so101walk.joints import MODEL_RANGE_RAD, rad_to_q


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
