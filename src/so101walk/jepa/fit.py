"""The training loop, whatever is trained: AdamW, warm-up and cosine, looks at validation data, a state to go on from.

Everything random in step ``s`` is drawn from generators seeded by ``(seed, s)``, so a run resumed at a step does
exactly what it would have done: same machine, same number of threads, same weights.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from .model import hash_seed, seeded
from .recipe import OptimiserConfig, StopConfig

__all__ = ["Draws", "Look", "State", "Task", "fit", "learning_rate"]

LOSS_STREAM = 1


@dataclass(frozen=True)
class Draws:
    """What a step may draw from.

    A NumPy generator for rows, a torch one (on the CPU) for directions and augmentation.
    """

    rows: np.random.Generator
    tensors: torch.Generator

    @classmethod
    def of(cls, *entropy: int) -> "Draws":
        """Both generators, from a few numbers."""
        return cls(np.random.default_rng(list(entropy)), torch.Generator().manual_seed(hash_seed(*entropy)))


class Task(Protocol):
    """What is trained.

    Attributes:
        module: All trainable parameters.
        images_per_step: For the throughput.
    """

    module: nn.Module
    images_per_step: int

    def loss(self, draws: Draws) -> tuple[Tensor, dict[str, float]]:
        """The loss of one random batch, and its terms by name."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Figures on validation data, always the same; the module is in eval mode.

        ``criterion`` is among them: the lower it is, the better the weights.
        """
        ...


@dataclass(frozen=True)
class Look:
    """One row of the live table.

    Attributes:
        step: Optimiser steps done.
        terms: Loss and its terms, averaged over the steps since the last look.
        validation: Figures of :meth:`Task.evaluate`.
        images_s: Images trained on a second since the last look.
        best: Whether no earlier look had a lower criterion.
    """

    step: int
    terms: dict[str, float]
    validation: dict[str, float]
    images_s: float
    best: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass
class State:
    """Where a training stands; what a checkpoint holds."""

    step: int = 0
    module: dict[str, Tensor] = field(default_factory=dict)
    optimiser: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_criterion: float = math.inf
    best_step: int = 0
    stale: int = 0
    done: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def learning_rate(config: OptimiserConfig, step: int) -> float:
    """Rate of a step counted from 0: linear warm-up times a cosine from ``lr`` to 0."""
    warm = min(1.0, (step + 1) / max(config.warmup_steps, 1))
    return config.lr * warm * 0.5 * (1.0 + math.cos(math.pi * step / config.steps))


def fit(
    task: Task,
    config: OptimiserConfig,
    stop: StopConfig,
    seed: int,
    state: State | None = None,
    on_look: Callable[[Look, State], None] = lambda look, state: None,
    on_step: Callable[[int], None] = lambda step: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> State:
    """Train until the steps are done or patience is at its end.

    Args:
        task: What is trained; its module ends with the weights of the best look.
        config: Optimiser.
        stop: Looks and patience.
        seed: Of every draw.
        state: Where to go on from; a fresh start without it.
        on_look: Told at every look; the place to save the state.
        on_step: Told after every step.
        should_stop: Asked before every step; True ends with the state as it is, not done.

    Returns:
        The state at the end; ``done`` unless it was told to stop.
    """
    state = state or State()
    optimiser = torch.optim.AdamW(task.module.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    if state.step:
        task.module.load_state_dict(state.module)
        optimiser.load_state_dict(state.optimiser)
    tally: list[dict[str, float]] = []
    begun = time.perf_counter()
    while not state.done:
        if should_stop():
            _keep(state, task, optimiser)
            return state
        tally.append(_step(task, optimiser, config, seed, state.step))
        state.step += 1
        on_step(state.step)
        last = state.step >= config.steps
        if last or state.step % stop.every == 0:
            images_s = task.images_per_step * len(tally) / (time.perf_counter() - begun)
            look = _look(task, state, tally, images_s)
            state.stale = 0 if look.best else state.stale + 1
            state.done = last or (stop.patience > 0 and state.stale >= stop.patience)
            state.history.append(look.to_dict())
            _keep(state, task, optimiser)
            on_look(look, state)
            tally, begun = [], time.perf_counter()
    task.module.load_state_dict(state.best)
    return state


def _step(
    task: Task, optimiser: torch.optim.Optimizer, config: OptimiserConfig, seed: int, step: int
) -> dict[str, float]:
    task.module.train()
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(config, step)
    with seeded(seed, LOSS_STREAM, step):
        loss, terms = task.loss(Draws.of(seed, LOSS_STREAM, step))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
    nn.utils.clip_grad_norm_(task.module.parameters(), config.clip)
    optimiser.step()
    return terms


def _look(task: Task, state: State, tally: list[dict[str, float]], images_s: float) -> Look:
    task.module.eval()
    with torch.no_grad():
        figures = task.evaluate()
    best = figures["criterion"] < state.best_criterion or not state.best
    if best:
        state.best_criterion, state.best_step = figures["criterion"], state.step
        state.best = _copy(task.module)
    terms = {name: float(np.mean([t[name] for t in tally])) for name in tally[0]}
    return Look(state.step, terms, figures, images_s, best)


def _keep(state: State, task: Task, optimiser: torch.optim.Optimizer) -> None:
    state.module, state.optimiser = _copy(task.module), optimiser.state_dict()


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
