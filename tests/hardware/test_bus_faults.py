"""Replies that are broken, missing or late (field cases 1, 7, 9, 10), on the arm itself."""

import time
from typing import Any

import numpy as np
import pytest

from so101walk.arms.arm import Tick
from so101walk.arms.follower import Follower
from so101walk.arms.turns import _Order
from so101walk.emulator.faults import Fault
from so101walk.emulator.log import read_log
from so101walk.emulator.stage import Stage
from so101walk.errors import HardwareError
from so101walk.joints import JOINTS
from so101walk.motion import slow_path
from so101walk.safety.stops import EpisodeStop

from .conftest import CENTER, RESTING, Bench

ELBOW = JOINTS.index("elbow_flex")


def sway(arm: Follower, seconds: float, stage: Stage | None = None, fault: Fault | None = None) -> list[Tick]:
    """Every joint to and fro about where it is, at up to 25 deg/s; the ticks. The fault comes in its midst."""
    start = arm.sent()
    ticks: list[Tick] = []

    def setpoint(t: float) -> np.ndarray:
        return start + 8.0 * np.sin(np.pi * t) * np.ones(6)

    def on_tick(tick: Tick) -> None:
        ticks.append(tick)
        if stage is not None and fault is not None and len(ticks) == 5:
            stage.strike(fault)

    arm.follow(setpoint, arm.clock.now_ns(), seconds, on_tick)
    return ticks


def test_broken_replies_are_asked_for_again_and_a_missing_one_is_told(bench: Bench) -> None:
    stage = bench.stage()
    arm = bench.follower()
    try:
        once = sway(arm, 0.5, stage, Fault("corrupt", at_s=0.0, motor="wrist_flex", count=1))
        twice = sway(arm, 0.5, stage, Fault("corrupt", at_s=0.0, motor="wrist_flex", count=2))
        assert arm.wire.failed_reads == 3
        assert all(np.isfinite(t.q).all() for t in once + twice)

        ticks = sway(arm, 0.5, stage, Fault("drop", at_s=0.0, motor="elbow_flex", count=1))
        bad = [t for t in ticks if not np.isfinite(t.q).all()]
        assert len(bad) == 1
        assert np.flatnonzero(np.isnan(bad[0].q)).tolist() == [ELBOW]
        assert np.isnan(bad[0].extra["current"][ELBOW])
        assert np.isfinite(bad[0].sent).all(), "the arm is still led"

        silence = Fault("silence", at_s=0.0, motor="elbow_flex", duration_s=60.0)
        with pytest.raises(EpisodeStop, match=r"elbow_flex did not answer for 10 ticks in a row.*loose cable") as stop:
            sway(arm, 20.0, stage, silence)
        assert (stop.value.response, stop.value.motor) == ("stop", "elbow_flex")
    finally:
        arm.close()
    kept = list((bench.folder / "faults").glob("*.log"))
    assert len(kept) == 1
    lines = kept[0].read_text().splitlines()
    assert "elbow_flex did not answer" in lines[0]
    assert any("> ff ff fe" in line for line in lines)


def test_a_late_reply_is_never_taken_for_a_new_one(bench: Bench) -> None:
    stage = bench.stage()
    arm = bench.follower()
    try:
        sway(arm, 0.2)
        ticks = []
        for late_ms in (60.0, 150.0):
            ticks += sway(arm, 1.0, stage, Fault("delay", at_s=0.0, delay_ms=late_ms, count=1))
    finally:
        arm.close()
    bench.close()
    assert sum(not np.isfinite(t.q).all() for t in ticks) >= 1
    truth = read_log(bench.log)
    good = [t for t in ticks if np.isfinite(t.q).all()]
    # A stale sample is at least 60 ms old, 1.5 deg at the sway's mean speed: a fair reading lies in what the arm did
    # between request and reply, give or take a tick.
    for t in good:
        around = truth.q_at(np.linspace(t.t_before_ns - 2e6, t.t_after_ns + 2e6, 9).astype(np.int64))
        assert (t.q >= around.min(axis=0) - 0.3).all(), t
        assert (t.q <= around.max(axis=0) + 0.3).all(), t


