"""The encoder: images of all views to a latent. Only images go in; whatever the recipe, no joint value does."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .recipe import EncoderConfig, FramesConfig

__all__ = ["Encoder", "autocast", "best_device", "hash_seed", "one_thread", "parameter_count", "seeded"]


class Encoder(nn.Module):
    """uint8 images (n, cameras, size, size, 3) to latents (n, d), float32.

    Args:
        config: Layers.
        frames: Size of the images and how the views are joined.
        cameras: Number of views.
        latent: Width of the output, ``config.latent`` unless given.
    """

    def __init__(self, config: EncoderConfig, frames: FramesConfig, cameras: int, latent: int | None = None) -> None:
        super().__init__()
        towers, planes = (1, 3 * cameras) if frames.views == "stack" else (cameras, 3)
        self.towers = nn.ModuleList(_convolutions(planes, config.channels) for _ in range(towers))
        edge = frames.size_px // 4 // 2 ** (len(config.channels) - 1)
        width = towers * config.channels[-1] * max(edge, 1) ** 2
        self.head = nn.Sequential(
            nn.Linear(width, config.hidden, bias=False),
            nn.BatchNorm1d(config.hidden),
            nn.GELU(),
            nn.Linear(config.hidden, latent or config.latent),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Latents of images; floats on the 0 to 255 scale (augmented ones) are taken as well as uint8."""
        n, cameras, height, width, _ = images.shape
        x = images.to(torch.float32).mul_(2.0 / 255.0).sub_(1.0).permute(0, 1, 4, 2, 3)
        groups = [x.reshape(n, 3 * cameras, height, width)] if len(self.towers) == 1 else list(x.unbind(1))
        seen = [
            tower(g.contiguous(memory_format=torch.channels_last)).flatten(1)
            for tower, g in zip(self.towers, groups, strict=True)
        ]
        return self.head(torch.cat(seen, dim=1)).float()


def _convolutions(planes: int, channels: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, width in enumerate(channels):
        size, stride, padding = (4, 4, 0) if i == 0 else (3, 2, 1)
        layers += [
            nn.Conv2d(planes, width, size, stride, padding, bias=False),
            nn.BatchNorm2d(width),
            nn.GELU(),
        ]
        planes = width
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@contextmanager
def seeded(*entropy: int) -> Iterator[None]:
    """Torch's global generators seeded inside the block and as before after it: some layers draw from nothing else."""
    with torch.random.fork_rng():
        torch.manual_seed(hash_seed(*entropy))
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one CPU thread inside the block: the fastest way through layers too small to be shared out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def hash_seed(*entropy: int) -> int:
    """One seed for torch from several numbers, spread as NumPy's ``SeedSequence`` spreads them."""
    import numpy as np

    return int(np.random.SeedSequence(list(entropy)).generate_state(1, np.uint64)[0] >> 1)


def best_device(asked: str | None = None) -> torch.device:
    """The device asked for, else a GPU if there is one, else the CPU."""
    if asked:
        return torch.device(asked)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(device: torch.device, enabled: bool = True) -> torch.autocast:
    """bf16 where it pays: convolutions and matrix products."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def parameter_count(module: nn.Module) -> int:
    """Trainable numbers."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
