"""The supervised bound: the same encoder on the same frames for as many steps, told the joints.

What training could reach.

It is the only training here that reads joint values, and it is never called a JEPA: a yardstick to stand beside one.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..dataset.reader import Dataset
from .augment import augment
from .fit import Draws, fit
from .frames import Frames, open_frames
from .lejepa import encode_rows
from .model import Encoder, autocast, best_device, seeded
from .recipe import AugmentConfig, LejepaRecipe
from .run import Run, save_weights
from .train import TrainSpec, plan

__all__ = ["train_bound"]

STATE = "observation.state"


class _JointTask:
    def __init__(
        self, module: nn.Module, recipe: LejepaRecipe, frames: Frames, target: Tensor, run: Run, device: torch.device
    ) -> None:
        self.module, self.images_per_step = module, 2 * recipe.optimiser.batch
        self._recipe, self._frames, self._target, self._device = recipe, frames, target, device
        self._train = np.flatnonzero(np.isin(frames.timeline.episode, run.train))
        self._looked = np.flatnonzero(np.isin(frames.timeline.episode, run.validation))

    def loss(self, draws: Draws) -> tuple[Tensor, dict[str, float]]:
        rows = self._train[draws.rows.integers(len(self._train), size=self.images_per_step)]
        images = torch.from_numpy(self._frames.images[rows])
        if self._recipe.augment != AugmentConfig():
            images = augment(images, self._recipe.augment, draws.tensors)
        with autocast(self._device):
            h = self.module(images.to(self._device))
        loss = (h - self._target[rows].to(self._device)).square().mean()
        return loss, {"loss": float(loss.detach())}

    def evaluate(self) -> dict[str, float]:
        h = encode_rows(self.module, lambda r: torch.from_numpy(self._frames.images[r]), self._looked, self._device)
        error = float((torch.from_numpy(h) - self._target[self._looked]).square().mean())
        return {"loss": error, "criterion": error}


def train_bound(spec: TrainSpec, should_stop: Callable[[], bool] = lambda: False) -> Run:
    """Train the recipe's encoder to give the joints, and keep it as a run named ``supervised``.

    Its validation and held-out episodes are those of a JEPA trained by the same spec.

    Raises:
        DatasetError: As :func:`so101walk.jepa.train.train`.
    """
    recipe = spec.recipe
    assert isinstance(recipe, LejepaRecipe)
    if spec.threads:
        torch.set_num_threads(spec.threads)
    dataset = Dataset.open(spec.dataset)
    state: NDArray[np.float64] = dataset.columns([STATE])[STATE].astype(np.float64)
    run = plan(spec, dataset)
    frames = open_frames(dataset, run.cameras, recipe.frames.size_px, spec.cache)
    train = np.isin(frames.timeline.episode, run.train)
    scale = state[train].std(axis=0)
    target = torch.from_numpy((state - state[train].mean(axis=0)) / np.where(scale > 1e-6, scale, 1.0)).float()
    encoder = replace(recipe.encoder, latent=state.shape[1])
    recipe = replace(recipe, name="supervised", encoder=encoder)
    device = best_device(spec.device)
    with seeded(spec.seed, 2):
        module = Encoder(encoder, recipe.frames, len(run.cameras)).to(device)
    ended = fit(
        _JointTask(module, recipe, frames, target, run, device), recipe.optimiser, recipe.stop, spec.seed,
        should_stop=should_stop,
    )  # fmt: skip
    run = replace(
        run, recipe=recipe, digest=frames.digest, history=tuple(ended.history), best_step=ended.best_step,
        done=ended.done, facts={"supervised": True},
    )  # fmt: skip
    if ended.done:
        spec.out.mkdir(parents=True, exist_ok=True)
        save_weights(spec.out, ended.best)
        run.save()
    return run
