"""Augmentation: seeded, each image and view alone, and nothing where nothing is asked."""

import pytest
import torch

from so101walk.jepa.augment import augment
from so101walk.jepa.recipe import AugmentConfig


def images() -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (40, 2, 16, 16, 3), dtype=torch.uint8, generator=g)


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_nothing_asked_changes_nothing():
    x = images()
    assert augment(x, AugmentConfig(), generator()) is x


def test_a_shift_moves_each_image_of_each_view_alone_and_repeats_the_edge():
    x = images()
    y = augment(x, AugmentConfig(shift_px=2), generator())
    assert y.dtype == torch.uint8
    found = set()
    for i in range(40):
        for v in range(2):
            inner = y[i, v, 4:12, 4:12]
            places = [
                (dy, dx)
                for dy in range(-2, 3)
                for dx in range(-2, 3)
                if torch.equal(inner, x[i, v, 4 + dy : 12 + dy, 4 + dx : 12 + dx])
            ]
            assert len(places) == 1
            found.add((v, *places[0]))
    assert len(found) > 30


def test_light_and_contrast_keep_the_range_and_draw_for_each_image():
    x = images()
    y = augment(x, AugmentConfig(brightness=0.2, contrast=0.2), generator())
    assert y.dtype == torch.float32
    assert float(y.min()) >= 0
    assert float(y.max()) <= 255
    moved = (y.mean(dim=(2, 3, 4)) - x.float().mean(dim=(2, 3, 4))).flatten()
    assert float(moved.abs().max()) <= 0.2 * 255 + 15
    assert len(set(moved.round(decimals=3).tolist())) > 60


def test_noise_has_the_deviation_asked_for():
    x = torch.full((8, 1, 32, 32, 3), 128, dtype=torch.uint8)
    y = augment(x, AugmentConfig(noise=0.05), generator())
    assert float((y - 128).std()) == pytest.approx(0.05 * 255, rel=0.03)


def test_the_same_seed_gives_the_same_images():
    config = AugmentConfig(shift_px=3, brightness=0.1, noise=0.01)
    same = [augment(images(), config, generator(s)) for s in (5, 5, 6)]
    assert torch.equal(same[0], same[1])
    assert not torch.equal(same[0], same[2])
