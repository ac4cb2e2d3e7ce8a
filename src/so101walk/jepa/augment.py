"""Changes of a batch of images that leave the joints as they are: moved a little, lighter or darker, noisy."""

import torch
from torch import Tensor

from .recipe import AugmentConfig

__all__ = ["augment"]


def augment(images: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Each image of each view changed by draws of its own.

    Args:
        images: Shape (n, cameras, H, W, 3), uint8, on the CPU.
        config: How much; all zeros returns the images untouched.
        generator: What the draws come from.

    Returns:
        The same shape; uint8 if only moved, else float32 within 0 to 255.
    """
    n, cameras = images.shape[:2]
    if config.shift_px:
        images = _moved(images, config.shift_px, generator)
    if not (config.brightness or config.contrast or config.noise):
        return images

    def either_way(reach: float) -> Tensor:
        return reach * (2.0 * torch.rand(n, cameras, 1, 1, 1, generator=generator) - 1.0)

    x = images.float()
    mean = x.mean(dim=(2, 3, 4), keepdim=True)
    x = (x - mean) * (1.0 + either_way(config.contrast)) + mean + 255.0 * either_way(config.brightness)
    if config.noise:
        x = x + 255.0 * config.noise * torch.randn(x.shape, generator=generator)
    return x.clamp_(0.0, 255.0)


def _moved(images: Tensor, reach: int, generator: torch.Generator) -> Tensor:
    n, cameras, height, width, _ = images.shape
    by = torch.randint(-reach, reach + 1, (2, n, cameras, 1), generator=generator)
    rows = (torch.arange(height) + by[0]).clamp_(0, height - 1)
    columns = (torch.arange(width) + by[1]).clamp_(0, width - 1)
    image, view = torch.arange(n)[:, None, None, None], torch.arange(cameras)[None, :, None, None]
    return images[image, view, rows[..., :, None], columns[..., None, :]]
