import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.dataset.stats import QUANTILES, STATISTICS, ImageStats, aggregate, of_column

RNG = np.random.default_rng(5)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 4))
@settings(max_examples=40)
def test_pooled_episodes_have_the_moments_and_range_of_all_rows(lengths, width):
    rng = np.random.default_rng(sum(lengths))
    parts = [rng.normal(rng.normal() * 5, 1 + rng.random(), (n, width)) for n in lengths]
    found = [of_column(p) for p in parts]
    total = aggregate({name: np.stack([f[name] for f in found]) for name in STATISTICS})
    rows = np.concatenate(parts)
    np.testing.assert_allclose(total["mean"], rows.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(total["std"], rows.std(axis=0), rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(total["min"], rows.min(axis=0))
    np.testing.assert_array_equal(total["max"], rows.max(axis=0))
    assert total["count"] == [len(rows)]


def test_quantiles_of_an_episode_are_exact():
    values = RNG.normal(size=(200, 3))
    found = of_column(values)
    for name, share in QUANTILES.items():
        np.testing.assert_allclose(found[name], np.quantile(values, share, axis=0))


def test_a_scalar_column_has_shape_one_and_big_integers_keep_their_order():
    found = of_column(np.array([5, 1, 3], dtype=np.int64))
    assert {v.shape for v in found.values()} == {(1,)}
    assert (found["min"][0], found["max"][0], found["q50"][0]) == (1.0, 5.0, 3.0)


def test_image_statistics_are_those_of_the_sampled_pixels():
    images = RNG.integers(30, 200, (7, 16, 24, 3), dtype=np.uint8)
    gathered = ImageStats()
    for rgb in images:
        gathered.add(rgb)
    found = gathered.result()
    pixels = images[:, ::4, ::4].reshape(-1, 3) / 255.0
    np.testing.assert_allclose(found["mean"].ravel(), pixels.mean(axis=0))
    np.testing.assert_allclose(found["std"].ravel(), pixels.std(axis=0))
    np.testing.assert_allclose(found["min"].ravel(), pixels.min(axis=0))
    np.testing.assert_allclose(found["max"].ravel(), pixels.max(axis=0))
    for name, share in QUANTILES.items():
        wanted = np.quantile(pixels, share, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(found[name].ravel(), wanted)
    assert found["count"] == [7]
    assert {v.shape for n, v in found.items() if n != "count"} == {(3, 1, 1)}


def test_a_channel_of_one_colour_has_no_spread():
    gathered = ImageStats()
    gathered.add(np.full((8, 8, 3), (255, 0, 17), dtype=np.uint8))
    found = gathered.result()
    assert found["std"].ravel() == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    assert found["q01"].ravel() == pytest.approx([1.0, 0.0, 17 / 255])
