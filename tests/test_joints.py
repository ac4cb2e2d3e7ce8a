"""joints.py against the model it speaks of, and against LeRobot's own arithmetic."""

import xml.etree.ElementTree as ET
from importlib.metadata import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk import joints
from so101walk.joints import JOINTS, MODEL_RANGE_RAD, TickScale, q_to_rad, rad_to_q

unit = st.floats(0.0, 1.0)


def test_ranges_are_those_of_the_model_file() -> None:
    (model,) = [f for f in files("so101-nexus") or [] if str(f).endswith("SO101_menagerie/so101.xml")]
    root = ET.fromstring(model.read_text())
    ranges = {
        j.get("name"): [float(x) for x in j.get("range", "").split()] for j in root.iter("joint") if j.get("name")
    }
    np.testing.assert_array_equal([ranges[j] for j in JOINTS], MODEL_RANGE_RAD)


@given(st.lists(unit, min_size=6, max_size=6))
def test_units_to_radians_and_back(shares: list[float]) -> None:
    rad = MODEL_RANGE_RAD[:, 0] + np.array(shares) * (MODEL_RANGE_RAD[:, 1] - MODEL_RANGE_RAD[:, 0])
    np.testing.assert_allclose(q_to_rad(rad_to_q(rad)), rad, atol=1e-12)


def test_gripper_is_percent_of_its_range() -> None:
    q = rad_to_q(MODEL_RANGE_RAD.T)
    np.testing.assert_allclose(q[:, joints.GRIPPER], [0.0, 100.0], atol=1e-12)
    np.testing.assert_allclose(q[:, 0], np.degrees(MODEL_RANGE_RAD[0]), atol=1e-12)


def test_ticks_agree_with_lerobots_own_bus() -> None:
    from lerobot.motors import Motor, MotorCalibration, MotorNormMode
    from lerobot.motors.feetech import FeetechMotorsBus

    scale = TickScale.of_model()
    modes = [MotorNormMode.DEGREES] * 5 + [MotorNormMode.RANGE_0_100]
    bus = FeetechMotorsBus(
        port="none",
        motors={j: Motor(i + 1, "sts3215", m) for i, (j, m) in enumerate(zip(JOINTS, modes, strict=True))},
        calibration={
            j: MotorCalibration(i + 1, 0, 0, scale.range_min[i], scale.range_max[i]) for i, j in enumerate(JOINTS)
        },
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        ticks = rng.integers(scale.range_min, np.array(scale.range_max) + 1)
        theirs = bus._normalize({i + 1: int(t) for i, t in enumerate(ticks)})
        np.testing.assert_allclose(scale.to_units(ticks), [theirs[i + 1] for i in range(6)], atol=1e-9)
        q = scale.to_units(ticks) + rng.uniform(-0.2, 0.2, 6)
        theirs_ticks = bus._unnormalize({i + 1: float(v) for i, v in enumerate(q)})
        assert scale.to_ticks(q).tolist() == [theirs_ticks[i + 1] for i in range(6)]


def test_a_tick_is_under_a_tenth_of_a_degree() -> None:
    scale = TickScale.of_model()
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(scale.to_units(scale.to_ticks([1.0] * 6)), 1.0, atol=1e-6)
    np.testing.assert_allclose(scale.to_units(scale.to_ticks([10.0] * 6)), 10.0, atol=0.1)
