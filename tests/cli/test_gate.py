"""``so101walk gate`` from nothing to a verdict at toy size, then its verdict on planted outcomes."""

import json
import shutil
from pathlib import Path

import pytest

from so101walk.jepa.gate import Gate
from so101walk.jepa.gate_plan import ablation, chosen_plan, estimate_s, gate_rig
from so101walk.jepa.gate_report import markdown, write_report
from so101walk.jepa.recipe import load_recipe
from so101walk.joints import JOINTS

TINY = """
kind = "lejepa"
frames = {size_px = 32}
encoder = {channels = [8, 16], hidden = 32}
pairs = {lags = [1, 2]}
optimiser = {steps = 20, batch = 32, warmup_steps = 2}
stop = {every = 10}
"""
OPTIONS = ("--quick", "--frames", 320, "--seeds", 1, "--workers", 2)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def gate(tmp_path_factory, recipe):
    """A gate that was run once, with what it printed."""
    import contextlib
    import io

    from so101walk.cli.main import main

    folder = tmp_path_factory.mktemp("gate")
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as e:
            main(["gate", "--out", str(folder / "gate1"), "--recipe", str(recipe), *map(str, OPTIONS), "--json"])
    assert e.value.code == 0, err.getvalue()
    return folder / "gate1", json.loads(out.getvalue()), err.getvalue()


def test_it_states_its_time_first_and_its_verdict_first(gate):
    out, report, err = gate
    assert err.startswith("about ")
    assert report["verdict"] in ("supported", "refuted", "inconclusive")
    first = (out / "report.md").read_text().splitlines()[0]
    assert first.startswith(report["verdict"] + ": ")
    assert json.loads((out / "report.json").read_text()) == report


def test_the_report_has_the_figures_of_both_kinds_and_of_each_seed(gate):
    _, report, _ = gate
    for kind in ("walk", "goal"):
        arm = report[kind]
        assert set(arm) >= {"mean_r2", "anisotropy", "r2", "seeds", "references", "train", "held_out"}
        assert set(arm["r2"]) == set(JOINTS)
        assert len(arm["seeds"]) == 1
        assert arm["mean_r2"] == arm["seeds"][0]["mean_r2"]
        assert set(arm["seeds"][0]) >= {"mean_r2", "anisotropy", "r2", "intervals", "rank_top1", "pair_correlation"}
        assert (arm["train"]["frames"], arm["held_out"]["frames"]) == (200, 80)  # 40 more are for early stopping
        assert 0 < min(arm["train"]["effective"].values()) < arm["train"]["frames"]
    assert set(report["cross"]) == {"walk on goal", "goal on walk"}
    assert report["study"]["w1"]["mean_r2"] == 0.565


def test_the_bars_were_frozen_before_any_latent(gate):
    out, report, _ = gate
    made = [json.loads(p.read_text())["encoder"]["made_s"] for p in out.glob("runs/**/probe.json")]
    for name in ("walk", "study"):
        ledger = (out / f"bars-{name}.toml.ledger.jsonl").read_text().splitlines()
        assert json.loads(ledger[0])["frozen_s"] < min(made)
    assert "exploratory" not in report["why"]


