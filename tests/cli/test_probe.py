"""``so101walk probe`` as a user runs it, with real pretrained weights on a dataset that was just collected."""

import json

import pytest

from ..probe.made import make_dataset


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Three episodes of the simulated arm, by ``so101walk collect``."""
    from so101walk.cli.main import main

    out = tmp_path_factory.mktemp("collected") / "walk"
    with pytest.raises(SystemExit) as e:
        main(["collect", "--episodes", "3", "--episode-s", "2", "--seed", "1", "--out", str(out), "--json"])
    assert e.value.code == 0
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("made") / "made", episodes=4, length=24)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_efficientnet_on_a_collected_dataset(so101walk, walk, tmp_path):
    out = tmp_path / "runs" / "demo"
    done = so101walk(
        "probe", walk, "--encoder", "efficientnet-lite0", "--stride", 6, "--val", 1, "--out", out, "--json"
    )
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert set(told) >= {"mean_r2", "anisotropy", "r2", "intervals", "guards", "verdicts"}
    assert told["encoder"]["width"] == 2 * 1280
    assert told["guards"]["channels"]["status"] == "pass"
    assert told["guards"]["decode"]["status"] == "pass"
    assert told["guards"]["leak"]["status"] == "pass"
    assert told["theorem_reason"] or told["theorem"]["pairs"] >= 1
    assert (out / "report.html").stat().st_size > 20_000
    assert json.loads((out / "probe.json").read_text()) == told


def test_the_table_names_joints_references_and_the_report(so101walk, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = so101walk("probe", made, "--encoder", "pixels:8", "--val", "0,2", "--bars", "study")
    assert done.code == 0, done.err
    for words in (
        "shoulder pan",
        "gripper",
        "anisotropy",
        "quadratic",
        "channels",
        "B1",
        "runs/made-pixels-8/report.html",
    ):
        assert words in done.out.replace("\n", "")
    assert (tmp_path / "runs/made-pixels-8/report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--encoder", "pixles"], 2, "did you mean 'pixels'"),
        (["--encoder", "pixels", "--val", "4"], 2, "it must be 1 to 3"),
        (["--encoder", "pixels", "--val", "9,"], 2, "names episode 9"),
        (["--encoder", "pixels", "--stride", "0"], 2, "--stride is 0"),
        (["--encoder", "pixels", "--batch", "0"], 2, "--batch is 0"),
        (["--encoder", "pixels", "--cameras", "left"], 1, "no camera 'left'"),
        (["--encoder", "pixels", "--bars", "no.toml"], 2, "bars file no.toml does not exist"),
        ([], 2, "--encoder"),
    ],
)
def test_bad_input_is_told_in_a_line(so101walk, made, arguments, code, told):
    done = so101walk("probe", made, *arguments)
    assert done.code == code
    assert told in done.err
    assert "Traceback" not in done.err


def test_a_path_that_is_no_dataset_and_one_episode_are_told(so101walk, tmp_path):
    done = so101walk("probe", tmp_path, "--encoder", "pixels")
    assert (done.code, "not a LeRobot dataset" in done.err) == (1, True)
    single = make_dataset(tmp_path / "single", episodes=1, length=8)
    done = so101walk("probe", single, "--encoder", "pixels")
    assert (done.code, "needs at least two" in done.err) == (2, True)
