"""The timeline and what it does to replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.emulator.bus import Reply, packet_bytes
from so101walk.emulator.faults import Fault, Mischief, Timeline, load_faults
from so101walk.errors import ConfigError

REPLIES = [Reply(i, packet_bytes(i, 0, b"\x01\x02")) for i in range(1, 7)]


def load(tmp_path, text, cameras=None):
    path = tmp_path / "faults.toml"
    path.write_text(text)
    return load_faults(path, cameras)


def test_a_whole_file(tmp_path):
    faults = load(
        tmp_path,
        """
        [[fault]]
        kind = "drop"
        at_tick = 150
        since = "torque"
        motor = "elbow_flex"
        count = 3
        [[fault]]
        kind = "slow_camera"
        at_s = 0
        camera = "front"
        fps = 18
        """,
        ["front"],
    )
    assert faults == (
        Fault("drop", at_tick=150, since="torque", motor="elbow_flex", count=3),
        Fault("slow_camera", at_s=0.0, camera="front", fps=18.0),
    )
    assert load(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "drp"\nat_s = 1', "did you mean 'drop'"),
        ('kind = "drop"\nat = 1', "unknown key 'at'"),
        ('kind = "drop"', "one of at_s and at_tick"),
        ('kind = "drop"\nat_s = 1\nat_tick = 1', "one of at_s and at_tick"),
        ('kind = "drop"\nat_s = -1', "at_s is -1"),
        ('kind = "drop"\nat_s = nan', "at_s is nan"),
        ('kind = "drop"\nat_s = 1\nmotor = "elbow"', "did you mean 'elbow_flex'"),
        ('kind = "drop"\nat_s = 1\ncount = 0', "count is 0"),
        ('kind = "drop"\nat_s = 1\ncount = 1\nduration_s = 2', "count or duration_s"),
        ('kind = "drop"\nat_s = 1\nvolts = 3', "drop has no volts; it takes motor, count, duration_s"),
        ('kind = "delay"\nat_s = 1', "delay needs delay_ms"),
        ('kind = "heat"\nat_s = 1\nmotor = "gripper"', "heat needs celsius"),
        ('kind = "drop_camera"\nat_s = 1', "drop_camera needs camera"),
        ('kind = "freeze_camera"\nat_s = 1\ncamera = "frnt"', "did you mean 'front'"),
    ],
)
def test_every_key_is_checked(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        load(tmp_path, "[[fault]]\n" + text, ["front", "wrist"])
    assert "faults.toml" in str(error.value)
    assert "fault[0]" in str(error.value)


def test_timeline_by_seconds_and_by_ticks():
    late, early = Fault("hangup", at_s=2.0), Fault("drop", at_tick=3)
    timeline = Timeline([late, early])
    assert timeline.due(1.9) == []
    timeline.tick()
    timeline.tick()
    assert timeline.due(1.95) == []
    timeline.tick()
    assert timeline.due(1.96) == [early]
    assert timeline.due(2.0) == [late]
    assert timeline.due(9.0) == []


def test_timeline_since_torque():
    timeline = Timeline([Fault("hangup", at_s=2.0, since="torque"), Fault("drop", at_tick=2, since="torque")])
    for _ in range(5):
        timeline.tick()
    assert timeline.due(100.0) == []
    timeline.torque(100.0)
    timeline.torque(101.0)
    timeline.tick()
    assert timeline.due(101.9) == []
    timeline.tick()
    assert [f.kind for f in timeline.due(101.9)] == ["drop"]
    assert [f.kind for f in timeline.due(102.0)] == ["hangup"]


@given(
    st.lists(st.builds(Fault, st.just("drop"), st.floats(0, 10)), max_size=6), st.lists(st.floats(0, 12), max_size=8)
)
def test_each_fault_happens_once_and_not_before_its_time(faults, moments):
    timeline = Timeline(faults)
    done = []
    for now_s in [*sorted(moments), 12.0]:
        due = timeline.due(now_s)
        assert all(f.at_s <= now_s for f in due)
        done += due
    assert sorted(f.at_s for f in done) == sorted(f.at_s for f in faults)


def start(**kind):
    mischief = Mischief()
    mischief.start(Fault(at_s=0.0, **kind), 10.0)
    return mischief


def test_no_fault_passes_all_on():
    assert Mischief().pass_on(REPLIES, 3.0) == [(3.0, r.data) for r in REPLIES]


def test_drop_takes_the_named_motors_replies():
    mischief = start(kind="drop", motor="elbow_flex", count=2)
    for _ in range(2):
        assert [d[2] for _, d in mischief.pass_on(REPLIES, 10.0)] == [1, 2, 4, 5, 6]
    assert len(mischief.pass_on(REPLIES, 10.0)) == 6


def test_corrupt_breaks_only_the_checksum():
    mischief = start(kind="corrupt")
    (_, first), (_, second), *_ = mischief.pass_on(REPLIES, 10.0)
    assert first[:-1] == REPLIES[0].data[:-1]
    assert first[-1] != REPLIES[0].data[-1]
    assert second == REPLIES[1].data
    assert mischief.pass_on(REPLIES, 10.0)[0][1] == REPLIES[0].data


def test_delay_holds_back_the_rest_of_the_instruction_once():
    mischief = start(kind="delay", delay_ms=60.0, motor="shoulder_lift")
    times = [t for t, _ in mischief.pass_on(REPLIES, 10.0)]
    assert times == pytest.approx([10.0] + [10.06] * 5)
    assert [t for t, _ in mischief.pass_on(REPLIES, 11.0)] == [11.0] * 6


def test_a_lasting_delay_makes_each_instruction_late_once():
    mischief = start(kind="delay", delay_ms=45.0, duration_s=10.0)
    for now_s in (10.0, 15.0, 19.9):
        assert [t for t, _ in mischief.pass_on(REPLIES, now_s)] == pytest.approx([now_s + 0.045] * 6)
    assert [t for t, _ in mischief.pass_on(REPLIES, 20.0)] == [20.0] * 6


def test_describe_says_what():
    text = Fault("heat", at_tick=9, motor="gripper", celsius=80.0).describe()
    assert text == "heat motor=gripper celsius=80.0"
