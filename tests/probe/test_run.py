"""The whole probe on a small dataset: figures, cache, planted latents, bad input."""

import json
import shutil

import numpy as np
import pytest

from so101walk.errors import DatasetError, UsageError
from so101walk.joints import JOINTS
from so101walk.probe import bars
from so101walk.probe.record import read_run, to_json, write_run
from so101walk.probe.run import ProbeOptions, encode, probe
from so101walk.probe.samples import Samples
from so101walk.probe.stream import batches

from .made import CENTER, SCALE, make_dataset

QUICK = ProbeOptions(val="3", references=False, guards=False)


@pytest.fixture(scope="module")
def samples(dataset):
    from so101walk.dataset.reader import Dataset

    return Samples.of(Dataset.open(dataset))


def _store(path, samples, latents):
    np.savez(path, latents=latents, episode_index=samples.episode, frame_index=samples.frame)
    return f"latents:{path}"


def test_a_probe_of_pixels_finds_joints_that_its_references_frame(dataset):
    result = probe(dataset, "pixels", ProbeOptions(val="3"))
    assert result.linear.mean.value > 0.25
    assert result.references["mean"].mean.value < 0.05
    assert set(result.references) == {"mean", f"pca:{5 * 46 - 1}", "random-cnn:256", "quadratic"}
    assert {g.name: g.status for g in result.guards} == dict.fromkeys(
        ("channels", "alignment", "decode", "leak", "coverage"), "pass"
    )
    assert result.theorem.h == "readout"
    assert result.theorem.pairs == 3 * 15
    assert set(result.extra["angles"]) >= {"shoulder_pan", "wrist_roll"}
    told = to_json(result)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert set(told["r2"]) == set(told["intervals"]["r2"]) == set(JOINTS)
    assert told["anisotropy"] == pytest.approx(max(told["r2"].values()) - min(told["r2"].values()))
    assert told["split"]["val_frames"] == 3 * 46
    assert told["references"]["random-cnn:256"]["mean_r2"] > 0.2


def test_encoders_are_encoded_in_one_pass_for_the_probes_to_come(dataset, monkeypatch):
    options = ProbeOptions(val="3", guards=False)
    passes = []

    def counted(*arguments):
        passes.append(arguments)
        return batches(*arguments)

    monkeypatch.setattr("so101walk.probe.latents.batches", counted)
    encode(dataset, ["pixels:6", "random-cnn:16", "pixels"], options)
    assert len(passes) == 1
    found = [probe(dataset, spec, options) for spec in ("pixels:6", "random-cnn:16")]
    assert len(passes) == 1
    assert all("random-cnn:256" in result.references for result in found)


def test_a_second_probe_decodes_nothing_and_finds_the_same(dataset, monkeypatch):
    first = to_json(probe(dataset, "pixels:8", ProbeOptions(val="3")))

    def refuse(*_):
        raise AssertionError("a cached probe decoded images")

    monkeypatch.setattr("so101walk.dataset.reader.Dataset.frames", refuse)
    monkeypatch.setattr("so101walk.dataset.reader.Dataset.decode_at", refuse)
    again = to_json(probe(dataset, "pixels:8", ProbeOptions(val="3")))
    assert again["encoder"]["cached"]
    assert not first["encoder"]["cached"]
    for key in ("r2", "intervals", "guards", "references", "theorem", "quadratic"):
        assert again[key] == first[key]


def test_planted_latents_get_the_r2_that_algebra_predicts(dataset, samples, tmp_path):
    rng = np.random.default_rng(0)
    noise = np.array([0.05, 0.1, 0.2, 0.15, 0.05, 0.2])
    z = (samples.q - CENTER) / SCALE
    latents = (z + noise * rng.standard_normal(z.shape)) @ rng.standard_normal((6, 16))
    result = probe(dataset, _store(tmp_path / "planted.npz", samples, latents), QUICK)
    held = z[result.val].var(axis=0)
    for found, variance, s in zip(result.linear.r2, held, noise, strict=True):
        assert found.value == pytest.approx(1 - s**2 / (variance + s**2), abs=0.05)


def test_a_latent_that_is_the_walks_own_state_meets_theorem_5_3_with_nothing_to_spare(dataset, samples, tmp_path):
    from so101walk.dataset.reader import Dataset

    z = Dataset.open(dataset).columns(["walk.z"])["walk.z"].astype(np.float64)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    result = probe(dataset, _store(tmp_path / "z.npz", samples, z @ rotation), QUICK)
    assert result.theorem.h == "latent"
    assert result.theorem.delta < 1e-3
    assert result.theorem.error < 1e-6
    assert result.linear.mean.value > 0.999
    assert result.extra["reverse_r2"] > 0.999
    assert result.extra["orthogonality_error"] < 1e-3


