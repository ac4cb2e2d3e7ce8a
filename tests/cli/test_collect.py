"""``so101walk collect``: bad input gets a clear line and changes nothing; good input says what it did."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from so101walk.dataset.reader import Dataset

RIG = """
name = "small"
[cameras.front]
view = "front"
width = 64
height = 48
"""

REAL = """
name = "mine"
[arm]
type = "so101_follower"
[cameras.top]
type = "opencv"
width = 64
height = 48
"""

ENVELOPE_JOINTS = "".join(
    f"[joints.{j}]\ncenter = {c}\nscale = 5\nlower = -80\nupper = 80\n"
    for j, c in (
        ("shoulder_pan", 0),
        ("shoulder_lift", -30),
        ("elbow_flex", -20),
        ("wrist_flex", 0),
        ("wrist_roll", 0),
        ("gripper", 50),
    )
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files of a user's own."""
    (tmp_path / "small.toml").write_text(RIG)
    (tmp_path / "real.toml").write_text(REAL)
    (tmp_path / "typo.toml").write_text(RIG.replace("[cameras", "task_name = 1\n[cameras", 1))
    for name, value in (("nan", "nan"), ("zero", "0"), ("minus", "-5")):
        (tmp_path / f"{name}.toml").write_text(RIG + f"[limits]\nvelocity_deg_s = {value}\n")
    (tmp_path / "off.toml").write_text('name = "off"\n' + ENVELOPE_JOINTS.replace("center = 50", "center = 99"))
    (tmp_path / "offrig.toml").write_text(RIG.replace("[cameras", 'envelope = "off.toml"\n[cameras', 1))
    (tmp_path / "steady.toml").write_text('kind = "ou"\nrhoo = 0.9\n')
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rho", "0"], "rho is 0"),
        (["--rho", "1"], "rho is 1"),
        (["--rho", "-0.5"], "rho is -0.5"),
        (["--rho", "a"], "'a' is not a valid float"),
        (["--episodes", "0"], "--episodes is 0; it must be 1 or more"),
        (["--episodes", "-1"], "--episodes is -1; it must be 1 or more"),
        (["--episode-s", "0"], "--episode-s is 0"),
        (["--episode-s", "nan"], "--episode-s is nan"),
        (["--policy", "uo"], "unknown policy 'uo'; known: gennorm, goal, ou"),
        (["--policy", "gaol"], "did you mean 'goal'"),
        (["--policy", "steady.toml"], "unknown key 'rhoo'; did you mean 'rho'"),
        (["--policy", "goal", "--rho", "0.9"], "has no rho"),
        (["--policy", "mine.py"], "policy file mine.py"),
        (["--rig", "smi"], "did you mean 'sim'"),
        (["--rig", "typo.toml"], "unknown key 'task_name'; did you mean 'task' or 'name'"),
        (["--rig", "nan.toml"], "velocity_deg_s is nan"),
        (["--rig", "zero.toml"], "velocity_deg_s is 0"),
        (["--rig", "minus.toml"], "velocity_deg_s is -5"),
        (["--rig", "offrig.toml"], "center is 99; it must be within its own limits, -80 to 80"),
        (["--rig", "real.toml", "--workers", "2"], "--workers 2 needs a simulated rig"),
        (["--workers", "0"], "not in the range"),
        (["--resume"], "--resume needs --out"),
    ],
)
def test_bad_input_gets_a_clear_line(files: Path, so101walk, arguments: list[str], words: str) -> None:
    before = sorted(files.rglob("*"))
    where = [] if arguments == ["--resume"] else ["--out", files / "walk"]
    told = so101walk("collect", *where, *arguments)
    assert told.code == 2
    assert words in told.err
    assert "Traceback" not in told.err
    assert len([line for line in told.err.splitlines() if line.startswith("error:")]) <= 1
    assert sorted(files.rglob("*")) == before, "nothing is left behind"


def test_an_out_folder_that_can_not_be_written_is_told(files: Path, so101walk) -> None:
    told = so101walk("collect", "--rig", "small.toml", "--out", "file/walk", "--episodes", "1")
    assert told.code in (1, 2)
    assert "file/walk" in told.err
    assert "Traceback" not in told.err


