"""The arm's physics behind the servos: it falls, it is held, a hand moves it."""

import numpy as np
import pytest

from so101walk.emulator.assembly import calibrated_eeprom, rad_to_raw
from so101walk.emulator.body import FOLDED_RAD, PHYSICS_HZ, Body
from so101walk.emulator.hand import Hand
from so101walk.emulator.motor import TICKS_PER_RAD
from so101walk.emulator.servo import Servo
from so101walk.joints import MODEL_RANGE_RAD

LEVEL_RAD = np.radians([0.0, 55.0, -55.0, 0.0, 0.0, 30.0])  # reaching out ahead, the heaviest pose for the shoulder


@pytest.fixture(scope="module")
def body():
    return Body()


def run(body, servos, seconds):
    for _ in range(round(seconds * PHYSICS_HZ)):
        raw, speed = rad_to_raw(body.rad), body.rad_s * TICKS_PER_RAD
        for servo, at, by in zip(servos, raw, speed, strict=True):
            servo.raw_ticks, servo.speed_ticks_s = float(at), float(by)
        body.step([s.step(body.dt_s) for s in servos])


def powered(body):
    servos = [Servo(i + 1, calibrated_eeprom(i)) for i in range(6)]
    for servo, raw in zip(servos, rad_to_raw(body.rad), strict=True):
        servo.raw_ticks = float(raw)
        servo.reboot()
        servo.put("P_Coefficient", 16)  # LeRobot's
        servo.put("Torque_Enable", 1)
    return servos


def test_it_starts_folded_and_at_rest(body):
    fresh = Body()
    assert np.abs(np.degrees(fresh.rad - FOLDED_RAD)).max() < 30
    before = fresh.rad.copy()
    for _ in range(500):
        fresh.step(0.0)
    assert np.abs(np.degrees(fresh.rad - before)).max() < 0.5


def test_held_it_sags_by_a_few_degrees(body):
    body.place(LEVEL_RAD)
    run(body, powered(body), 2.0)
    sag = np.degrees(np.abs(body.rad - LEVEL_RAD))
    assert 1.5 < sag[1] < 4.0
    assert sag[0] < 0.2
    assert np.abs(body.rad_s).max() < 0.02


def test_limp_it_falls(body):
    body.place(LEVEL_RAD)
    servos = powered(body)
    for servo in servos:
        servo.put("Torque_Enable", 0)
    run(body, servos, 1.0)
    assert np.degrees(body.rad - LEVEL_RAD)[1] > 10


def test_overload_of_the_shoulder_lets_it_sink(body):
    body.place(LEVEL_RAD)
    servos = powered(body)
    servos[1].overload()
    run(body, servos, 1.5)
    assert np.degrees(body.rad - LEVEL_RAD)[1] > 8


def test_it_moves_to_a_goal(body):
    body.place(np.zeros(6))
    servos = powered(body)
    for servo in servos:
        servo.put("Goal_Position", 2047 + 200)
    run(body, servos, 1.5)
    shown = np.array([s.get("Present_Position") for s in servos])
    assert np.abs(shown - 2247).max() < 40


def test_it_stays_within_its_ranges(body):
    body.place(np.zeros(6))
    servos = powered(body)
    for servo in servos:
        servo.put("Min_Position_Limit", 0)
        servo.put("Max_Position_Limit", 4095)
        servo.put("Goal_Position", 4095)
    run(body, servos, 1.5)
    assert np.all(body.rad <= MODEL_RANGE_RAD[:, 1] + np.radians(2))


def test_a_hand_moves_it_whatever_the_motors_do(body):
    hand = Hand("sway")
    body.take(hand)
    for _ in range(1000):
        body.step(1.9)
    np.testing.assert_allclose(body.rad, hand.at(1.0), atol=1e-9)
    assert np.abs(body.rad_s).max() > 0.05
    body.take(None)
    assert np.all(body.rad_s == 0)


def test_place_is_cut_to_the_ranges(body):
    body.place(np.full(6, 9.0))
    np.testing.assert_allclose(body.rad, MODEL_RANGE_RAD[:, 1])