def test_the_same_command_does_nothing_twice_and_another_is_refused(gate, so101walk, recipe, monkeypatch):
    out, report, _ = gate
    before = {
        p: p.stat().st_mtime_ns
        for p in out.rglob("*")
        if p.suffix in (".mp4", ".pt", ".json") and "report" not in p.name
    }
    again = so101walk("gate", "--out", out, "--recipe", recipe, *OPTIONS, "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out) == report
    assert {p: p.stat().st_mtime_ns for p in before} == before
    other = so101walk("gate", "--out", out, "--recipe", recipe, *OPTIONS, "--seed", 5)
    assert other.code == 2
    assert "another plan (seed differs)" in other.err


def plant(run: Path, r2: list[float], half: float = 0.01) -> None:
    """Put these R^2 of the joints, the same in each of twelve held-out episodes, in place of a probe's figures."""
    path = run / "probe.json"
    told = json.loads(path.read_text())
    mean, spread = sum(r2) / 6, max(r2) - min(r2)
    told |= {"mean_r2": mean, "anisotropy": spread, "r2": dict(zip(JOINTS, r2, strict=True)), "guards": {}}
    told["intervals"] |= {"mean_r2": [mean - half, mean + half], "anisotropy": [spread - half, spread + half]}
    wobble = [0.9 + 0.2 * (i % 2) for i in range(12)]
    told["sums"] = {
        "episode": list(range(12)), "n": [50.0] * 12, "y": [[0.0] * 6] * 12, "yy": [[50.0] * 6] * 12,
        "error": [[50.0 * (1 - v) * w for v in r2] for w in wobble],
    }  # fmt: skip
    path.write_text(json.dumps(told))


GOOD, POOR = [0.97, 0.96, 0.95, 0.94, 0.95, 0.97], [0.7, 0.8, 0.6, 0.1, 0.1, 0.5]


@pytest.mark.parametrize(
    ("walk", "goal", "half", "verdict"),
    [
        (GOOD, POOR, 0.01, "supported"),
        (POOR, GOOD, 0.01, "refuted"),
        (POOR, POOR, 0.01, "refuted"),
        (GOOD, GOOD, 0.01, "inconclusive"),
        (GOOD, POOR, 0.30, "inconclusive"),
    ],
)
def test_planted_outcomes_get_their_verdict(gate, recipe, tmp_path, walk, goal, half, verdict):
    plan = chosen_plan(load_recipe(recipe), quick=True, seeds=1, frames=320)
    planted = Gate(tmp_path / "gate", plan)
    shutil.copytree(gate[0], planted.out)
    plant(planted.run(plan.arm("walk"), 0), walk, half)
    plant(planted.run(plan.arm("goal"), 0), goal, half)
    report = write_report(planted)
    assert report["verdict"] == verdict
    assert markdown(report).startswith(f"{verdict}: ")


def test_a_guard_that_fired_or_bars_changed_since_leave_no_verdict(gate, recipe, tmp_path):
    plan = chosen_plan(load_recipe(recipe), quick=True, seeds=1, frames=320)
    planted = Gate(tmp_path / "gate", plan)
    shutil.copytree(gate[0], planted.out)
    walk = planted.run(plan.arm("walk"), 0)
    plant(walk, GOOD)
    plant(planted.run(plan.arm("goal"), 0), POOR)
    told = json.loads((walk / "probe.json").read_text())
    told["guards"] = {"channels": {"status": "warn", "message": "one channel thrice"}}
    (walk / "probe.json").write_text(json.dumps(told))
    report = write_report(planted)
    assert (report["verdict"], report["why"]) == ("inconclusive", "guard channels fired on walk seed 0")
    told["guards"] = {}
    (walk / "probe.json").write_text(json.dumps(told))
    assert write_report(planted)["verdict"] == "supported"
    with planted.bars("walk").open("a") as file:
        file.write("# a later thought\n")
    report = write_report(planted)
    assert report["verdict"] == "inconclusive"
    assert "exploratory" in report["why"]


def test_ablations_change_one_thing_each(recipe):
    plan = chosen_plan(load_recipe(recipe))
    assert [(a.name, a.seeds) for a in plan.arms] == [("walk", 3), ("goal", 3), ("alpha-1", 1)]
    walk = plan.arm("walk")
    found = {k: ablation(k, v, 60_000) for k, v in
             {"rho": "0.5", "alpha": "4", "frames": "9000", "view": "front", "truncation": "1.5"}.items()}  # fmt: skip
    assert found["rho"].overrides == {**walk.overrides, "rho": 0.5}
    assert (found["alpha"].policy, found["alpha"].overrides["alpha"]) == ("gennorm", 4.0)
    assert found["frames"].frames == 9000
    assert (found["view"].cameras, found["view"].of) == (("front",), "walk")
    assert found["truncation"].scale == 1.5
    assert set(gate_rig().cameras) == {"front", "wrist"}


def test_the_estimate_grows_with_work_and_shrinks_with_cores(recipe):
    quick, full = (chosen_plan(load_recipe("lejepa"), quick=q) for q in (True, False))
    assert sum(estimate_s(quick, 2).values()) < 600
    assert sum(estimate_s(full, 2).values()) < 3600
    assert sum(estimate_s(full, 4).values()) < 0.7 * sum(estimate_s(full, 2).values())


def test_a_number_that_is_none_is_told(so101walk, tmp_path):
    done = so101walk("gate", "--out", tmp_path / "g", "--ablate-rho", "half", "--plan")
    assert done.code == 2
    assert "--ablate-rho is 'half'" in done.err


def test_datasets_of_ones_own_and_an_ablation(gate, so101walk, recipe, tmp_path):
    own = [part for kind in ("walk", "goal") for part in (f"--{kind}", gate[0] / "datasets" / kind)]
    done = so101walk(
        "gate", "--out", tmp_path / "own", "--recipe", recipe, *OPTIONS, *own, "--ablate-view", "front", "--json"
    )
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert not list((tmp_path / "own/datasets").iterdir()), "nothing was collected"
    assert report["walk"]["dataset"] == str(gate[0] / "datasets/walk")
    assert report["walk"]["r2"] == pytest.approx(gate[1]["walk"]["r2"], abs=1e-6), "the same data, the same training"
    (view,) = report["ablations"]["view-front"]["seeds"]
    assert view["r2"] != report["walk"]["seeds"][0]["r2"]
    assert json.loads((tmp_path / "own/runs/view-front-0/probe.json").read_text())["cameras"] == [
        "observation.images.front"
    ]
