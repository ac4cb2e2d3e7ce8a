"""LeJEPA: two images of a pair are drawn together while SIGReg keeps their latents spread as N(0, I)."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from . import sigreg
from .augment import augment
from .fit import Draws
from .model import autocast
from .pairs import Pairs, correlation
from .recipe import AugmentConfig, LejepaRecipe, SigregConfig

__all__ = ["PairTask", "alignment", "encode_rows", "lejepa_loss"]

VALIDATION_PAIRS = 4096
"""Validation pairs looked at, drawn once: about 32 batches, so the loss is known to a few parts in a thousand."""


def alignment(h: Tensor) -> Tensor:
    """Mean squared distance of the views from their mean, over views, rows and latent values.

    (views, n, d) to a scalar.

    For two views it is a quarter of the mean squared difference: ``(1 - rho) / 2`` for a perfect latent at correlation
    rho.
    """
    return (h - h.mean(dim=0, keepdim=True)).square().mean()


def lejepa_loss(h: Tensor, config: SigregConfig, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
    """``weight * SIGReg + (1 - weight) * alignment`` of two views' latents (2, n, d), and its terms.

    SIGReg is taken of each view apart, since the two rows of a pair are not independent.
    """
    along = sigreg.directions(config.slices, h.shape[-1], generator, h.device)
    spread = sigreg.sigreg(h, along, config.knots, config.t_max)
    apart = alignment(h)
    loss = config.weight * spread + (1.0 - config.weight) * apart
    return loss, {"loss": float(loss.detach()), "alignment": float(apart.detach()), "sigreg": float(spread.detach())}


class PairTask:
    """Training on pairs of rows. See :class:`so101walk.jepa.fit.Task`.

    Args:
        module: Encodes a batch.
        recipe: Batch, regulariser, augmentation.
        rows_of: Gives the network's input of row numbers, a tensor on the CPU.
        train: Pairs to train on.
        validation: Pairs to look at.
        device: Where the module lives.
        seed: Of the choice of validation pairs.
        leading: Directions over which the pair correlation is averaged: how many states walk.
        perfect: Pair correlation of the true state on the validation pairs, if it is known.
        bf16: Compute convolutions and products in bf16.
    """

    def __init__(
        self,
        module: nn.Module,
        recipe: LejepaRecipe,
        rows_of: Callable[[NDArray[np.int64]], Tensor],
        train: Pairs,
        validation: Pairs,
        device: torch.device,
        seed: int,
        leading: int = 6,
        perfect: float | None = None,
        bf16: bool = True,
    ) -> None:
        self.module = module
        self.images_per_step = 2 * recipe.optimiser.batch
        self._recipe, self._rows_of, self._train, self._device = recipe, rows_of, train, device
        self._leading, self._perfect, self._bf16, self._seed = leading, perfect, bf16, seed
        rng = np.random.default_rng([seed, len(validation)])
        few = np.sort(rng.permutation(len(validation))[:VALIDATION_PAIRS])
        self._validation = Pairs(validation.first[few], validation.second[few], validation.lag[few])

    def loss(self, draws: Draws) -> tuple[Tensor, dict[str, float]]:
        """The loss of a batch of pairs drawn at random."""
        pick = draws.rows.integers(len(self._train), size=self._recipe.optimiser.batch)
        images = self._rows_of(np.concatenate([self._train.first[pick], self._train.second[pick]]))
        if self._recipe.augment != AugmentConfig():
            images = augment(images, self._recipe.augment, draws.tensors)
        with autocast(self._device, self._bf16):
            h = self.module(images.to(self._device))
        return lejepa_loss(h.view(2, len(pick), -1), self._recipe.sigreg, draws.tensors)

    def evaluate(self) -> dict[str, float]:
        """Loss and terms on validation pairs, ``whitening`` (eps of theorem 5.3), ``pair_correlation``, ``perfect``."""
        v, batch = self._validation, min(self._recipe.optimiser.batch, len(self._validation))
        rows, places = np.unique(np.concatenate([v.first, v.second]), return_inverse=True)
        latents = encode_rows(self.module, self._rows_of, rows, self._device, self._bf16)
        h = torch.from_numpy(latents[places]).view(2, len(v), -1)
        generator = Draws.of(self._seed, len(v)).tensors
        order = torch.randperm(len(v), generator=generator)
        order = order[: len(v) // batch * batch].view(-1, batch)
        terms = [lejepa_loss(h[:, part], self._recipe.sigreg, generator)[1] for part in order]
        figures = {name: float(np.mean([t[name] for t in terms])) for name in terms[0]}
        identity = np.eye(latents.shape[1])
        figures["whitening"] = float(np.linalg.norm(np.cov(latents.T).reshape(identity.shape) - identity))
        local = Pairs(places[: len(v)], places[len(v) :], v.lag)
        figures["pair_correlation"] = correlation(latents, local, self._leading)
        figures["criterion"] = 1.0 - figures["pair_correlation"]
        if self._perfect is not None:
            figures["perfect"] = self._perfect
        return figures


def encode_rows(
    module: nn.Module,
    rows_of: Callable[[NDArray[np.int64]], Tensor],
    rows: NDArray[np.int64],
    device: torch.device,
    bf16: bool = True,
    batch: int = 512,
) -> NDArray[np.float32]:
    """Latents (len(rows), d) of rows, in eval mode without gradients; the module's mode is as before afterwards."""
    was_training = module.training
    module.eval()
    try:
        with torch.inference_mode(), autocast(device, bf16):
            parts = [module(rows_of(rows[i : i + batch]).to(device)).float().cpu() for i in range(0, len(rows), batch)]
    finally:
        module.train(was_training)
    return torch.cat(parts).numpy()
