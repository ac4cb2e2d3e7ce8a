"""The training loop, and the theory on worlds where the truth is known: vectors, not images, so seconds suffice."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from so101walk.jepa.fit import Draws, fit, learning_rate
from so101walk.jepa.lejepa import PairTask
from so101walk.jepa.pairs import Pairs
from so101walk.jepa.recipe import LejepaRecipe, OptimiserConfig, SigregConfig, StopConfig
from so101walk.policies.gennorm import copula_rho, from_gaussian

RHO = 0.8
DIM = 2


def recipe(steps: int, every: int = 100, patience: int = 0) -> LejepaRecipe:
    return LejepaRecipe(
        sigreg=SigregConfig(weight=0.05, slices=32),
        optimiser=OptimiserConfig(lr=5e-3, warmup_steps=min(20, steps), batch=256, steps=steps),
        stop=StopConfig(every=every, patience=patience),
    )


def world(alpha: float, n: int = 20000) -> tuple[np.ndarray, torch.Tensor, Pairs]:
    """States of unit variance with generalized-normal marginals, seen through a mixing; pairs of correlation RHO."""
    rng = np.random.default_rng(0)
    r = copula_rho(RHO, alpha)
    first = rng.standard_normal((n, DIM))
    second = r * first + np.sqrt(1 - r * r) * rng.standard_normal((n, DIM))
    z = from_gaussian(np.concatenate([first, second]), alpha)
    mix = np.array([[1.0, 0.6, -0.3], [-0.4, 0.9, 0.7]])
    seen = torch.from_numpy(z @ mix).float()
    rows = np.arange(n)
    return z, seen, Pairs(rows, rows + n, np.ones(n))


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    first, second = (nn.Sequential(nn.Linear(w, 64), nn.BatchNorm1d(64), nn.GELU()) for w in (3, 64))
    return nn.Sequential(first, second, nn.Linear(64, DIM))


def task(seen: torch.Tensor, pairs: Pairs, plan: LejepaRecipe, seed: int = 0) -> PairTask:
    part = np.arange(len(pairs))
    train = Pairs(*(a[part < 18000] for a in (pairs.first, pairs.second, pairs.lag)))
    held = Pairs(*(a[part >= 18000] for a in (pairs.first, pairs.second, pairs.lag)))
    device = torch.device("cpu")
    return PairTask(network(seed), plan, lambda rows: seen[rows], train, held, device, seed, DIM, RHO, bf16=False)


def recovered(module: nn.Module, z: np.ndarray, seen: torch.Tensor) -> np.ndarray:
    """R^2 of each state from the latent by linear regression, fit on one half and scored on the other."""
    module.eval()
    with torch.no_grad():
        h = module(seen).double().numpy()
    x = np.concatenate([h, np.ones((len(h), 1))], axis=1)
    half = len(h) // 2
    weights, *_ = np.linalg.lstsq(x[:half], z[:half], rcond=None)
    error = ((z[half:] - x[half:] @ weights) ** 2).sum(axis=0)
    return 1.0 - error / ((z[half:] - z[half:].mean(axis=0)) ** 2).sum(axis=0)


def test_a_gaussian_world_is_recovered_and_a_non_gaussian_one_is_not():
    found, looks = {}, {}
    for alpha in (2.0, 0.6):
        z, seen, pairs = world(alpha)
        plan = recipe(400, every=400)
        trained = task(seen, pairs, plan)
        looks[alpha] = fit(trained, plan.optimiser, plan.stop, seed=0).history[-1]["validation"]
        found[alpha] = recovered(trained.module, z, seen)
    assert found[2.0].min() > 0.99
    assert found[0.6].max() < 0.97
    assert found[2.0].mean() - found[0.6].mean() > 0.03
    # Theorem 5.1: at h = Qz the pairs correlate as the walk does, and alignment is (1 - rho) / 2.
    assert looks[2.0]["pair_correlation"] == pytest.approx(RHO, abs=0.02)
    assert looks[2.0]["alignment"] == pytest.approx((1 - RHO) / 2, abs=0.03)
    assert looks[2.0]["whitening"] < 0.3


def weights_of(module: nn.Module) -> torch.Tensor:
    return torch.cat([v.flatten().double() for v in module.state_dict().values()])


def test_training_is_the_same_from_its_seed_and_differs_from_another():
    _, seen, pairs = world(2.0)
    plan = recipe(30, every=10)
    ends = []
    for seed in (0, 0, 1):
        trained = task(seen, pairs, plan, seed=0)
        fit(trained, plan.optimiser, plan.stop, seed=seed)
        ends.append(weights_of(trained.module))
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


@pytest.mark.parametrize("stopped_at", [10, 13])
def test_a_resumed_training_ends_with_the_same_weights(stopped_at):
    _, seen, pairs = world(2.0)
    plan = recipe(30, every=10)
    whole = task(seen, pairs, plan)
    straight = fit(whole, plan.optimiser, plan.stop, seed=0)

    count = iter(range(1000))
    first = task(seen, pairs, plan)
    state = fit(first, plan.optimiser, plan.stop, seed=0, should_stop=lambda: next(count) >= stopped_at)
    assert state.step == stopped_at
    assert not state.done
    second = task(seen, pairs, plan, seed=0)
    resumed = fit(second, plan.optimiser, plan.stop, seed=0, state=state)
    assert torch.equal(weights_of(whole.module), weights_of(second.module))
    assert resumed.best_step == straight.best_step
    assert [h["validation"] for h in resumed.history] == [h["validation"] for h in straight.history]


class Scripted:
    """A task whose criterion at each look is given."""

    images_per_step = 1

    def __init__(self, criteria: list[float]) -> None:
        self.module: nn.Module = nn.Linear(1, 1)
        self._criteria = iter(criteria)

    def loss(self, draws: Draws) -> tuple[torch.Tensor, dict[str, float]]:
        loss = self.module(torch.ones(1, 1)).square().sum()
        return loss, {"loss": float(loss.detach())}

    def evaluate(self) -> dict[str, float]:
        return {"criterion": next(self._criteria)}


def test_training_stops_when_patience_ends_and_keeps_the_best_weights():
    scripted = Scripted([3.0, 1.0, 2.0, 1.5, 0.5])
    kept = []
    state = fit(
        scripted,
        OptimiserConfig(lr=0.1, warmup_steps=0, steps=100),
        StopConfig(every=10, patience=2),
        seed=0,
        on_look=lambda look, state: kept.append((look.step, look.best, weights_of(scripted.module).clone())),
    )
    assert [(step, best) for step, best, _ in kept] == [(10, True), (20, True), (30, False), (40, False)]
    assert state.done
    assert state.best_step == 20
    assert torch.equal(weights_of(scripted.module), kept[1][2])


def test_the_learning_rate_warms_up_and_falls_to_nothing():
    config = OptimiserConfig(lr=0.01, warmup_steps=10, steps=100)
    rates = [learning_rate(config, s) for s in range(100)]
    assert rates[0] == pytest.approx(0.001)
    assert max(rates) == rates[9] <= 0.01
    assert all(a > b for a, b in itertools.pairwise(rates[9:]))
    assert rates[-1] < 1e-5