def test_shifted_images_fire_the_alignment_guard(tmp_path):
    path = make_dataset(tmp_path / "late", episodes=6, length=46, shift=2, seed=3)
    result = probe(path, "pixels", ProbeOptions(val="2", references=False))
    found = next(g for g in result.guards if g.name == "alignment")
    assert abs(found.figures["peak_frames"] + 2) < 0.6
    assert found.status == "warn"
    assert "images lag behind the joints" in found.message


def test_gray_images_and_a_constant_joint_are_told(tmp_path):
    path = make_dataset(tmp_path / "gray", episodes=4, length=31, constant=(5,), gray=True)
    result = probe(path, "pixels", ProbeOptions(val="2", references=False))
    status = {g.name: g.status for g in result.guards}
    assert (status["channels"], status["coverage"]) == ("warn", "warn")
    told = to_json(result)
    assert told["r2"]["gripper"] is None
    assert told["intervals"]["r2"]["gripper"] is None
    assert told["mean_r2"] == pytest.approx(np.mean([v for v in told["r2"].values() if v is not None]))
    assert told["guards"]["coverage"]["still"] == ["gripper"]
    write_run(result, tmp_path / "run")
    assert read_run(str(tmp_path / "run"))["r2"]["gripper"] is None
    assert "does not move" in (tmp_path / "run" / "report.html").read_text()


def test_cameras_are_chosen_by_name_and_stride_thins_the_frames(dataset):
    result = probe(
        dataset, "pixels:4", ProbeOptions(val="3", cameras=("wrist",), stride=5, references=False, guards=False)
    )
    assert result.cameras == ("observation.images.wrist",)
    assert result.latents.array.shape == (8 * 10, 48)
    with pytest.raises(DatasetError, match="no camera 'wirst'; did you mean 'wrist'"):
        probe(dataset, "pixels", ProbeOptions(cameras=("wirst",)))
    with pytest.raises(UsageError, match="twice"):
        probe(dataset, "pixels", ProbeOptions(cameras=("wrist", "wrist")))


def test_verdicts_are_exploratory_until_the_bars_are_frozen_before_the_latents(dataset, tmp_path):
    file = tmp_path / "walk.toml"
    file.write_text(bars.find_bars("walk").read_text())
    options = ProbeOptions(val="3", references=False, guards=False, bars=str(file))
    assert {v.verdict for v in probe(dataset, "pixels:4", options).verdicts} == {"exploratory", "unknown"}
    bars.freeze(file)
    assert {v.verdict for v in probe(dataset, "pixels:4", options).verdicts} == {"exploratory", "unknown"}
    late = probe(dataset, "pixels:5", options).verdicts
    assert [v.verdict for v in late] == ["fail", late[1].verdict, "unknown"]
    assert late[1].verdict in ("pass", "fail")


def _without(dataset, folder, drop):
    copy = shutil.copytree(dataset, folder)
    info = json.loads((copy / "meta/info.json").read_text())
    info["features"] = {k: v for k, v in info["features"].items() if not k.startswith(drop)}
    (copy / "meta/info.json").write_text(json.dumps(info))
    return copy


@pytest.mark.parametrize(
    ("drop", "told"),
    [("observation.images", "has no camera"), ("observation.state", "has no column 'observation.state'")],
)
def test_a_dataset_without_cameras_or_state_is_refused(dataset, tmp_path, drop, told):
    with pytest.raises(DatasetError, match=told):
        probe(_without(dataset, tmp_path / "less", drop), "pixels", QUICK)


def test_a_dataset_without_the_walks_columns_has_no_pairs(dataset, tmp_path):
    result = probe(_without(dataset, tmp_path / "plain", "walk."), "pixels:4", QUICK)
    assert result.theorem is None
    assert "no pairs" in result.extra["theorem_reason"]


def test_latents_that_miss_frames_or_are_not_finite_are_refused(dataset, samples, tmp_path):
    latents = np.random.default_rng(0).standard_normal((len(samples.rows), 3))
    spec = _store(tmp_path / "made.npz", samples, latents)
    np.savez(
        tmp_path / "made.npz", latents=latents[1:], episode_index=samples.episode[1:], frame_index=samples.frame[1:]
    )
    with pytest.raises(UsageError, match="misses 1 of 368 frames, the first of them episode 0 frame 0"):
        probe(dataset, spec, QUICK)
    latents[50, 1] = np.inf
    with pytest.raises(UsageError, match="isn't finite for episode 1 frame 4"):
        probe(dataset, _store(tmp_path / "made.npz", samples, latents), QUICK)


def test_one_held_out_episode_has_no_interval(dataset):
    result = probe(dataset, "pixels:4", ProbeOptions(val="1", references=False, guards=False))
    assert result.linear.mean.low is None
    assert to_json(result)["intervals"]["mean_r2"] is None
