"""Thresholds and their durations, on made-up ticks."""

from typing import Any

import numpy as np
import pytest

from so101walk.arms.arm import Tick
from so101walk.joints import JOINTS
from so101walk.rig import SafetyConfig
from so101walk.safety.stops import EpisodeStop, error_bits
from so101walk.safety.watch import Watch

VOLTS = np.tile([4.0, 8.0], (6, 1))
CALM = {"current": 100.0, "voltage": 7.4, "temperature": 30.0, "status": 0.0, "rebooted": 0.0}


def tick(t_s: float, q: Any = 0.0, **extra: Any) -> Tick:
    """A calm tick but for what is given; ``joint=value`` pairs inside a mapping set single joints."""
    values = {name: np.full(6, usual) for name, usual in CALM.items()}
    for name, value in extra.items():
        for joint, v in value.items():
            values[name][JOINTS.index(joint)] = v
    position = np.full(6, 0.0)
    for joint, v in (q or {}).items() if isinstance(q, dict) else ():
        position[JOINTS.index(joint)] = v
    at = round(t_s * 1e9)
    return Tick(at, at + 1000, position, np.zeros(6, np.int64), np.zeros(6), np.zeros(6), values)


def first(watch: Watch, seconds: float, hz: float = 100.0, **what: Any) -> tuple[float, EpisodeStop] | None:
    for k in range(round(seconds * hz)):
        if (stop := watch.see(tick(k / hz, **what))) is not None:
            return k / hz, stop
    return None


def watch(**config: Any) -> Watch:
    return Watch(SafetyConfig(**config), VOLTS)


def test_a_calm_arm_is_left_alone() -> None:
    assert first(watch(), 5.0) is None


@pytest.mark.parametrize(
    ("what", "after_s", "response", "cause", "motor"),
    [
        ({"q": {"elbow_flex": 25.0}}, 0.5, "back_off", "tracking", "elbow_flex"),
        ({"q": {"gripper": -19.0}}, 0.5, "back_off", "tracking", "gripper"),
        ({"current": {"shoulder_lift": 1600.0}}, 1.0, "back_off", "current", "shoulder_lift"),
        ({"temperature": {"gripper": 60.0}}, 0.0, "cool_down", "temperature", "gripper"),
        ({"voltage": {"wrist_roll": 3.9}}, 0.1, "stop", "voltage", "wrist_roll"),
        ({"voltage": {"wrist_roll": 12.1}}, 0.1, "stop", "voltage", "wrist_roll"),
        ({"status": {"elbow_flex": 32.0}}, 0.0, "stop", "overload", "elbow_flex"),
        ({"status": {"elbow_flex": 1.0}}, 0.0, "stop", "input voltage", "elbow_flex"),
        ({"rebooted": {"wrist_flex": 1.0}}, 0.0, "stop", "reboot", "wrist_flex"),
        ({"q": {"wrist_flex": np.nan}}, 0.09, "stop", "silence", "wrist_flex"),
    ],
)
def test_each_threshold_after_its_time(what: Any, after_s: float, response: str, cause: str, motor: str) -> None:
    found = first(watch(), 3.0, **what)
    assert found is not None
    at_s, stop = found
    assert at_s == pytest.approx(after_s, abs=0.011)
    assert (stop.response, stop.cause, stop.motor) == (response, cause, motor)
    assert motor in str(stop)


@pytest.mark.parametrize(
    "what",
    [
        {"q": {"elbow_flex": 19.0}},
        {"q": {"gripper": 18.0}},
        {"current": {"elbow_flex": 1499.0}},
        {"temperature": {"gripper": 59.0}},
        {"status": {"gripper": 4.0}},
        {"rebooted": {"gripper": np.nan}},
    ],
)
def test_below_a_threshold_nothing_happens(what: Any) -> None:
    assert first(watch(), 3.0, **what) is None


def test_a_duration_begins_anew_when_all_is_well_between() -> None:
    w = watch()
    for k in range(400):
        off = {"elbow_flex": 25.0} if k % 40 else {"elbow_flex": 0.0}
        assert w.see(tick(k / 100, q=off)) is None
    assert w.see(tick(4.0, q={"elbow_flex": 25.0})) is None
    w.reset()
    assert w.see(tick(4.45, q={"elbow_flex": 25.0})) is None


def test_silence_names_who_and_counts_in_a_row() -> None:
    w = watch(bad_ticks=3)
    everyone = dict.fromkeys(JOINTS, np.nan)
    assert [w.see(tick(k / 100, q=everyone)) is None for k in range(3)] == [True, True, False]
    w.reset()
    for k in range(20):
        assert w.see(tick(k / 100, q={"gripper": np.nan} if k % 3 else {})) is None


def test_the_most_serious_comes_first() -> None:
    stop = watch().see(tick(0.0, temperature={"gripper": 70.0}, status={"elbow_flex": 32.0}))
    assert stop is not None
    assert stop.cause == "overload"


def test_error_bits_by_name() -> None:
    assert [name for name, _ in error_bits(0x21)] == ["input voltage", "overload"]
    assert [name for name, _ in error_bits(0x40)] == ["error bits 0x40"]
    assert error_bits(0) == []