def test_what_is_asked_what_is_sent_and_what_never_reaches_the_bus(bench: Bench) -> None:
    bench.stage()
    arm = bench.follower(bench.rig(max_step_deg=5))
    start = arm.sent()
    asked = {
        0.0: start + 40.0,
        0.2: np.full(6, np.nan),
        0.4: np.where(np.arange(6) == 2, np.nan, start),
        0.6: start,
    }

    def setpoint(t: float) -> np.ndarray:
        return asked[max(k for k in asked if k <= t)]

    ticks: list[Tick] = []
    try:
        arm.follow(setpoint, arm.clock.now_ns(), 0.8, ticks.append)
        scale = arm.wire.scale
    finally:
        arm.close()
    bench.close()
    sent = np.array([t.sent for t in ticks])
    request = np.array([t.request for t in ticks])
    assert np.isfinite(sent).all()
    assert np.isnan(request).any(), "the request is kept as it was"
    step = np.abs(np.diff(sent, axis=0))
    assert step[:, :5].max() <= 5.0 + 0.1
    assert step[:, 5].max() <= 5.0 * 100 / 110 + 0.1
    assert (sent[0] - start).max() <= 5.1, "not forty degrees at once"
    silent = np.isnan(request).all(axis=1)
    assert silent.any()
    assert (np.diff(sent[silent], axis=0) == 0).all(), "NaN holds"
    elbow_only = np.isnan(request[:, 2]) & ~silent
    assert elbow_only.any()
    assert (np.diff(sent[elbow_only][:, 2]) == 0).all(), "a missing joint holds"
    goals = np.unique(read_log(bench.log).goal_ticks[:, 2])
    low, high = scale.range_min[2], scale.range_max[2]
    assert ((goals >= low) & (goals <= high)).all()
    assert set(scale.to_ticks(sent[:, :] + 1e-9)[:, 2]) <= set(goals.tolist()), "what was told as sent is what arrived"


@pytest.mark.parametrize("action", ["take", "hangup"])
def test_torque_comes_on_where_the_arm_is(bench: Bench, action: str) -> None:
    stage = bench.stage(at=None)  # limp, as it lies
    arm = Follower(bench.rig())
    arm.connect()
    before = stage.state()
    try:
        wire, turns = arm.wire, arm._turns
        assert turns is not None
        for joint in JOINTS:  # somebody left far goals in the registers, torque off
            turns._orders.put(_Order(lambda j=joint: wire.put("Goal_Position", j, 2647)))
            last = _Order(lambda j=joint: wire.put("Torque_Enable", j, 0))
            turns._orders.put(last)
        assert last.done.wait(10)
        if action == "hangup":
            stage.strike(Fault("hangup", at_s=0.0))
            with pytest.raises(HardwareError, match=r"port .* is gone"):
                _until_raises(arm.prepare)
            assert not any(stage.state().torque)
            return
        settled = stage.state()
        arm.prepare()
        ready = stage.state()
        assert all(ready.torque)
        assert np.abs(ready.q - settled.q).max() < 10 * 360 / 4096 * 1.2
        assert np.abs(before.q - ready.q).max() < 20
        assert [ready.register(j, "Goal_Position") for j in JOINTS] != [2647] * 6
    finally:
        arm.close()


def _until_raises(action: Any) -> None:
    for _ in range(50):
        action()
        time.sleep(0.02)


def test_the_way_to_rest_ends_limp_at_the_rest_pose(bench: Bench) -> None:
    stage = bench.stage()
    arm = bench.follower()
    path = slow_path(arm.sent(), CENTER, bench.rig().limits)
    arm.follow(path.at, arm.clock.now_ns(), path.duration_s)
    np.testing.assert_allclose(stage.state().q, CENTER, atol=6.0)
    arm.rest()
    assert not any(stage.state().torque)
    arm.prepare()
    assert all(stage.state().torque), "a rest is not the end"
    arm.close()
    arm.close()
    assert not any(stage.state().torque)
    bench.close()
    truth = read_log(bench.log)
    released = int(np.flatnonzero(truth.torque.max(axis=1) > 0)[-1])
    np.testing.assert_allclose(truth.q[released], RESTING, atol=8.0)
