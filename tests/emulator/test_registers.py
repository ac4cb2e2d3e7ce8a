"""The memory map against LeRobot's, and the way values travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.emulator.registers import (
    EEPROM_END,
    FACTORY,
    MEMORY_SIZE,
    REGISTERS,
    SIGN_BIT,
    decode,
    encode,
    factory_memory,
    find,
)
from so101walk.errors import UsageError


def test_addresses_sizes_and_signs_are_lerobots():
    from lerobot.motors.feetech.tables import MODEL_ENCODING_TABLE, MODEL_NUMBER_TABLE, STS_SMS_SERIES_CONTROL_TABLE

    for name, place in REGISTERS.items():
        assert STS_SMS_SERIES_CONTROL_TABLE[name] == place, name
    theirs = MODEL_ENCODING_TABLE["sts3215"]
    assert {n: b for n, b in theirs.items() if n in REGISTERS} == SIGN_BIT
    assert FACTORY["Model_Number"] == MODEL_NUMBER_TABLE["sts3215"]


def test_registers_dont_overlap_and_fit():
    taken = [a + i for a, size in REGISTERS.values() for i in range(size)]
    assert len(taken) == len(set(taken))
    assert max(taken) < MEMORY_SIZE


@given(st.sampled_from(sorted(SIGN_BIT)), st.data())
def test_signed_values_survive(name, data):
    most = (1 << SIGN_BIT[name]) - 1
    value = data.draw(st.integers(-most, most))
    assert decode(name, encode(name, value)) == value


@pytest.mark.parametrize(
    ("name", "value", "wire"),
    [
        ("Goal_Position", -5, b"\x05\x80"),
        ("Homing_Offset", -154, b"\x9a\x08"),
        ("Homing_Offset", 3000, b"\xff\x07"),
        ("Present_Load", -1000, b"\xe8\x07"),
        ("Torque_Enable", 1, b"\x01"),
        ("Max_Torque_Limit", 1000, b"\xe8\x03"),
    ],
)
def test_wire_form(name, value, wire):
    assert encode(name, value) == wire


def test_a_new_servo_is_locked_limp_and_has_its_id():
    memory = factory_memory(4)
    assert memory[5] == 4
    assert memory[40] == 0
    assert memory[55] == 1
    assert decode("Model_Number", memory[3:5]) == 777
    assert EEPROM_END == 40


def test_unknown_register_is_named_with_the_nearest():
    with pytest.raises(UsageError, match=r"Torque_Enabel.*Torque_Enable"):
        find("Torque_Enabel")
