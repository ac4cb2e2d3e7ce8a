"""Encoders that know nothing: pixels made small, their principal components, a CNN that was never trained.

They are the references beside every probe: a latent that reads no better than these has learned nothing about the
joints.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .encoders import EncoderOptions, Views

__all__ = ["Pca", "Pixels", "RandomCnn", "load_pca", "load_pixels", "load_random_cnn", "shrink"]

PCA_SIDE = 32
EXACT_ROWS = 1500
PCA_ROWS = 4096
"""Training frames that the components are fit on, drawn evenly: their spectrum is settled long before."""


def shrink(view: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Images (n, H, W, 3) averaged down to (n, side, side, 3); the whole image is kept, its aspect isn't."""
    import cv2

    out = np.empty((len(view), side, side, 3), np.uint8)
    for image, small in zip(view, out, strict=True):
        cv2.resize(image, (side, side), dst=small, interpolation=cv2.INTER_AREA)
    return out


@dataclass(frozen=True)
class Pixels:
    """The image itself, averaged down to ``side`` x ``side`` pixels a camera."""

    side: int

    @property
    def spec(self) -> str:
        """``pixels:SIDE``."""
        return f"pixels:{self.side}"

    @property
    def fingerprint(self) -> str:
        """The side is all there is to it."""
        return self.spec

    def encode(self, views: Views) -> NDArray[np.uint8]:
        """Pixel values (n, cameras * side * side * 3)."""
        return np.concatenate([shrink(v, self.side).reshape(len(v), -1) for v in views], axis=1)

    def inputs(self, view: NDArray[np.uint8]) -> NDArray[np.floating]:
        """The small images, channels first."""
        return shrink(view, self.side).transpose(0, 3, 1, 2).astype(np.float32)


@dataclass(frozen=True)
class Pca:
    """Principal components of the pixels over the training frames."""

    size: int
    base: Pixels = field(default_factory=lambda: Pixels(PCA_SIDE))

    @property
    def spec(self) -> str:
        """``pca:SIZE``."""
        return f"pca:{self.size}"

    def reduce(self, latents: NDArray[Any], train: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """Scores (n, size) on the leading components of the training rows; fewer where those span fewer."""
        rows = train[np.linspace(0, len(train) - 1, min(PCA_ROWS, len(train))).astype(np.int64)]
        sample = latents[rows].astype(np.float32)
        mean = sample.mean(axis=0)
        directions = _leading(sample - mean, self.size, rng)
        out = np.empty((len(latents), directions.shape[1]), np.float32)
        for start in range(0, len(latents), 4096):
            part = slice(start, start + 4096)
            out[part] = (latents[part].astype(np.float32) - mean) @ directions
        return out


def _leading(centred: NDArray[np.float32], size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Leading right singular vectors (p, size) of the rows (n, p).

    Exact for up to ``EXACT_ROWS`` rows; of more, within the range that a random sketch finds with three power
    iterations (Halko, Martinsson and Tropp, SIAM Review 53, 2011).
    """
    size = min(size, len(centred) - 1, centred.shape[1])
    rows = centred if len(centred) <= EXACT_ROWS else _in_range(centred, min(size + 16, *centred.shape), rng)
    values, vectors = np.linalg.eigh(rows.astype(np.float64) @ rows.T.astype(np.float64))
    values, vectors = values[::-1][:size], vectors[:, ::-1][:, :size]
    kept = values > 1e-12 * values[0]
    return np.ascontiguousarray(rows.T @ (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32))


def _in_range(centred: NDArray[np.float32], width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    sketch = centred @ rng.standard_normal((centred.shape[1], width), dtype=np.float32)
    for _ in range(3):
        sketch, _ = np.linalg.qr(sketch)
        sketch = centred @ (centred.T @ sketch)
    basis, _ = np.linalg.qr(sketch)
    return basis.T @ centred


class RandomCnn:
    """Three stride-2 convolutions with ReLU and a projection, at their random start: what architecture alone gives."""

    side = 64

    def __init__(self, size: int, seed: int, device: str) -> None:
        from .pretrained import torch_device

        self.spec = f"random-cnn:{size}"
        self.fingerprint = f"{self.spec} seed={seed} side={self.side} v1"
        self._device = torch_device(device)
        self._network = _random_network(self.side, size, seed).to(self._device)

    def encode(self, views: Views) -> NDArray[np.float32]:
        """Latents (n, cameras * size)."""
        import torch

        with torch.inference_mode():
            parts = [self._network(torch.from_numpy(self.inputs(v)).to(self._device)).cpu().numpy() for v in views]
        return np.concatenate(parts, axis=1)

    def inputs(self, view: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Small images in [-1, 1], channels first."""
        return shrink(view, self.side).transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1.0


def _random_network(side: int, size: int, seed: int) -> Any:
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)
    flat = 64 * (side // 8) ** 2
    network = nn.Sequential(
        nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(flat, size),
    )  # fmt: skip
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            with torch.no_grad():  # He et al. 2015
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) * (2.0 / fan_in) ** 0.5)
                layer.bias.zero_()  # type: ignore[union-attr]
    return network.eval().requires_grad_(False)


def load_pixels(argument: str, options: EncoderOptions) -> Pixels:
    """``pixels`` or ``pixels:SIDE``; 16 pixels a side unless told."""
    return Pixels(_whole("pixels", "SIDE", argument or "16", 1, 64))


def load_pca(argument: str, options: EncoderOptions) -> Pca:
    """``pca:SIZE``."""
    return Pca(_whole("pca", "SIZE", argument, 1, 4096))


def load_random_cnn(argument: str, options: EncoderOptions) -> RandomCnn:
    """``random-cnn`` or ``random-cnn:SIZE``; 256 values a camera unless told."""
    return RandomCnn(_whole("random-cnn", "SIZE", argument or "256", 1, 4096), options.seed, options.device)


def _whole(kind: str, name: str, text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise UsageError(f"{kind}:{name} is {text!r}; it must be a whole number from {low} to {high}")
    return int(text)
