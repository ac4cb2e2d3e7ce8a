import json
import subprocess
import sys

import pytest

from so101walk.cli.main import main
from so101walk.config import data_dir
from so101walk.envelope import load_envelope

QUICK = ["calibrate", "envelope", "--accept", "0.9", "--samples", "2000", "--steps", "48"]


def run(capsys, *arguments):
    """Exit code, stdout and stderr of a command line."""
    with pytest.raises(SystemExit) as e:
        main(list(arguments))
    out = capsys.readouterr()
    return e.value.code, out.out, out.err


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_an_envelope_and_a_picture_and_reports_one_object(capsys, here):
    code, out, _ = run(capsys, *QUICK, "--out", "mine.toml", "--json")
    assert code == 0
    report = json.loads(out)
    envelope = load_envelope(here / "mine.toml")
    assert envelope.name == "mine"
    assert report["digest"] == envelope.digest
    assert report["envelope"] == envelope.to_dict()
    assert report["accept"] >= 0.9
    assert report["leave_upper"] <= 0.1
    assert {"causes", "coverage", "leave_by_limit", "walk", "hand_made", "log_volume"} <= set(report)
    assert (here / "mine.png").read_bytes()[:4] == b"\x89PNG"
    command = (here / "mine.toml").read_text().splitlines()[1]
    assert command == "# Found by: so101walk calibrate envelope --accept 0.9 --samples 2000 --steps 48 --name mine"


def test_the_report_tells_what_it_found_and_where_it_is(capsys, here):
    code, out, err = run(capsys, *QUICK, "--name", "bench")
    assert code == 0
    for word in ("shoulder_lift", "safe: ", "refused: ", "walk of rho 0.9", "the hand-made choice"):
        assert word in out
    assert 'wrote calibration/bench.toml and calibration/bench.png; a rig uses it by envelope = "bench"' in err
    assert load_envelope("bench").name == "bench"


def test_margins_and_boxes_come_from_another_envelope(capsys, here):
    text = (data_dir("calibration") / "so101-tabletop.toml").read_text().replace("table_m = 0.02", "table_m = 0.05")
    (here / "one.toml").write_text(
        text + '[[clearance.keep_out]]\nname = "post"\ncenter_m = [0.3, 0.3, 0.2]\nsize_m = [0.1, 0.1, 0.4]\n'
    )
    code, _, _ = run(capsys, *QUICK, "--out", "two.toml", "--like", "one.toml")
    assert code == 0
    assert load_envelope(here / "two.toml").clearance == load_envelope(here / "one.toml").clearance
    assert load_envelope(here / "two.toml").clearance.table_m == 0.05


def test_an_existing_file_is_kept(capsys, here):
    (here / "mine.toml").write_text("precious")
    code, out, err = run(capsys, *QUICK, "--out", "mine.toml")
    assert (code, out) == (2, "")
    assert err == "error: mine.toml exists; give --force to replace it, or another --out\n"
    assert (here / "mine.toml").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--accept", "1.5"], "accept is 1.5; it must be 0.5 to 0.999"),
        (["--samples", "10"], "samples is 10; proving an acceptance of 0.9 takes at least 2000"),
        (["--rho", "1"], "rho is 1.0; the correlation of consecutive waypoints must be above 0 and below 1"),
        (["--steps", "0"], "steps is 0; it must be at least 1"),
        (["--seed", "-1"], "seed is -1; it must be 0 or more"),
        (["--rig", "simm"], "unknown rig 'simm'; did you mean 'sim'?"),
        (["--like", "so101-tabeltop"], "unknown envelope 'so101-tabeltop'; did you mean 'so101-tabletop'?"),
    ],
)
def test_bad_input_gets_one_line_and_writes_nothing(capsys, here, arguments, words):
    code, out, err = run(capsys, *QUICK, "--out", "mine.toml", *arguments)
    assert (code, out) == (2, "")
    assert err == f"error: {words}\n"
    assert list(here.iterdir()) == []


def test_an_unknown_measurement_is_refused_with_the_nearest(capsys):
    code, _, err = run(capsys, "calibrate", "envelop")
    assert code == 2
    assert "no command 'envelop'; did you mean 'envelope'?" in err


def test_help_imports_nothing_heavy():
    code = """if True:
        import sys
        from so101walk.cli.main import main
        try:
            main(["calibrate", "envelope", "--help"])
        except SystemExit:
            print(sorted({"numpy", "scipy", "mujoco", "matplotlib", "rich", "torch"} & set(sys.modules)))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--accept" in run.stdout
    assert run.stdout.splitlines()[-1] == "[]"


def test_a_real_rig_brings_its_arms_own_ranges(capsys, here):
    calibration = json.loads((data_dir("calibration") / "emulated.json").read_text())
    calibration["wrist_roll"] |= {"range_min": 1024, "range_max": 3072}
    (here / "mine.json").write_text(json.dumps(calibration))
    rig = 'name = "desk"\n[arm]\ntype = "so101_follower"\nport = "/dev/nothing"\nid = "mine"\ncalibration_dir = "."\n'
    (here / "desk.toml").write_text(rig + '[cameras.front]\ntype = "opencv"\nwidth = 64\nheight = 64\nfps = 30\n')
    code, _, err = run(capsys, *QUICK, "--rig", "desk.toml", "--out", "desk-envelope.toml")
    assert code == 0
    assert "mine.json" in err
    assert "narrower in wrist_roll" in err
    envelope = load_envelope(here / "desk-envelope.toml")
    assert (envelope.lower[4], envelope.upper[4]) == pytest.approx((-85.02, 85.02), abs=0.011)
    (here / "mine.json").write_text("{}")
    code, _, err = run(capsys, *QUICK, "--rig", "desk.toml", "--out", "other.toml")
    assert code == 1
    assert "mine.json is no calibration of six joints" in err
