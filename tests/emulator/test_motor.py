"""The motor and its loop, on a joint of known inertia: lag, sag, speed, ramps and protection."""

import dataclasses
import itertools

import pytest

from so101walk.emulator.motor import (
    AMBIENT_C,
    CURRENT_BIT,
    DAMPING_NM_S,
    HEAT_BIT,
    NO_LOAD_TICKS_S,
    OVERLOAD_BIT,
    RATED_V,
    STALL_NM,
    TICKS_PER_RAD,
    Motor,
    Settings,
)

LEROBOT = Settings(
    goal_ticks=2000,
    top_ticks_s=0,
    acceleration_ticks_s2=0,
    dead_zone_ticks=1,
    p=16,
    d=32,
    limit=1.0,
    protective=0.2,
    overload=0.8,
    overload_s=2.0,
    current_a=3.25,
    current_s=2.0,
    hottest_c=70,
)
DT_S = 0.001
INERTIA_KG_M2 = 0.05


class Joint:
    """A motor with an inertia on it and a constant torque against it."""

    def __init__(self, settings=LEROBOT, load_nm=0.0, ticks=1000.0, volts=RATED_V):
        self.motor, self.s, self.load_nm, self.volts = Motor(), settings, load_nm, volts
        self.ticks, self.ticks_s, self.overloaded = ticks, 0.0, False
        self.bits = 0
        self.motor.start(ticks)

    def run(self, seconds, each=lambda _: None):
        for i in range(round(seconds / DT_S)):
            each(i)
            torque = self.motor.drive(self.s, self.ticks, self.ticks_s, self.volts, self.overloaded, DT_S)
            net = torque - self.load_nm - DAMPING_NM_S * self.ticks_s / TICKS_PER_RAD
            self.ticks_s += net / INERTIA_KG_M2 * TICKS_PER_RAD * DT_S
            self.ticks += self.ticks_s * DT_S
            self.bits |= self.motor.protect(self.s, DT_S)
        return self


def test_reaches_its_goal_without_ringing():
    highest = [0.0]
    joint = Joint()
    joint.run(1.5, lambda _: highest.__setitem__(0, max(highest[0], joint.ticks)))
    assert joint.ticks == pytest.approx(2000, abs=2)
    assert highest[0] < 2060


def test_sag_is_load_over_stiffness():
    joint = Joint(load_nm=0.9).run(2.0)
    assert 2000 - joint.ticks == pytest.approx(0.9 / 17.8 * TICKS_PER_RAD, abs=1.5)


def test_lags_a_moving_goal_by_77_ms():
    joint = Joint(dataclasses.replace(LEROBOT, goal_ticks=1000.0))

    def move(i):
        joint.s = dataclasses.replace(LEROBOT, goal_ticks=1000.0 + i)  # 1000 ticks/s

    joint.run(1.5, move)
    assert joint.s.goal_ticks - joint.ticks == pytest.approx(77, abs=3)


def test_no_load_speed_is_the_data_sheets():
    fast = dataclasses.replace(LEROBOT, goal_ticks=1e6, p=255, d=0)
    assert Joint(fast).run(1.5).ticks_s == pytest.approx(NO_LOAD_TICKS_S, rel=0.01)
    slow = dataclasses.replace(fast, top_ticks_s=500)
    assert Joint(slow).run(1.5).ticks_s == pytest.approx(500, rel=0.01)


def test_a_lower_supply_makes_it_slower():
    fast = dataclasses.replace(LEROBOT, goal_ticks=1e6, p=255, d=0)
    assert Joint(fast, volts=5.0).run(1.5).ticks_s == pytest.approx(NO_LOAD_TICKS_S * 5.0 / RATED_V, rel=0.02)


def test_torque_limit_and_protective_torque_bound_the_torque():
    far = dataclasses.replace(LEROBOT, goal_ticks=4000, limit=0.5)
    motor = Motor()
    motor.start(4000)
    assert motor.drive(far, 0.0, 0.0, RATED_V, False, DT_S) == pytest.approx(0.5 * STALL_NM)
    assert motor.drive(far, 0.0, 0.0, RATED_V, True, DT_S) == pytest.approx(0.2 * STALL_NM)
    assert motor.coast() == 0.0
    assert motor.duty == 0.0


