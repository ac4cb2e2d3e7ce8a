"""Pictures of the arm follow its pose."""

import numpy as np
import pytest

from so101walk.emulator.picture import Pictures, views_of


@pytest.mark.parametrize(
    ("names", "views"),
    [
        (["front", "wrist"], {"front": "front", "wrist": "wrist"}),
        (["wrist"], {"wrist": "wrist"}),
        (["top", "hand", "more"], {"top": "front", "hand": "wrist", "more": "wrist"}),
    ],
)
def test_views_by_name_or_by_order(names, views):
    assert views_of(names) == views


def test_a_pose_is_seen_by_both_cameras():
    pictures = Pictures(["front", "wrist"], 160, 120)
    here, there = np.zeros(6), np.array([0.4, -0.3, 0.2, 0.1, 0.2, 0.8])
    for name in ("front", "wrist"):
        image = pictures.of(name, here)
        assert image.shape == (120, 160, 3)
        assert image.std() > 10
        assert np.array_equal(image, pictures.of(name, here))
        assert np.abs(image.astype(int) - pictures.of(name, there)).mean() > 1
        image[:] = 0  # may be drawn into
        assert pictures.of(name, here).any()
