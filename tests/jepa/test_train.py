"""Training on a dataset: episodes that are left alone, a run that can be resumed and probed, no joint value read."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from so101walk.config import build
from so101walk.dataset.reader import Dataset
from so101walk.errors import DatasetError, UsageError
from so101walk.jepa.bound import train_bound
from so101walk.jepa.encoder import RunEncoder
from so101walk.jepa.recipe import LejepaRecipe, LewmRecipe
from so101walk.jepa.run import load_module, load_run
from so101walk.jepa.train import Report, TrainSpec, train
from so101walk.probe.encoders import EncoderOptions, load_encoder
from so101walk.probe.latents import dataset_digest
from so101walk.probe.samples import split_episodes

SMALL = {
    "frames": {"size_px": 32},
    "encoder": {"channels": [8, 16], "hidden": 32},
    "optimiser": {"steps": 20, "batch": 32, "warmup_steps": 5},
    "stop": {"every": 10},
}
LEJEPA = build(LejepaRecipe, {**SMALL, "pairs": {"lags": [1, 2]}}, "test")
LEWM = build(
    LewmRecipe,
    {
        **SMALL,
        "projector": 32,
        "windows": {"stride": 1},
        "predictor": {"layers": 1, "heads": 2, "head_width": 8, "mlp": 32},
        "sigreg": {"weight": 0.09, "slices": 32},
    },
    "test",
)


def spec(dataset, out, recipe=LEJEPA, **changes) -> TrainSpec:
    return TrainSpec(dataset=dataset, out=out, recipe=recipe, **changes)


@pytest.mark.parametrize("recipe", [LEJEPA, LEWM], ids=["lejepa", "lewm"])
def test_a_run_keeps_what_it_did_and_holds_out_what_the_probe_scores(walk_dataset, tmp_path, recipe):
    looks, facts = [], []
    run = train(spec(walk_dataset, tmp_path / "run", recipe), Report(look=looks.append, begins=facts.append))
    assert run.done
    assert [look.step for look in looks] == [10, 20]
    held = split_episodes(tuple(range(10)), "0.3", 0).val
    assert run.held_out == held
    parts = [set(run.train), set(run.validation), set(held)]
    assert set.union(*parts) == set(range(10))
    assert sum(map(len, parts)) == 10
    assert facts[0]["train_frames"] == 60 * len(run.train)
    assert load_run(tmp_path / "run") == dataclasses.replace(run, history=load_run(tmp_path / "run").history)
    assert set(json.loads((tmp_path / "run/run.json").read_text())) >= {
        "recipe",
        "digest",
        "episodes",
        "history",
        "facts",
    }


def test_training_never_opens_the_joints(walk_dataset, tmp_path, monkeypatch):
    asked = []
    real = Dataset.columns
    monkeypatch.setattr(Dataset, "columns", lambda self, names, *a: asked.extend(names) or real(self, names, *a))
    train(spec(walk_dataset, tmp_path / "a", LEJEPA))
    assert set(asked) == {"walk.waypoint", "walk.z"}
    asked.clear()
    train(spec(walk_dataset, tmp_path / "b", LEWM))
    assert set(asked) == {"walk.waypoint", "action"}


def test_other_joint_values_give_the_same_weights(make_dataset, chain, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    dataset = make_dataset("a", [chain(rng, 30, 0.8) for _ in range(5)])
    ends = []
    for name, factor in (("one", 1.0), ("two", -3.0)):
        real = Dataset.columns

        def scaled(self, names, *a, real=real, factor=factor):
            found = real(self, names, *a)
            return {k: v * factor if k in ("observation.state", "walk.z") else v for k, v in found.items()}

        with monkeypatch.context() as patch:
            patch.setattr(Dataset, "columns", scaled)
            train(spec(dataset, tmp_path / name))
        ends.append(load_module(load_run(tmp_path / name)).state_dict())
    assert all(torch.equal(ends[0][k], ends[1][k]) for k in ends[0])


@pytest.mark.parametrize("recipe", [LEJEPA, LEWM], ids=["lejepa", "lewm"])
def test_an_interrupted_run_resumes_to_the_same_weights(walk_dataset, tmp_path, recipe):
    train(spec(walk_dataset, tmp_path / "straight", recipe))
    count = iter(range(1000))
    stopped = train(spec(walk_dataset, tmp_path / "halved", recipe), should_stop=lambda: next(count) >= 13)
    assert not stopped.done
    train(spec(walk_dataset, tmp_path / "halved", recipe, resume=True))
    one, two = (load_module(load_run(tmp_path / n)).state_dict() for n in ("straight", "halved"))
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert load_run(tmp_path / "halved").done


def test_a_run_is_not_overwritten_nor_resumed_as_another(walk_dataset, tmp_path):
    out = tmp_path / "run"
    train(spec(walk_dataset, out))
    before = (out / "weights.pt").read_bytes()
    with pytest.raises(UsageError, match="--resume"):
        train(spec(walk_dataset, out))
    with pytest.raises(UsageError, match="another seed: 0 there, 7 now"):
        train(spec(walk_dataset, out, seed=7, resume=True))
    other = dataclasses.replace(LEJEPA, sigreg=dataclasses.replace(LEJEPA.sigreg, weight=0.5))
    with pytest.raises(UsageError, match=r"another recipe: sigreg: weight: 0\.02 there, 0\.5 now"):
        train(spec(walk_dataset, out, other, resume=True))
    with pytest.raises(UsageError, match="no run to resume"):
        train(spec(walk_dataset, tmp_path / "new", resume=True))
    assert (out / "weights.pt").read_bytes() == before


def test_another_dataset_under_the_same_name_is_refused_on_resume(make_dataset, chain, tmp_path):
    rng = np.random.default_rng(0)
    states = [chain(rng, 20, 0.8) for _ in range(5)]
    dataset = make_dataset("a", states)
    train(spec(dataset, tmp_path / "run"))
    make_dataset("a", [s + 0.3 for s in states])
    with pytest.raises(UsageError, match="another content of the dataset"):
        train(spec(dataset, tmp_path / "run", resume=True))


def test_too_few_episodes_are_told(make_dataset, chain, tmp_path):
    dataset = make_dataset("a", [chain(np.random.default_rng(0), 20, 0.8) for _ in range(2)])
    with pytest.raises(DatasetError, match="one and validation another"):
        train(spec(dataset, tmp_path / "run"))


@pytest.mark.parametrize("recipe", [LEJEPA, LEWM], ids=["lejepa", "lewm"])
def test_a_run_is_an_encoder_of_the_probe(walk_dataset, tmp_path, recipe):
    train(spec(walk_dataset, tmp_path / "run", recipe))
    dataset = Dataset.open(walk_dataset)
    views = [dataset.decode_at(c, 0, range(5)) for c in dataset.cameras]
    encoder = load_encoder(f"jepa:{tmp_path / 'run'}", EncoderOptions("cpu", ("wrist", "front")))
    assert isinstance(encoder, RunEncoder)
    assert encoder.trained_on[0] == dataset_digest(dataset, dataset.cameras)
    assert set(encoder.trained_on[1]) == set(range(10)) - set(encoder.run.held_out)
    latents = encoder.encode(views[::-1])
    assert latents.shape == (5, 6)
    assert np.isfinite(latents).all()
    straight = load_encoder(f"jepa:{tmp_path / 'run'}", EncoderOptions("cpu", dataset.cameras))
    assert np.allclose(straight.encode(views), latents, atol=1e-6)
    assert straight.inputs(views[0]).shape == (5, 3, 32, 32)
    with pytest.raises(UsageError, match="wrist"):
        load_encoder(f"jepa:{tmp_path / 'run'}", EncoderOptions("cpu", ("front",)))


def test_a_folder_that_is_no_run_and_torn_weights_are_told(walk_dataset, tmp_path):
    with pytest.raises(UsageError, match="not a training run"):
        load_encoder(f"jepa:{tmp_path}", EncoderOptions())
    train(spec(walk_dataset, tmp_path / "run"))
    weights = tmp_path / "run/weights.pt"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(DatasetError, match="torn"):
        load_encoder(f"jepa:{tmp_path / 'run'}", EncoderOptions())


def test_the_supervised_bound_recovers_what_it_is_told(walk_dataset, tmp_path):
    recipe = dataclasses.replace(LEJEPA, optimiser=dataclasses.replace(LEJEPA.optimiser, steps=250, batch=64))
    run = train_bound(spec(walk_dataset, tmp_path / "bound", recipe))
    assert run.done
    assert run.recipe.name == "supervised"
    assert run.history[-1]["validation"]["loss"] < 0.5
    assert load_run(tmp_path / "bound").facts == {"supervised": True}
