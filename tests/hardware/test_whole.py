"""The commands a user gives, one after the other, on the virtual arm: `emulate`, `doctor`, `collect`, `check`."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from so101walk.config import data_dir
from so101walk.dataset.reader import Dataset
from so101walk.emulator import strip
from so101walk.emulator.assembly import HOMING_OFFSET
from so101walk.emulator.hand import SWEEP_S
from so101walk.emulator.log import Truth, read_log
from so101walk.emulator.stage import Stage
from so101walk.joints import JOINTS, TickScale

from .conftest import free_port

SHIPPED = {"/tmp/so101-emulated": "arm", "5601": "front", "5602": "wrist"}
"""What collect/emulated.toml names; a test takes places of its own, so that it meets no other emulator."""

NEAR_MS, FAR_MS = 40.0, 80.0
"""Median and 99 % of the time between an image and its joints. Unsynchronised ones are a frame (33 ms) and an unknown
delay apart; benchmarks/cadence.py measures how near they truly come, this must not fail on a busy machine."""


def so101walk(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "so101walk", *words], capture_output=True, text=True, cwd=folder, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def served(tmp_path: Path) -> Iterator[None]:
    """A folder whose rig `emulated` is the shipped one at places of its own, while `so101walk emulate` serves it."""
    front, wrist = free_port(), free_port()
    places = dict(zip(SHIPPED, (str(tmp_path / "arm"), str(front), str(wrist)), strict=True))
    text = (data_dir("collect") / "emulated.toml").read_text()
    for shipped, own in places.items():
        assert text.count(shipped) >= 1
        text = text.replace(shipped, own)
    (tmp_path / "collect").mkdir()
    (tmp_path / "collect/emulated.toml").write_text(text)
    cameras = ("--camera", f"front={front}", "--camera", f"wrist={wrist}")
    words = ("emulate", "--link", str(tmp_path / "arm"), *cameras, "--log", str(tmp_path / "log.h5"), "--json")
    emulator = subprocess.Popen(
        [sys.executable, "-m", "so101walk", *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert emulator.stdout is not None
        assert json.loads(emulator.stdout.readline())["link"] == str(tmp_path / "arm")
        yield
    finally:
        emulator.send_signal(signal.SIGINT)
        emulator.wait(30)


def test_three_episodes_are_collected_checked_and_true(tmp_path: Path) -> None:
    with served(tmp_path):
        fit = json.loads(so101walk(tmp_path, "doctor", "--rig", "emulated", "--json"))
        assert fit["ok"] is True
        words = ("--rig", "emulated", "--episodes", "3", "--episode-s", "6", "--seed", "3", "--yes")
        report = json.loads(so101walk(tmp_path, "collect", *words, "--out", "walk", "--json"))
    assert report["episodes"] == 3
    checked = json.loads(so101walk(tmp_path, "check", "walk", "--json"))
    assert (checked["ok"], checked["episodes"]) == (True, 3)
    truth = read_log(tmp_path / "log.h5")
    apart = [ms for episode in range(3) for ms in apart_ms(tmp_path / "walk", truth, episode)]
    assert np.median(apart) < NEAR_MS
    assert np.quantile(apart, 0.99) < FAR_MS


def apart_ms(root: Path, truth: Truth, episode: int) -> list[float]:
    """For each row of an episode in motion: how long before or after its image the arm was where the row says [ms]."""
    dataset = Dataset.open(root)
    state = dataset.columns(["observation.state"], episode)["observation.state"].astype(float)
    logged = truth.cameras["front"]
    serials = [strip.read(image) for image in dataset.frames("front", episode)]
    assert None not in serials
    found = []
    for q, serial in zip(state, serials, strict=True):
        rendered_ns = logged.rendered_ns(int(serial or 0))
        near_ns = rendered_ns + np.arange(-200, 201, 2) * 1_000_000
        path = truth.q_at(near_ns)
        if np.ptp(path[90:111], axis=0).max() > 1.0:
            found.append(abs(2.0 * (int(np.abs(path - q).sum(axis=1).argmin()) - 100)))
    assert len(found) > 50
    return found


def test_an_arm_is_calibrated_by_command(tmp_path: Path) -> None:
    rig = 'name = "mine"\n[arm]\ntype = "so101_follower"\nport = "arm"\nid = "mine"\ncalibration_dir = "own"\n'
    (tmp_path / "mine.toml").write_text(rig + '[cameras.front]\ntype = "opencv"\nwidth = 64\nheight = 64\nfps = 30\n')
    words = ("calibrate", "arm", "--rig", "mine.toml", "--seconds", f"{6 * SWEEP_S + 2:g}", "--json")
    with Stage(tmp_path / "arm") as stage:
        stage.take("still", np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0]))
        command = subprocess.Popen(
            [sys.executable, "-m", "so101walk", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        assert command.stderr is not None
        assert any("from end to end" in line for line in command.stderr)
        stage.take("sweep")
        out, err = command.communicate(timeout=120)
        assert command.returncode == 0, err
        state = stage.state()
    told = json.loads(out)
    stored = json.loads((tmp_path / "own/mine.json").read_text())
    assert stored == json.loads((tmp_path / told["copy"]).read_text())
    usual = TickScale.of_model()
    for i, joint in enumerate(JOINTS):
        low, high = told["joints"][joint]["range"]
        assert (low, high) == pytest.approx((usual.range_min[i], usual.range_max[i]), abs=25)
        assert stored[joint]["homing_offset"] == pytest.approx(HOMING_OFFSET[i], abs=3)
        kept = [state.register(joint, r) for r in ("Min_Position_Limit", "Max_Position_Limit", "Homing_Offset")]
        assert kept == [stored[joint][k] for k in ("range_min", "range_max", "homing_offset")] == [low, high, kept[2]]
    assert not any(state.torque)
