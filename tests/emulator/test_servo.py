"""What the registers mean: offsets, clamps, locks, latches, power cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.emulator.registers import encode, factory_memory
from so101walk.emulator.servo import Servo

HEAT, OVERLOAD, VOLTAGE = 0x04, 0x20, 0x01


@pytest.fixture
def servo():
    servo = Servo(3)
    servo.raw_ticks = 1200.0
    servo.reboot()
    return servo


@given(st.integers(0, 4095), st.integers(-2047, 2047))
def test_present_is_raw_less_offset_within_one_turn(raw, offset):
    servo = Servo(1)
    servo.raw_ticks = float(raw)
    servo.put("Homing_Offset", offset)
    assert servo.get("Present_Position") == (raw - offset) % 4096


def test_with_phase_bit_4_positions_go_below_zero(servo):
    servo.put("Homing_Offset", 2000)
    assert servo.get("Present_Position") == 1200 - 2000 + 4096
    servo.put("Phase", servo.get("Phase") | 0x10)
    assert servo.get("Present_Position") == -800


def test_half_turn_homing_reads_the_middle(servo):
    servo.put("Homing_Offset", 1200 - 2047)
    assert servo.get("Present_Position") == 2047


def test_128_to_torque_makes_here_2048(servo):
    servo.put("Torque_Enable", 128)
    assert servo.get("Present_Position") == 2048
    assert servo.get("Torque_Enable") == 0


def test_goal_write_turns_torque_on_by_every_way(servo):
    for write in (servo.write, lambda a, d: (servo.reg_write(a, d), servo.action())):
        servo.put("Torque_Enable", 0)
        write(42, encode("Goal_Position", 1300))
        assert servo.torque_on


def test_out_of_range_goal_is_clamped_inside_and_shown_as_written(servo):
    servo.put("Min_Position_Limit", 800)
    servo.put("Max_Position_Limit", 3000)
    servo.put("Goal_Position", 4000)
    assert servo.get("Goal_Position") == 4000
    assert servo.settings.goal_ticks == 3000
    servo.put("Goal_Position", -100)
    assert servo.get("Goal_Position") == -100
    assert servo.settings.goal_ticks == 800


def test_torque_comes_on_where_the_goal_register_is(servo):
    """Case 3: a stale goal pulls as soon as torque is on."""
    servo.put("Goal_Position", 3000)
    servo.put("Torque_Enable", 0)
    assert servo.step(0.001) == 0.0
    servo.put("Torque_Enable", 1)
    for _ in range(20):
        torque = servo.step(0.001)
    assert torque > 0.5


def test_eeprom_is_kept_only_when_unlocked(servo):
    servo.put("P_Coefficient", 16)
    servo.put("Lock", 0)
    servo.put("Max_Torque_Limit", 500)
    servo.put("Lock", 1)
    servo.put("Homing_Offset", 77)
    assert (servo.get("P_Coefficient"), servo.get("Homing_Offset")) == (16, 77)
    servo.reboot()
    assert servo.get("Max_Torque_Limit") == 500
    assert servo.get("Torque_Limit") == 500
    assert servo.get("P_Coefficient") == 16  # written while locked, stored by the next write while unlocked
    assert servo.get("Homing_Offset") == 0


def test_eeprom_changes_are_told_once():
    told = []
    servo = Servo(1, on_eeprom=lambda: told.append(1))
    servo.put("Lock", 0)
    servo.put("P_Coefficient", 16)
    servo.put("P_Coefficient", 16)
    servo.put("Goal_Position", 100)
    assert len(told) == 1
    assert Servo(1, servo.eeprom).get("P_Coefficient") == 16


def test_reboot_resets_ram(servo):
    servo.put("Goal_Position", 3000)
    servo.put("Acceleration", 254)
    servo.raw_ticks = 1500.0
    servo.reboot()
    assert [servo.get(n) for n in ("Torque_Enable", "Acceleration", "Goal_Position", "Lock")] == [0, 0, 1500, 1]


def test_overload_latches_until_a_power_cycle(servo):
    servo.put("Goal_Position", 2000)
    servo.overload()
    assert servo.status & OVERLOAD
    assert servo.get("Status") & OVERLOAD
    servo.put("Torque_Enable", 0)
    assert servo.torque_on
    for _ in range(500):
        servo.step(0.001)
    assert abs(servo.get("Present_Load")) == 200
    servo.reboot()
    assert servo.status == 0
    servo.put("Torque_Enable", 1)
    assert servo.torque_on


def test_an_overloaded_limp_servo_stays_limp(servo):
    servo.overload()
    servo.put("Goal_Position", 2000)
    assert not servo.torque_on


def test_stalling_overloads_by_itself(servo):
    servo.put("Goal_Position", 3000)
    for _ in range(2500):
        servo.step(0.001)
    assert servo.status == OVERLOAD


def test_heat_releases_and_refuses_torque(servo):
    servo.put("Torque_Enable", 1)
    servo.motor.held_c = 75.0
    servo.step(0.001)
    assert not servo.torque_on
    assert servo.status & HEAT
    assert servo.get("Present_Temperature") == 75
    servo.put("Torque_Enable", 1)
    assert not servo.torque_on


@pytest.mark.parametrize(("volts", "bad"), [(7.4, False), (4.0, False), (3.9, True), (12.0, True)])
def test_voltage_outside_its_limits_sets_the_error(servo, volts, bad):
    servo.volts = volts
    assert servo.get("Present_Voltage") == round(volts * 10)
    assert bool(servo.status & VOLTAGE) == bad


def test_read_only_registers_ignore_writes(servo):
    servo.write(3, b"\x00\x00\x09")
    assert servo.get("Model_Number") == 777
    assert servo.ident == 9
    servo.write(56, b"\x01\x02")
    assert servo.get("Present_Position") == 1200


def test_reads_past_the_end_are_zero(servo):
    assert servo.read(84, 6)[3:] == b"\0\0\0"


def test_load_current_and_moving_follow_the_motor(servo):
    assert servo.get("Moving") == 0
    servo.put("Goal_Position", 1100)
    for _ in range(30):
        servo.step(0.001)
    assert servo.get("Moving") == 1 or servo.motor.track_ticks == 1100
    assert servo.get("Present_Load") < 0
    assert servo.get("Present_Current") > 50
    servo.speed_ticks_s = -300.0
    assert servo.get("Present_Velocity") == -300
    assert servo.get("Moving") == 1


def test_factory_reset_keeps_the_id(servo):
    servo.put("Lock", 0)
    servo.put("P_Coefficient", 99)
    servo.factory_reset()
    assert servo.eeprom == bytes(factory_memory(3)[:40])
