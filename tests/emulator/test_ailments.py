"""Faults of servos, supply and terminal: begun and ended."""

import pytest

from so101walk.emulator.ailments import Ailments
from so101walk.emulator.faults import Fault
from so101walk.emulator.servo import Servo


class Plug:
    """Stands in for the terminal: in or out."""

    def __init__(self):
        self.up = True

    def hang_up(self):
        self.up = False

    def open(self):
        self.up = True


@pytest.fixture
def arm():
    servos = [Servo(i + 1) for i in range(6)]
    for servo in servos:
        servo.put("Torque_Enable", 1)
    return servos, Plug()


def begin(arm, **fault):
    ailments = Ailments(*arm, 7.4)
    ailments.start(Fault(at_s=0.0, **fault), 100.0)
    return ailments


def test_silence_keeps_the_torque(arm):
    servos, _ = arm
    ailments = begin(arm, kind="silence", motor="wrist_flex", duration_s=1.0)
    assert [s.deaf for s in servos] == [False] * 3 + [True] + [False] * 2
    ailments.end(100.9)
    assert servos[3].deaf
    ailments.end(101.0)
    assert not servos[3].deaf
    assert servos[3].torque_on


def test_silence_for_ever(arm):
    ailments = begin(arm, kind="silence", motor="wrist_flex")
    ailments.end(1e9)
    assert arm[0][3].deaf


def test_overload_and_reboot(arm):
    servos, _ = arm
    begin(arm, kind="overload", motor="elbow_flex")
    assert servos[2].status == 0x20
    begin(arm, kind="reboot", motor="elbow_flex")
    assert servos[2].status == 0
    assert [s.torque_on for s in servos] == [True, True, False, True, True, True]


def test_a_deep_brownout_kills_and_reboots(arm):
    servos, _ = arm
    ailments = begin(arm, kind="brownout", volts=3.0, duration_s=0.5)
    assert ailments.supply_v == [3.0] * 6
    assert all(s.deaf for s in servos)
    assert not any(s.torque_on for s in servos)
    ailments.end(100.5)
    assert ailments.supply_v == [7.4] * 6
    assert not any(s.deaf or s.torque_on for s in servos)


def test_a_shallow_brownout_of_one_motor(arm):
    servos, _ = arm
    ailments = begin(arm, kind="brownout", volts=4.5, motor="gripper", duration_s=0.5)
    assert ailments.supply_v == [7.4] * 5 + [4.5]
    assert not servos[5].deaf
    assert servos[5].torque_on


def test_heat_lasts_its_time(arm):
    servos, _ = arm
    ailments = begin(arm, kind="heat", motor="gripper", celsius=66.0, duration_s=2.0)
    servos[5].step(0.001)
    assert servos[5].get("Present_Temperature") == 66
    ailments.end(102.0)
    assert servos[5].motor.held_c is None


def test_hangup_for_a_time(arm):
    ailments = begin(arm, kind="hangup", duration_s=0.2)
    assert not arm[1].up
    ailments.end(100.2)
    assert arm[1].up
