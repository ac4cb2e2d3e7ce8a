"""Runs side by side, from stored figures and from sums."""

import json

import numpy as np
import pytest

from so101walk.errors import UsageError
from so101walk.probe import bars
from so101walk.probe.compare import compare
from so101walk.probe.intervals import EpisodeSums
from so101walk.probe.record import recovery_json
from so101walk.probe.recovery import from_sums

from .made import ou_chain

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
W1 = (0.58, 0.91, 0.88, 0.27, 0.30, 0.45)
W2 = (0.92, 0.98, 0.97, 0.74, 0.68, 0.91)


def _write(folder, **run):
    folder.mkdir()
    (folder / "probe.json").write_text(json.dumps(run))
    return str(folder)


def test_the_studys_table_is_reproduced_from_figures_a_joint(tmp_path):
    w1 = _write(tmp_path / "W1", r2=dict(zip(JOINTS, W1, strict=True)))
    w2 = _write(tmp_path / "W2", r2=dict(zip(JOINTS, W2, strict=True)))
    (tmp_path / "W1" / "rank.json").write_text(json.dumps({"top1": 0.605, "interval": [0.56, 0.65]}))
    (tmp_path / "W2" / "rank.json").write_text(json.dumps({"top1": 0.646}))
    file = tmp_path / "study.toml"
    file.write_text(bars.find_bars("study").read_text())
    found = compare([w1, w2], file)
    rows = {metric: tuple(round(f.value, 3) for f in figures) for metric, figures in found.rows.items()}
    assert rows["mean_r2"] == (0.565, 0.867)
    assert rows["anisotropy"] == (0.64, 0.3)
    assert rows["rank_top1"] == (0.605, 0.646)
    assert [rows[f"r2.{j}"] for j in JOINTS] == list(zip(W1, W2, strict=True))
    assert found.rows["rank_top1"][0].to_json() == [0.56, 0.65]
    assert [v.met for v in found.verdicts] == [True, True, True]
    assert {v.verdict for v in found.verdicts} == {"exploratory"}
    assert next(d for d in found.differences if d.metric == "mean_r2").interval.value == pytest.approx(-0.302, abs=1e-3)
    assert "| wrist flex | 0.270 | 0.740 |" in found.markdown()


def test_the_study_ships_with_its_own_figures():
    found = compare(["study:w1", "study:w2"], bars.find_bars("study"))
    assert found.rows["anisotropy"][0].value == 0.639
    assert found.rows["mean_r2"][1].value == 0.867
    assert [v.met for v in found.verdicts] == [True, True, True]


def _run(rng, z, noise, made_s):
    episodes, length, _ = z.shape
    predicted = z + noise * rng.standard_normal(z.shape)
    index = np.repeat(np.arange(episodes), length)
    sums = EpisodeSums.of(z.reshape(-1, 6), predicted.reshape(-1, 6), index)
    found = recovery_json(from_sums(JOINTS, sums, np.zeros(6), rng))
    found["sums"] = {key: np.asarray(value).tolist() for key, value in vars(sums).items()}
    return {**found, "encoder": {"spec": "made", "made_s": made_s}}


def test_differences_are_paired_where_the_episodes_are_the_same(tmp_path):
    rng = np.random.default_rng(0)
    z = ou_chain(rng, 12, 80, 6, 0.9)
    good = _write(tmp_path / "good", **_run(rng, z, 0.2, 2000.0))
    bad = _write(tmp_path / "bad", **_run(rng, z, 0.6, 3000.0))
    far = _write(tmp_path / "far", **_run(rng, ou_chain(rng, 9, 80, 6, 0.9), 0.6, 3000.0))
    file = tmp_path / "walk.toml"
    file.write_text(bars.find_bars("walk").read_text())
    bars.freeze(file, 1000.0)
    found = compare([good, bad, far], file)
    mean = {d.other: d for d in found.differences if d.metric == "mean_r2"}
    assert mean["bad"].paired
    assert not mean["far"].paired
    for d in mean.values():
        assert d.interval.low < 0.36 - 0.04 < d.interval.high  # 0.6^2 - 0.2^2
    assert [v.verdict for v in found.verdicts] == ["pass", "pass", "pass"]
    assert [v.verdict for v in compare([bad, good], file).verdicts] == ["fail", "pass", "fail"]
    told = json.loads(json.dumps(found.to_json()))
    assert told["runs"][0]["name"] == "good"
    assert told["runs"][0]["intervals"]["mean_r2"][0] < told["runs"][0]["mean_r2"]
    assert {d["metric"] for d in told["differences"]} == {"mean_r2", "anisotropy", *(f"r2.{j}" for j in JOINTS)}


def test_ranking_that_goes_against_r2_fails_its_bar(tmp_path):
    rng = np.random.default_rng(1)
    z = ou_chain(rng, 6, 40, 6, 0.9)
    runs = [_write(tmp_path / n, **_run(rng, z, s, 2000.0)) for n, s in (("a", 0.2), ("b", 0.6))]
    file = tmp_path / "study.toml"
    file.write_text(bars.find_bars("study").read_text())
    bars.freeze(file, 1000.0)
    assert compare(runs, file).verdicts[2].verdict == "unknown"
    for name, top1 in (("a", 0.5), ("b", 0.7)):
        (tmp_path / name / "rank.json").write_text(json.dumps({"top1": top1}))
    assert compare(runs, file).verdicts[2].verdict == "fail"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda p: str(p / "nowhere"), "is not a run"),
        (lambda p: "study:w3", "did you mean"),
        (lambda p: _write(p / "empty"), "has no table r2"),
        (lambda p: _write(p / "text", r2={"a": "b"}), "has no table r2"),
    ],
)
def test_what_is_no_run_is_told(tmp_path, make, told):
    with pytest.raises(UsageError, match=told):
        compare(["study:w1", make(tmp_path)])


def test_a_torn_run_is_told(tmp_path):
    path = _write(tmp_path / "torn", r2={"a": 1.0})
    (tmp_path / "torn" / "probe.json").write_text('{"r2": ')
    with pytest.raises(UsageError, match="can't be read"):
        compare([path, path])