def test_ramp_keeps_to_its_acceleration():
    ramp = dataclasses.replace(LEROBOT, acceleration_ticks_s2=2000.0, goal_ticks=2000.0)
    motor = Motor()
    motor.start(1000.0)
    track = []
    for _ in range(2000):
        motor.drive(ramp, 1000.0, 0.0, RATED_V, False, DT_S)
        track.append(motor.track_ticks)
    speed = [(b - a) / DT_S for a, b in itertools.pairwise(track)]
    change = [abs(b - a) / DT_S for a, b in itertools.pairwise(speed)]
    assert track[-1] == 2000.0
    assert max(track) <= 2000.0
    assert max(change[:-1200]) <= 2000.0 * 1.01
    # accelerate half way, brake half way: 2 sqrt(d / a)
    assert next(i for i, t in enumerate(track) if t == 2000.0) * DT_S == pytest.approx(
        2 * (1000 / 2000) ** 0.5, rel=0.05
    )


@pytest.mark.parametrize(
    ("hz", "acceleration", "keeps_up"), [(60, 25400.0, True), (200, 25400.0, False), (200, 0.0, True)]
)
def test_frequent_writes_hold_an_accelerated_ramp_back(hz, acceleration, keeps_up):
    """Told: at 200 Hz a non-zero acceleration (LeRobot's 254) restarts the ramp at every write."""
    settings = dataclasses.replace(LEROBOT, acceleration_ticks_s2=acceleration, goal_ticks=1000.0)
    joint = Joint(settings)

    def write(i):
        if i % (1000 // hz) == 0:
            joint.s = dataclasses.replace(settings, goal_ticks=1000.0 + 1.3 * i)
            joint.motor.restart_ramp(joint.s, joint.ticks_s)

    joint.run(1.5, write)
    behind_s = (joint.s.goal_ticks - joint.ticks) / 1300
    assert (behind_s < 0.15) == keeps_up
    assert keeps_up or behind_s > 0.4


def test_overload_trips_after_its_time_and_not_before():
    stuck = Joint(dataclasses.replace(LEROBOT, goal_ticks=4000))
    stuck.motor.start(4000)

    def stall(seconds):
        bits = 0
        for _ in range(round(seconds / DT_S)):
            stuck.motor.drive(stuck.s, 0.0, 0.0, RATED_V, False, DT_S)
            bits |= stuck.motor.protect(stuck.s, DT_S)
        return bits

    assert stall(1.9) == 0
    assert stall(0.2) == OVERLOAD_BIT


def test_too_much_current_trips():
    limited = dataclasses.replace(LEROBOT, goal_ticks=4000, current_a=1.6, overload=0.0)
    motor = Motor()
    motor.start(4000)
    bits = 0
    for _ in range(2100):
        motor.drive(limited, 0.0, 0.0, RATED_V, False, DT_S)
        bits |= motor.protect(limited, DT_S)
    assert bits == CURRENT_BIT


def test_heat_follows_load_and_trips():
    motor = Motor()
    motor.start(2100)
    held = dataclasses.replace(LEROBOT, goal_ticks=2100, limit=0.5)
    for _ in range(3000):  # 0.5 s steps: ten heat times
        motor.drive(held, 0.0, 0.0, RATED_V, False, DT_S)
        assert motor.protect(held, 0.5) & HEAT_BIT == 0
    assert motor.celsius == pytest.approx(AMBIENT_C + 20.0 * (0.006 + 1.2) ** 2, abs=0.5)
    motor.held_c = 75.0
    assert motor.protect(held, DT_S) & HEAT_BIT
    motor.held_c = None
    for _ in range(3000):
        motor.coast()
        motor.protect(held, 0.5)
    assert motor.celsius == pytest.approx(AMBIENT_C, abs=0.5)
