"""However a session is ended, the arm is laid down (field case 4); what can't be caught leaves it held (case 8)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from so101walk.dataset.reader import Dataset
from so101walk.dataset.repair import repair
from so101walk.session import collect

from .conftest import HEIGHT, WIDTH, Bench, Quiet
from .test_sessions import tree, truth_of, was_laid_down


def files(bench: Bench) -> Path:
    """The bench's rig and envelope as files."""
    spec = bench.spec(bench.rig())
    table = spec.envelope.to_dict()["joints"]
    lines = ['name = "small"']
    for joint, values in table.items():
        lines += [f"[joints.{joint}]", *(f"{k} = {v}" for k, v in values.items())]
    (bench.folder / "small.toml").write_text("\n".join(lines) + "\n")
    arm = spec.rig.arm
    rig = bench.folder / "rig.toml"
    rig.write_text(
        f'name = "bench"\nfps = 10\nenvelope = "{bench.folder / "small.toml"}"\n'
        f'[arm]\ntype = "so101_follower"\nport = "{arm.port}"\nid = "emulated"\n'
        f'calibration_dir = "{arm.calibration_dir}"\nrest = {list(arm.rest)}\n'
        "[limits]\nvelocity_deg_s = 300\nacceleration_deg_s2 = 3000\n[safety]\nstall_s = 3.0\n"
        f'[cameras.front]\ntype = "zmq"\nwidth = {WIDTH}\nheight = {HEIGHT}\nfps = 10\n'
        f'options = {{ server_address = "127.0.0.1", port = {bench.ports["front"]}, camera_name = "front", '
        "timeout_ms = 500 }\n"
    )
    return rig


def begin(bench: Bench, rig: Path, episodes: int, episode_s: float) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "so101walk", "collect", "--rig", str(rig), "--yes", "--seed", "5"),
            *("--out", str(bench.folder / "walk"), "--episodes", str(episodes), "--episode-s", str(episode_s)),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=bench.folder,
    )
    stage = bench.stages[0]
    deadline = time.monotonic() + 120
    while not all(stage.state().torque):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    stage.let_go()
    return process


@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGINT, signal.SIGINT, signal.SIGINT), 130), ((signal.SIGHUP, signal.SIGTERM), 130)],
)
def test_a_signal_lays_the_arm_down(bench: Bench, signals: tuple[signal.Signals, ...], code: int) -> None:
    stage = bench.stage(cameras=True)
    process = begin(bench, files(bench), episodes=5, episode_s=20.0)
    time.sleep(3.0)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.3)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == code, shown
    assert "Traceback" not in shown
    assert not any(stage.state().torque)
    was_laid_down(truth_of(bench))


ABANDONED = """
import sys
from so101walk.arms.follower import Follower
from so101walk.rig import load_rig

follower = Follower(load_rig(sys.argv[1]))
follower.connect()
follower.prepare()
raise RuntimeError("the program ends here")
"""


def test_an_arm_whose_program_ends_lays_itself_down(bench: Bench) -> None:
    stage = bench.stage(cameras=True)
    process = subprocess.Popen(
        [sys.executable, "-c", ABANDONED, str(files(bench))], stderr=subprocess.PIPE, text=True, cwd=bench.folder
    )
    deadline = time.monotonic() + 60
    while not all(stage.state().torque):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    stage.let_go()
    _, shown = process.communicate(timeout=60)
    assert "the program ends here" in shown
    was_laid_down(truth_of(bench))


def test_after_a_kill_the_arm_is_held_and_a_resume_goes_on(bench: Bench, quiet: Quiet) -> None:
    stage = bench.stage(cameras=True)
    rig = files(bench)
    process = begin(bench, rig, episodes=20, episode_s=1.0)
    staging = bench.folder / "walk.staging"
    deadline = time.monotonic() + 120
    while len(list(staging.glob("episodes/episode-*"))) < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    while not list(staging.glob("tmp/*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    held = stage.state()
    assert all(held.torque), "nobody can switch it off, so it must not fall"
    saved = len(list(staging.glob("episodes/episode-*")))
    report = repair(bench.folder / "walk")
    assert report.episodes == saved
    assert report.quarantined
    before = tree(bench.folder / "walk")
    repair(bench.folder / "walk")
    assert tree(bench.folder / "walk") == before
    assert np.abs(stage.state().q - held.q).max() < 5.0

    from so101walk.envelope import load_envelope
    from so101walk.rig import load_rig

    spec = bench.spec(
        load_rig(rig), envelope=load_envelope(bench.folder / "small.toml"), episodes=saved + 1, episode_s=1.0
    )
    after = collect(spec, quiet, lambda: False)
    assert after.episodes == saved + 1
    assert [r["walk_index"] for r in quiet.saved_records] == [saved]
    assert len(Dataset.open(spec.out).episodes) == saved + 1
    was_laid_down(truth_of(bench))
