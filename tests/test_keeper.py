"""Breaks, second tries and refusals of a real session, with an arm that only remembers."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from so101walk.arms.arm import Tick
from so101walk.clock import VirtualClock
from so101walk.envelope import load_envelope
from so101walk.keeper import Keeper
from so101walk.latencies import Latencies
from so101walk.policies.load import load_policy
from so101walk.real import RealRig
from so101walk.recording import Interrupted, Recording
from so101walk.rig import SafetyConfig, load_rig
from so101walk.safety.stops import EpisodeStop
from so101walk.walk import Plan, episode_rng, plan_episode

ENVELOPE = load_envelope("so101-tabletop")


class Arm:
    """Goes wherever it is told at once."""

    simulated = False

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.q = np.array(ENVELOPE.center)
        self.done: list[Any] = []
        self.heat = [62.0, 55.0, 51.0, 49.0]
        self.turns = self.missed = 0

    def prepare(self) -> None:
        self.done.append("prepare")

    def sent(self) -> np.ndarray:
        return self.q

    def follow(self, setpoint: Any, start_ns: int, duration_s: float, on_tick: Any = None) -> None:
        self.q = setpoint(duration_s)
        self.done.append(self.q.round(3).tolist())
        if on_tick is not None:
            on_tick(None)

    def rest(self) -> None:
        self.done.append("rest")

    def hottest(self) -> float:
        return self.heat.pop(0)


class Way:
    def to_center(self, q: Any) -> list[Any]:
        return [ENVELOPE.center]

    def walked(self, waypoints: Any) -> None:
        self.waypoints = waypoints


@pytest.fixture
def plan() -> Plan:
    rig = load_rig("emulated")
    return plan_episode(load_policy("ou", {}).make(), ENVELOPE, rig.limits, 30, 90, episode_rng(1, 0))


def keeper(arm: Arm, stop: Any = lambda: False, before: Any = None, **safety: Any) -> tuple[Keeper, list[str]]:
    said: list[str] = []
    rig = dataclasses.replace(load_rig("emulated"), safety=SafetyConfig(**safety))
    bench: Any = RealRig(arm, {}, Way(), Latencies("none"))  # type: ignore[arg-type]
    return Keeper(bench, rig, stop, before, said.append), said


def recording(q: np.ndarray, hz: float, **more: Any) -> Recording:
    ticks = []
    for k, row in enumerate(q):
        at = round(k * 1e9 / hz)
        ticks.append(Tick(at, at, row, np.zeros(6, np.int64), row, row, {}))
    values: dict[str, Any] = {"bad_ticks": 0, "repeated": {}, "skipped": {}, "seconds": len(q) / hz}
    return Recording(ticks=ticks, captures={}, **{**values, **more})


def test_an_episode_begins_by_the_center_after_one_announcement(plan: Plan) -> None:
    arm, announced = Arm(), []
    k, _ = keeper(arm, before=lambda: announced.append(len(arm.done)))
    k.to_start(plan)
    k.to_start(plan)
    assert announced == [0], "once, before torque"
    there = [ENVELOPE.center.round(3).tolist(), plan.q[0].round(3).tolist()]
    assert arm.done == ["prepare", *there, "prepare", *there]


def test_a_stop_on_the_way_is_heard(plan: Plan) -> None:
    k, _ = keeper(Arm(), stop=lambda: True)
    with pytest.raises(Interrupted):
        k.to_start(plan)


def test_back_off_to_the_last_waypoint_that_was_reached(plan: Plan) -> None:
    arm = Arm()
    k, said = keeper(arm)
    frames = int(plan.path.arrivals[2]) + 3
    k.recover(EpisodeStop("back_off", "tracking", "elbow_flex is off", "elbow_flex"), plan, frames)
    assert arm.done == [plan.q[2].round(3).tolist()]
    assert said == ["elbow_flex is off. Backing off to waypoint 2"]


def test_cooling_down_waits_for_the_second_threshold(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("so101walk.keeper.POLL_S", 0.0)
    arm = Arm()
    k, said = keeper(arm)
    k.recover(EpisodeStop("cool_down", "temperature", "gripper: 62 C", "gripper"), plan, 0)
    assert arm.done == ["rest"]
    assert arm.heat == []
    assert "62 C, waiting for 50 C" in said[1]


def test_a_stop_is_passed_on(plan: Plan) -> None:
    k, _ = keeper(Arm())
    with pytest.raises(EpisodeStop, match="overload"):
        k.recover(EpisodeStop("stop", "overload", "elbow_flex: overload"), plan, 0)


def test_breaks_come_after_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("so101walk.keeper.time.monotonic", lambda: now[0])
    monkeypatch.setattr("so101walk.keeper.time.sleep", lambda s: now.__setitem__(0, now[0] + 30))
    arm = Arm()
    k, said = keeper(arm, work_minutes=20, rest_minutes=5, max_minutes=60)
    now[0] += 19 * 60
    k.between()
    assert arm.done == []
    now[0] += 2 * 60
    before = now[0]
    k.between()
    assert arm.done == ["rest"]
    assert 5 * 60 <= now[0] - before <= 5 * 60 + 60
    assert "rests for 5 min after 20 at work" in said[0]
    k.between()
    assert arm.done == ["rest"], "the next break comes after more work"
    assert not k.time_is_up()
    now[0] += 60 * 60
    assert k.time_is_up()
    unlimited, _ = keeper(arm)
    now[0] += 1e6
    unlimited.between()
    assert not unlimited.time_is_up()


def test_what_spoils_an_episode(plan: Plan) -> None:
    k, _ = keeper(Arm())
    good = np.zeros((300, 6))
    assert k.refusal(recording(good, 100.0), plan) is None
    slow = k.refusal(recording(good, 1 / 0.045), plan)
    assert slow is not None
    assert "joints were read 22.2 times a second, 26% less than the dataset's 30 frames" in slow
    frozen = k.refusal(recording(good, 100.0, frozen={"front": 20}), plan)
    assert frozen is not None
    assert "20 images in a row" in frozen
    assert k.refusal(recording(good, 100.0, frozen={"front": 4}), plan) is None
    repeats = k.refusal(recording(good, 100.0, repeated={"front": 10}), plan)
    assert repeats is not None
    assert "10 of 90 frames" in repeats
    assert k.refusal(recording(good, 100.0, repeated={"front": 9}), plan) is None
    paused = recording(good, 100.0)
    late = [
        dataclasses.replace(t, t_before_ns=t.t_before_ns + 390_000_000, t_after_ns=t.t_after_ns + 390_000_000)
        for t in paused.ticks[150:]
    ]
    hole = k.refusal(dataclasses.replace(paused, ticks=[*paused.ticks[:150], *late]), plan)
    assert hole is not None
    assert "1 gap in the joint readings, the widest 400 ms before row 45" in hole
    holes = good.copy()
    holes[50:52, 2] = np.nan
    assert k.refusal(recording(holes, 100.0), plan) is None, "a missing reading now and then is only counted"


def test_details_tell_the_loop(plan: Plan) -> None:
    arm = Arm()
    k, _ = keeper(arm)
    k.to_start(plan)
    arm.turns, arm.missed = 310, 2
    q = np.zeros((300, 6))
    q[10] = np.nan
    told = k.details(recording(q, 100.0, unread={"elbow_flex": 1}))
    assert told["loop"]["turns"] == 310
    assert told["loop"]["missed_deadlines"] == 2
    assert told["loop"]["read_interval_ms"]["median"] == pytest.approx(10.0)
    assert told["loop"]["read_interval_ms"]["max"] == pytest.approx(20.0)
    assert told["unread"] == {"elbow_flex": 1}
