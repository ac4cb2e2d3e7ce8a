"""Training on windows of frames and the actions between them: LeWM's loss."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import sigreg
from .augment import augment
from .fit import Draws
from .lewm import LeWM
from .model import autocast
from .pairs import Timeline, windows_of
from .recipe import AugmentConfig, LewmRecipe

__all__ = ["WindowTask", "action_chunks"]

VALIDATION_WINDOWS = 1024


def action_chunks(
    actions: NDArray[np.float32], rows: NDArray[np.int64], stride: int, relative: bool
) -> NDArray[np.float32]:
    """The actions from each row's frame to the frame ``stride`` later, flattened.

    (..., 6) at rows (...) to (..., 6 * stride).

    Args:
        actions: ``action`` of every row of the dataset, LeRobot units. Shape (n, 6).
        rows: First row of each chunk, any shape; the chunk must lie within its episode.
        stride: Actions a chunk.
        relative: Subtract the chunk's first action.
    """
    chunk = actions[rows[..., None] + np.arange(stride)]
    if relative:
        chunk = chunk - chunk[..., :1, :]
    return chunk.reshape(*rows.shape, stride * actions.shape[1]).astype(np.float32)


class WindowTask:
    """LeWM's training task. See :class:`so101walk.jepa.fit.Task`.

    Args:
        module: The world model; its action scale is set here from the training episodes.
        recipe: Sizes of batch and window.
        rows_of: Gives images of row numbers, a tensor on the CPU.
        actions: ``action`` of every row. Shape (n, 6).
        timeline: Where each row stands.
        train: Episodes to train on.
        validation: Episodes to look at.
        device: Where the module lives.
        seed: Of the choice of validation windows.
        bf16: Compute convolutions and products in bf16.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        recipe: LewmRecipe,
        rows_of: Callable[[NDArray[np.int64]], Tensor],
        actions: NDArray[np.float32],
        timeline: Timeline,
        train: Iterable[int],
        validation: Iterable[int],
        device: torch.device,
        seed: int,
        bf16: bool = True,
    ) -> None:
        assert isinstance(module, LeWM)
        self.module: torch.nn.Module = module
        self._model = module
        w = recipe.windows
        self._recipe, self._rows_of, self._actions = recipe, rows_of, actions
        self._device, self._seed, self._bf16 = device, seed, bf16
        self._train = windows_of(timeline, train, w.history + 1, w.stride)
        held = windows_of(timeline, validation, w.history + 1, w.stride)
        rng = np.random.default_rng([seed, len(held)])
        self._validation = np.sort(rng.permutation(held)[:VALIDATION_WINDOWS])
        self.images_per_step = recipe.optimiser.batch * (w.history + 1)
        self._set_action_scale()

    @property
    def windows(self) -> int:
        """Training windows."""
        return len(self._train)

    def loss(self, draws: Draws) -> tuple[Tensor, dict[str, float]]:
        """The loss of a batch of windows drawn at random."""
        start = self._train[draws.rows.integers(len(self._train), size=self._recipe.optimiser.batch)]
        loss, terms, _ = self._loss(start, draws.tensors, self._recipe.augment)
        return loss, terms

    def evaluate(self) -> dict[str, float]:
        """Loss and terms on validation windows, ``whitening``, and ``skill``.

        1 - error / error of predicting no change.
        """
        generator = Draws.of(self._seed, len(self._validation)).tensors
        batch = min(self._recipe.optimiser.batch, len(self._validation))
        order = torch.randperm(len(self._validation), generator=generator).numpy()
        found, latents = [], []
        for part in order[: len(order) // batch * batch].reshape(-1, batch):
            _, terms, z = self._loss(self._validation[part], generator, AugmentConfig())
            found.append(terms)
            latents.append(z)
        figures = {name: float(np.mean([t[name] for t in found])) for name in found[0]}
        z = torch.cat(latents).cpu().double()
        flat = z.flatten(0, 1)
        figures["whitening"] = float((torch.cov(flat.T) - torch.eye(flat.shape[1], dtype=flat.dtype)).norm())
        still = float((z[:, 1:] - z[:, :-1]).square().mean())
        figures["criterion"] = figures["prediction"] / max(float(flat.var(dim=0).mean()), 1e-12)
        figures["skill"] = 1.0 - figures["prediction"] / max(still, 1e-12)
        return figures

    def _loss(
        self, start: NDArray[np.int64], generator: torch.Generator, change: AugmentConfig
    ) -> tuple[Tensor, dict[str, float], Tensor]:
        w, s = self._recipe.windows, self._recipe.sigreg
        rows = start[:, None] + w.stride * np.arange(w.history + 1)
        images = self._rows_of(rows.reshape(-1))
        if change != AugmentConfig():
            images = augment(images, change, generator)
        actions = torch.from_numpy(action_chunks(self._actions, rows[:, :-1], w.stride, w.relative_actions))
        with autocast(self._device, self._bf16):
            z = self._model(images.to(self._device)).view(len(start), w.history + 1, -1)
            predicted = self._model.predict(z[:, :-1], actions.to(self._device))
        error = (predicted - z[:, 1:]).square().mean()
        along = sigreg.directions(s.slices, z.shape[-1], generator, z.device)
        spread = sigreg.sigreg(z.transpose(0, 1), along, s.knots, s.t_max)
        loss = error + s.weight * spread
        terms = {"loss": float(loss.detach()), "prediction": float(error.detach()), "sigreg": float(spread.detach())}
        return loss, terms, z.detach()

    def _set_action_scale(self) -> None:
        w = self._recipe.windows
        chunks = action_chunks(self._actions, self._train, w.stride, w.relative_actions).astype(np.float64)
        scale = chunks.std(axis=0)
        scale[scale < 1e-6] = 1.0
        self._model.action_mean.copy_(torch.from_numpy(chunks.mean(axis=0)))
        self._model.action_scale.copy_(torch.from_numpy(scale))
