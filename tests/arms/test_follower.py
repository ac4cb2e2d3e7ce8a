"""The follower without an arm: what it says, and what it doesn't do. With one: tests/hardware."""

import dataclasses
import json
import signal
import threading
import time
from pathlib import Path

import pytest

from so101walk.arms.follower import Follower, _SignalsTold
from so101walk.arms.servos import calibration_file
from so101walk.errors import HardwareError
from so101walk.rig import ArmConfig, Rig, load_rig


def rig(**arm: str) -> Rig:
    whole = load_rig("emulated")
    return dataclasses.replace(whole, arm=dataclasses.replace(whole.arm, **arm))


def test_nothing_is_open_and_nothing_is_complained_about() -> None:
    said: list[str] = []
    arm = Follower(rig(), say=said.append)
    arm.rest()
    arm.close()
    arm.close()
    assert said == []
    with pytest.raises(HardwareError, match="not connected"):
        arm.present()
    with pytest.raises(HardwareError, match="not connected"):
        arm.prepare()


@pytest.mark.parametrize(
    ("arm", "words"),
    [({"port": ""}, r"has no arm\.port"), ({"id": ""}, r"no arm\.id"), ({"port": "/dev/nothing"}, "exist")],
)
def test_what_is_missing_is_named(arm: dict[str, str], words: str) -> None:
    with pytest.raises(HardwareError, match=words):
        Follower(rig(**arm)).open()


def test_calibrations_are_looked_for_here_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LEROBOT_CALIBRATION", str(tmp_path / "lerobots"))
    config = ArmConfig(type="so101_follower", port="x", id="mine")
    with pytest.raises(HardwareError, match=r"no calibration mine\.json in calibration, .*lerobots.*calibrate arm"):
        calibration_file(config)
    theirs = tmp_path / "lerobots" / "robots" / "so_follower" / "mine.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    assert calibration_file(config) == theirs
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / "mine.json").write_text("{}")
    assert calibration_file(config) == Path("calibration/mine.json")
    named = dataclasses.replace(config, calibration_dir=str(theirs.parent))
    assert calibration_file(named) == theirs


def test_lerobots_folder_is_lerobots() -> None:
    from lerobot.utils.constants import HF_LEROBOT_CALIBRATION, ROBOTS

    from so101walk.arms.servos import lerobots_folder

    assert lerobots_folder() == HF_LEROBOT_CALIBRATION / ROBOTS / "so_follower"


def test_a_calibration_that_lacks_a_joint_is_refused(tmp_path: Path) -> None:
    stored = json.loads(Path(calibration_file(load_rig("emulated").arm)).read_text())
    del stored["gripper"]
    (tmp_path / "emulated.json").write_text(json.dumps(stored))
    with pytest.raises(HardwareError, match="says nothing about gripper"):
        Follower(rig(calibration_dir=str(tmp_path))).open()
    (tmp_path / "emulated.json").write_text("{torn")
    with pytest.raises(HardwareError, match="can't be read as LeRobot's calibration"):
        Follower(rig(calibration_dir=str(tmp_path))).open()


def test_signals_are_answered_with_words_while_the_arm_rests() -> None:
    told: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    with _SignalsTold(lambda: told.append(1)):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.raise_signal(number)
        time.sleep(0)
    assert len(told) == 4
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def inside() -> None:
        with _SignalsTold(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]
