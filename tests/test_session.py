"""Whole sessions in simulation: what is saved, what a resume adds, what a stop leaves, whoever walks."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from so101walk.dataset.reader import Dataset
from so101walk.envelope import load_envelope
from so101walk.errors import HardwareError, UsageError
from so101walk.rig import load_rig
from so101walk.session import SessionSpec, collect, found_at

RIG = """
name = "small"
envelope = "so101-tabletop"
[cameras.front]
view = "front"
width = 64
height = 48
[cameras.wrist]
view = "wrist"
width = 64
height = 48
"""

JOINT_COLUMNS = ["observation.state", "action", "walk.z", "walk.request", "walk.waypoint", "sync.wall_ns"]


@pytest.fixture(scope="module")
def rig_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rig") / "small.toml"
    path.write_text(RIG)
    return path


class Quiet:
    """A report that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def started(self, walk_index: int, frames: int) -> None:
        self.events.append(("started", walk_index))

    def advanced(self, walk_index: int, frames: int) -> None:
        pass

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        self.events.append(("saved", walk_index))

    def failed(self, walk_index: int, reason: str) -> None:
        self.events.append(("failed", walk_index))

    def which(self, kind: str) -> list[int]:
        return [i for k, i in self.events if k == kind]


def spec(rig_file: Path, out: Path, **changes: Any) -> SessionSpec:
    rig = load_rig(rig_file)
    values: dict[str, Any] = {
        "out": out,
        "rig": rig,
        "policy_source": "ou",
        "envelope": load_envelope(rig.envelope),
        "episodes": 2,
        "episode_s": 1.5,
        "seed": 5,
    }
    return SessionSpec(**{**values, **changes})


def never() -> bool:
    return False


def joints(out: Path) -> dict[str, np.ndarray]:
    return Dataset.open(out).columns(JOINT_COLUMNS)


