"""LeWM: causality, rollouts on its own predictions, action chunks, and a world whose dynamics it learns."""

import numpy as np
import pytest
import torch

from so101walk.config import build
from so101walk.jepa.fit import fit
from so101walk.jepa.lewm import LeWM, rollout
from so101walk.jepa.lewm_task import WindowTask, action_chunks
from so101walk.jepa.model import seeded
from so101walk.jepa.pairs import Timeline
from so101walk.jepa.recipe import LewmRecipe

TINY = {
    "kind": "lewm",
    "projector": 32,
    "frames": {"size_px": 32},
    "encoder": {"channels": [8, 16], "hidden": 32, "latent": 8},
    "windows": {"history": 3, "stride": 2},
    "predictor": {"layers": 2, "heads": 2, "head_width": 8, "mlp": 32},
    "sigreg": {"weight": 0.09, "slices": 32},
    "optimiser": {"lr": 3e-3, "steps": 120, "batch": 64, "warmup_steps": 10},
    "stop": {"every": 120},
}


def recipe(**changes) -> LewmRecipe:
    return build(LewmRecipe, {**TINY, **changes}, "test")


def model(plan: LewmRecipe | None = None) -> LeWM:
    with seeded(0):
        made = LeWM(plan or recipe(), cameras=2)
    # AdaLN-zero starts as the identity; these tests want every path open.
    with torch.no_grad():
        for name, p in made.named_parameters():
            if "modulation" in name:
                p.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(len(name)))
    return made.eval()


def test_an_untrained_predictor_ignores_actions_and_a_modulated_one_does_not():
    z, a = torch.randn(4, 3, 8), torch.randn(4, 3, 12)
    with seeded(0):
        fresh = LeWM(recipe(), cameras=2).eval()
    assert torch.equal(fresh.predict(z, a), fresh.predict(z, a + 1.0))
    open_paths = model()
    assert not torch.allclose(open_paths.predict(z, a), open_paths.predict(z, a + 1.0))


def test_a_prediction_never_sees_what_comes_later():
    m = model()
    z, a = torch.randn(4, 3, 8), torch.randn(4, 3, 12)
    before = m.predict(z, a)
    z2, a2 = z.clone(), a.clone()
    z2[:, 2] += 1.0
    a2[:, 2] += 1.0
    after = m.predict(z2, a2)
    assert torch.allclose(before[:, :2], after[:, :2], atol=1e-6)
    assert not torch.allclose(before[:, 2], after[:, 2])


@pytest.mark.parametrize("known", [1, 2, 3])
def test_a_rollout_is_the_predictor_fed_with_its_own_latents(known):
    m = model()
    z, a = torch.randn(5, known, 8), torch.randn(5, known - 1 + 4, 12)
    with torch.no_grad():
        found = rollout(m, z, a, history=3)
        latents = list(z.unbind(1))
        for _ in range(4):
            first = max(0, len(latents) - 3)
            window = torch.stack(latents[first:], dim=1)
            latents.append(m.predict(window, a[:, first : len(latents)])[:, -1])
    assert torch.allclose(found, latents[-1], atol=1e-6)


def test_chunks_hold_the_actions_between_two_frames():
    actions = np.arange(60, dtype=np.float32).reshape(10, 6)
    chunk = action_chunks(actions, np.array([[0, 2], [3, 5]]), stride=2, relative=False)
    assert chunk.shape == (2, 2, 12)
    assert chunk[1, 0].tolist() == [*range(18, 30)]
    relative = action_chunks(actions, np.array([4]), stride=2, relative=True)
    assert relative[0].tolist() == [0.0] * 6 + [6.0] * 6
    assert action_chunks(actions, np.empty((3, 0), int), 2, False).shape == (3, 0, 12)


def test_it_learns_dynamics_that_only_the_actions_tell():
    rng = np.random.default_rng(0)
    episodes, length = 12, 50
    # The next state is the action: without actions nothing is to be predicted.
    states = rng.standard_normal((episodes, length, 6)).astype(np.float32)
    actions = np.concatenate([states[:, 1:], states[:, -1:]], axis=1).reshape(-1, 6)
    patterns = rng.standard_normal((6, 2 * 32 * 32 * 3))
    images = torch.from_numpy(np.clip(128 + 20 * states.reshape(-1, 6) @ patterns, 0, 255).astype(np.uint8))
    images = images.view(-1, 2, 32, 32, 3)
    time = Timeline(np.repeat(np.arange(episodes), length), np.tile(np.arange(length), episodes))
    plan = recipe(windows={"history": 3, "stride": 1})

    def trained(acts: np.ndarray) -> dict[str, float]:
        with seeded(1):
            world = LeWM(plan, cameras=2)
        cpu = torch.device("cpu")
        task = WindowTask(world, plan, lambda rows: images[rows], acts, time, range(10), [10, 11], cpu, 0, bf16=False)
        return fit(task, plan.optimiser, plan.stop, seed=0).history[-1]["validation"]

    told, blind = trained(actions), trained(np.zeros_like(actions))
    assert told["skill"] > 0.6
    # Unpredictable latents are best guessed by their mean, half the error of predicting no change.
    assert blind["skill"] < 0.55
