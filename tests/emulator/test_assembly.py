"""The arm's own calibration is consistent with its encoders, with LeRobot's file and with the one that ships."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from so101walk.config import data_dir
from so101walk.emulator.assembly import (
    HOMING_OFFSET,
    MIDDLE,
    calibrated_eeprom,
    calibration,
    rad_to_raw,
    raw_to_rad,
    write_calibration,
)
from so101walk.emulator.servo import Servo
from so101walk.joints import JOINTS, MODEL_RANGE_RAD, TickScale, rad_to_q

ANGLES = st.tuples(*[st.floats(low, high) for low, high in MODEL_RANGE_RAD])


@given(ANGLES)
def test_ticks_and_angles_are_inverse(rad):
    np.testing.assert_allclose(raw_to_rad(rad_to_raw(rad)), rad, atol=1e-12)


@given(ANGLES)
def test_registers_show_the_joints_in_lerobots_units(rad):
    shown = []
    for i, raw in enumerate(rad_to_raw(rad)):
        servo = Servo(i + 1, calibrated_eeprom(i))
        servo.raw_ticks = float(raw)
        shown.append(servo.get("Present_Position"))
    # half a tick of rounding, and LeRobot's 4095 ticks to the turn where the encoder has 4096
    np.testing.assert_allclose(TickScale.of_model().to_units(shown), rad_to_q(rad), atol=0.13)


def test_file_and_servos_agree(tmp_path):
    table = json.loads(write_calibration(tmp_path / "new", "arm7").read_text())
    assert list(table) == list(JOINTS)
    for i, name in enumerate(JOINTS):
        servo = Servo(i + 1, calibrated_eeprom(i))
        assert table[name]["id"] == servo.ident
        assert table[name]["homing_offset"] == servo.get("Homing_Offset")
        assert table[name]["range_min"] == servo.get("Min_Position_Limit")
        assert table[name]["range_max"] == servo.get("Max_Position_Limit")
        assert table[name]["drive_mode"] == 0
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["arm7.json"]


def test_the_file_that_ships_is_this_arms():
    assert json.loads((data_dir("calibration") / "emulated.json").read_text()) == calibration()


def test_no_joint_crosses_the_encoders_seam():
    ends = rad_to_raw(MODEL_RANGE_RAD.T)
    assert np.all((ends > 0) & (ends < 4095))
    assert len(set(HOMING_OFFSET)) == 6
    assert max(map(abs, HOMING_OFFSET)) < 4096 / 25 + 4  # a tooth of the horn's spline
    assert MIDDLE == 2047