def tree(*roots: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for root in roots for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_session_saves_what_the_plan_says(rig_file: Path, tmp_path: Path) -> None:
    s = spec(rig_file, tmp_path / "walk")
    report = collect(s, Quiet(), never)
    assert (report.episodes, report.frames, report.collected, report.interrupted) == (2, 90, 2, False)
    dataset = Dataset.open(s.out)
    assert [e.length for e in dataset.episodes] == [45, 45]
    assert dataset.robot_type == "so_follower"
    columns = dataset.columns([*JOINT_COLUMNS, "sync.capture_ns.front", "sync.state_gap_ns", "sync.repeated.wrist"], 0)
    at = columns["walk.waypoint"] >= 0
    assert (np.diff(np.flatnonzero(at)) >= 15).all()
    np.testing.assert_array_equal(columns["walk.waypoint"][at], np.arange(at.sum()))
    assert at[0]
    assert at.sum() >= 2
    np.testing.assert_allclose(s.envelope.z_to_q(columns["walk.z"][at]), columns["walk.request"][at], atol=1e-3)
    assert np.abs(columns["action"] - columns["walk.request"]).max() < 0.15, "sent is the request in whole ticks"
    lag = np.abs(columns["observation.state"] - columns["action"])
    assert 0 < lag.max() < 15, "measured joints differ from commanded ones, as on an arm, but follow them"
    assert (columns["sync.state_gap_ns"] <= 10_000_000).all()
    assert not columns["sync.repeated.wrist"].any()
    np.testing.assert_allclose(columns["sync.wall_ns"], np.arange(45) / 30 * 1e9, atol=2e6)
    assert not (tmp_path / "walk.staging").exists()


def test_workers_change_nothing_and_neither_does_a_resume(rig_file: Path, tmp_path: Path) -> None:
    alone = spec(rig_file, tmp_path / "alone", episodes=3)
    collect(alone, Quiet(), never)
    together = spec(rig_file, tmp_path / "together", episodes=3)
    quiet = Quiet()
    collect(together, quiet, never, workers=2)
    assert sorted(quiet.which("saved")) == [0, 1, 2]
    in_parts = tmp_path / "parts"
    collect(spec(rig_file, in_parts, episodes=1), Quiet(), never)
    quiet = Quiet()
    collect(spec(rig_file, in_parts, episodes=3), quiet, never)
    assert quiet.which("started") == [1, 2]
    for out in (together.out, in_parts):
        for name, values in joints(alone.out).items():
            assert values.tobytes() == joints(out)[name].tobytes(), name
        images = [next(iter(Dataset.open(o).frames("front", 2))) for o in (alone.out, out)]
        np.testing.assert_array_equal(*images)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy_overrides": {"rho": 0.8}}, "policy.rho is 0.9 in the dataset, 0.8 now"),
        ({"rig": "fps"}, "fps is 30 in the dataset, 15 now"),
        ({"envelope": "other"}, "envelope"),
    ],
)
def test_another_walk_is_refused_and_no_byte_changes(
    rig_file: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    out = tmp_path / "walk"
    first = spec(rig_file, out, episodes=1)
    collect(first, Quiet(), never)
    before = tree(tmp_path)
    if changes.get("rig"):
        slower = tmp_path / "slower.toml"
        slower.write_text(RIG.replace('name = "small"', 'name = "small"\nfps = 15'))
        changes = {"rig": load_rig(slower)}
        before = tree(tmp_path)
    if changes.get("envelope"):
        import dataclasses

        changes = {"envelope": dataclasses.replace(first.envelope, scale=first.envelope.scale * 0.9)}
    with pytest.raises(UsageError, match=words):
        collect(spec(rig_file, out, episodes=2, **changes), Quiet(), never)
    assert tree(tmp_path) == before


def test_what_is_there_is_not_overwritten(rig_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "walk"
    assert found_at(out, resume=False) is None
    assert found_at(out, resume=True) is None
    out.mkdir()
    (out / "precious").write_text("mine")
    with pytest.raises(UsageError, match=r"exists\. Add to it with --resume"):
        found_at(out, resume=False)
    (tmp_path / "cut.staging").mkdir()
    (tmp_path / "cut.staging" / "session.json").write_text("{}")
    with pytest.raises(UsageError, match=r"cut\.staging exists"):
        found_at(tmp_path / "cut", resume=False)


def test_a_stop_drops_the_current_episode_only(rig_file: Path, tmp_path: Path) -> None:
    s = spec(rig_file, tmp_path / "walk", episodes=5)
    quiet = Quiet()
    report = collect(s, quiet, lambda: len(quiet.which("started")) == 3)
    assert report.interrupted
    assert quiet.which("saved") == [0, 1]
    assert len(Dataset.open(s.out).episodes) == 2
    nothing = collect(spec(rig_file, tmp_path / "none"), Quiet(), lambda: True)
    assert nothing.episodes == 0
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "none.staging").exists()


def test_a_real_arm_takes_no_workers(rig_file: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_text('name = "mine"\n[arm]\ntype = "so101_follower"\n[cameras.top]\ntype = "opencv"\n')
    rig = load_rig(real)
    with pytest.raises(UsageError, match="--workers 2 needs a simulated rig"):
        collect(spec(rig_file, tmp_path / "walk", rig=rig), Quiet(), never, workers=2)
    with pytest.raises(HardwareError, match="--dry-run"):
        collect(spec(rig_file, tmp_path / "walk", rig=rig), Quiet(), never)
    dry = spec(rig_file, tmp_path / "dry", rig=rig.twin(), dry_run=True, episodes=1)
    collect(dry, Quiet(), never)
    meta = json.loads((dry.out / "meta" / "so101walk.json").read_text())
    assert "dry_run" in json.dumps(meta)
    assert Dataset.open(dry.out).cameras == ("observation.images.top",)


def command(rig_file: Path, out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "so101walk", "collect", "--rig", str(rig_file), "--out", str(out)),
        *("--episode-s", "1.5", "--seed", "5", "--episodes", "40", *more),
    ]


def wait_for_saved(process: subprocess.Popen[str], staging: Path, episodes: int) -> None:
    deadline = time.monotonic() + 120
    while len(list(staging.glob("episodes/episode-*"))) < episodes:
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_finishes_tidily_and_resume_goes_on(rig_file: Path, tmp_path: Path, workers: str) -> None:
    out = tmp_path / "walk"
    process = subprocess.Popen(
        command(rig_file, out, "--workers", workers), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    wait_for_saved(process, tmp_path / "walk.staging", 2)
    process.send_signal(signal.SIGINT)
    shown, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert "the current episode is dropped" in told
    assert "--resume" in shown
    saved = len(Dataset.open(out).episodes)
    assert 2 <= saved < 40
    assert not (tmp_path / "walk.staging").exists()
    done = subprocess.run(
        [*command(rig_file, out, "--resume", "--json"), "--episodes", str(saved + 1)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{saved} of {saved + 1} episodes are there; 1 come" in done.stderr
    assert json.loads(done.stdout)["episodes"] == saved + 1


@pytest.mark.parametrize(("signals", "workers"), [((signal.SIGINT, signal.SIGINT), "1"), ((signal.SIGKILL,), "2")])
def test_however_it_ends_saved_episodes_survive(
    rig_file: Path, tmp_path: Path, signals: tuple[signal.Signals, ...], workers: str
) -> None:
    out = tmp_path / "walk"
    process = subprocess.Popen(
        command(rig_file, out, "--workers", workers),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    staging = tmp_path / "walk.staging"
    wait_for_saved(process, staging, 3)
    for number in signals:
        os.kill(process.pid, number)
        time.sleep(0.05)
    process.wait(timeout=60)
    assert process.returncode != 0
    wait_until_alone(process.pid)
    there = len(list(staging.glob("episodes/episode-*"))) or len(Dataset.open(out).episodes)
    done = subprocess.run(
        [*command(rig_file, out, "--resume"), "--episodes", str(there + 1)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    dataset = Dataset.open(out)
    assert len(dataset.episodes) == there + 1
    reference = tmp_path / "reference"
    collect(spec(rig_file, reference, episodes=there + 1), Quiet(), never)
    for name, values in joints(reference).items():
        assert values.tobytes() == joints(out)[name].tobytes(), name


def wait_until_alone(group: int) -> None:
    """Until no process of a killed session is left: its workers end with it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline, "workers outlived their session"
        time.sleep(0.05)
