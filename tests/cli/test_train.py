"""``so101walk train`` and ``rank`` as a user runs them."""

import json

import numpy as np
import pytest

from ..jepa.conftest import ou_chain, write_dataset

TINY = """
kind = "lejepa"
frames = {size_px = 32}
encoder = {channels = [8, 16], hidden = 32}
pairs = {lags = [1, 2]}
optimiser = {steps = 20, batch = 32, warmup_steps = 5}
stop = {every = 10}
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    rng = np.random.default_rng(0)
    return write_dataset(tmp_path_factory.mktemp("data") / "walk", [ou_chain(rng, 40, 0.8) for _ in range(8)])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def test_a_run_is_trained_shown_and_told_as_json(so101walk, dataset, recipe, tmp_path):
    out = tmp_path / "run"
    done = so101walk("train", dataset, "--out", out, "--recipe", recipe, "--threads", 1, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["done"]
    assert told["run"] == str(out)
    assert [h["step"] for h in told["history"]] == [10, 20]
    for word in ("align", "sigreg", "images/s", "whitening", "pair corr", "perfect"):
        assert word in done.err
    again = so101walk("train", dataset, "--out", out, "--recipe", recipe)
    assert again.code == 2
    assert "--resume" in again.err
    ranked = so101walk("rank", out, dataset, "--trials", 40, "--horizon", 2, "-k", 4, "--json")
    assert ranked.code == 0, ranked.err
    figures = json.loads(ranked.out)
    assert figures["how"] == "frozen"
    assert figures["chance"][0] == 0.25
    assert figures["top1"]["low"] <= figures["top1"]["value"] <= figures["top1"]["high"]
    assert set(figures["baselines"]) == {"last_action", "mean_displacement"}
    assert json.loads((out / "rank.json").read_text())["interval"] == [figures["top1"]["low"], figures["top1"]["high"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--recipe", "lejpa"], "did you mean 'lejepa'"),
        (["--val", "8"], "it must be 1 to 7"),
        (["--val", "1.5"], "share"),
        (["--resume"], "no run to resume"),
    ],
)
def test_wrong_options_get_one_line(so101walk, dataset, tmp_path, arguments, words):
    done = so101walk("train", dataset, "--out", tmp_path / "run", *arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_what_is_no_dataset_is_told(so101walk, tmp_path, recipe):
    done = so101walk("train", tmp_path, "--out", tmp_path / "run", "--recipe", recipe)
    assert done.code == 1
    assert "no meta/info.json" in done.err