def test_one_object_on_stdout(files: Path, so101walk) -> None:
    done = so101walk(
        *("collect", "--rig", "small.toml", "--out", "walk", "--episodes", "1"),
        *("--episode-s", "1", "--rho", "0.8", "--seed", "3", "--note", "a test", "--json"),
    )
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["episodes"], report["frames"], report["seed"], report["interrupted"]) == (1, 30, 3, False)
    assert 0 <= report["acceptance"] <= 1
    assert "simulated arm" in done.err.splitlines()[0]
    meta = (files / "walk" / "meta" / "so101walk.json").read_text()
    assert '"a test"' in meta
    assert '"rho": 0.8' in meta
    again = so101walk("collect", "--rig", "small.toml", "--out", "walk", "--episodes", "2")
    assert again.code == 2
    assert "walk exists. Add to it with --resume" in again.err


def test_words_for_people(files: Path, so101walk) -> None:
    done = so101walk(
        "collect", "--rig", "real.toml", "--dry-run", "--out", "dry", "--episodes", "1", "--episode-s", "1"
    )
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].startswith("Dry run: walking the simulated twin of rig mine")
    assert "next: so101walk check dry" in done.out
    assert "30" in next(line for line in done.out.splitlines() if line.startswith("frames"))


def test_a_policy_of_ones_own(files: Path, so101walk) -> None:
    (files / "sway.py").write_text(
        "import numpy as np\n"
        "class Policy:\n"
        "    name = 'sway'\n"
        "    frames_per_step = 10\n"
        "    settle_frames = 2\n"
        "    def start(self, rng, envelope):\n"
        "        return np.full(6, 0.3)\n"
        "    def propose(self, z, rng):\n"
        "        return -z\n"
    )
    done = so101walk(
        "collect", "--rig", "small.toml", "--policy", "sway.py", "--episodes", "2", "--episode-s", "1", "--workers", "2"
    )
    assert done.code == 0, done.err
    (out,) = (files / "datasets").iterdir()
    assert out.name.startswith("sway-20")
    columns = Dataset.open(out).columns(["walk.z", "walk.waypoint"], 1)
    reached = columns["walk.z"][columns["walk.waypoint"] >= 0]
    assert (abs(abs(reached) - 0.3) < 1e-6).all()
    (files / "sway.py").write_text((files / "sway.py").read_text().replace("-z", "z * float('nan')"))
    told = so101walk("collect", "--rig", "small.toml", "--policy", "sway.py", "--out", "bad", "--episode-s", "1")
    assert told.code == 2
    assert "every value must be finite" in told.err
    assert not (files / "bad").exists()


def test_a_full_disk_costs_the_current_episode_only(files: Path) -> None:
    """On a tmpfs of 2 MB in a mount namespace of the child's own, which root may have."""
    small = files / "disk"
    small.mkdir()
    walk = [
        *(
            sys.executable,
            "-m",
            "so101walk",
            "collect",
            "--rig",
            str(files / "small.toml"),
            "--out",
            str(small / "walk"),
        ),
        *("--episode-s", "4", "--seed", "1"),
    ]
    script = f"mount -t tmpfs -o size=2m tmpfs {small} && "
    script += " ".join(walk) + f" --episodes 400; echo code $?; cp -r {small}/. {files}/kept"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert "code 1" in done.stdout, done.stderr
    assert "the disk is full" in done.stderr
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr
    kept = files / "kept"
    saved = len(list(kept.glob("walk.staging/episodes/episode-*")))
    assert saved >= 1
    go_on = [w.replace(str(small), str(kept)) for w in walk]
    done = subprocess.run(
        [*go_on, "--episodes", str(saved + 1), "--resume"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{saved} of {saved + 1} episodes are there; 1 come" in done.stdout
    assert len(Dataset.open(kept / "walk").episodes) == saved + 1


def test_a_closed_stdout_is_no_traceback(files: Path) -> None:
    command = [sys.executable, "-m", "so101walk", "collect", "--help"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ})
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait(timeout=60)
