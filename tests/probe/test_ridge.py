"""The ridge against scikit-learn, and what must not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.preprocessing import StandardScaler

from so101walk.errors import UsageError
from so101walk.probe import ridge

STRENGTHS = (1e-7, 1e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1e3)


def _world(rng, n, d, m=2, groups=6):
    x = rng.standard_normal((n, d)) * rng.uniform(10.0, 20.0, d) + rng.normal(0.0, 100.0, d)
    y = x[:, : min(d, 4)] @ rng.standard_normal((min(d, 4), m)) + 20.0 * rng.standard_normal((n, m)) + 7.0
    episode = np.repeat(np.arange(groups), n // groups)
    frame = np.tile(np.arange(n // groups), groups)
    return x, y, episode, frame


@pytest.mark.parametrize(("n", "d"), [(600, 40), (90, 200), (60, 60)])
def test_fit_equals_scikit_learn_with_grouped_folds(n, d):
    x, y, episode, frame = _world(np.random.default_rng(1), n, d)
    folds = ridge.folds_of(episode, frame)
    readout = ridge.fit(x, y, np.arange(n), folds, STRENGTHS)
    scaled = StandardScaler().fit_transform(x)
    for j in range(y.shape[1]):
        scores = []
        for strength in STRENGTHS:
            model = Ridge(alpha=strength * n, solver="svd")
            predicted = cross_val_predict(model, scaled, y[:, j], groups=folds, cv=LeaveOneGroupOut())
            scores.append(1.0 - ((predicted - y[:, j]) ** 2).sum() / ((y[:, j] - y[:, j].mean()) ** 2).sum())
        np.testing.assert_allclose(readout.cv_r2[:, j], scores, rtol=1e-6, atol=1e-7)
        alpha = STRENGTHS[int(np.argmax(scores))] * n
        assert readout.alpha[j] == pytest.approx(alpha)
        model = Ridge(alpha=alpha, solver="svd").fit(scaled, y[:, j])
        np.testing.assert_allclose(readout.predict(x)[:, j], model.predict(scaled), rtol=1e-9, atol=1e-8)


def test_a_value_that_hardly_moves_in_training_is_not_blown_up():
    rng = np.random.default_rng(4)
    x, y, episode, frame = _world(rng, 240, 6)
    still = np.zeros((240, 40))
    still[:, 0] = 1e-4 * rng.standard_normal(240)
    x = np.concatenate([x, still], axis=1)
    readout = ridge.fit(x, y, np.arange(240), ridge.folds_of(episode, frame))
    moved = x.copy()
    moved[:, 6:] += 5.0
    assert np.abs(readout.predict(moved) - readout.predict(x)).max() < 0.05 * y.std()
    typical = np.sqrt((x.std(axis=0) ** 2).mean())
    np.testing.assert_allclose(readout.scale, np.maximum(x.std(axis=0), 0.3 * typical))
    model = Ridge(alpha=readout.alpha, solver="svd").fit((x - readout.mean) / readout.scale, y)
    np.testing.assert_allclose(readout.predict(x), model.predict((x - readout.mean) / readout.scale), atol=1e-7)


def test_rows_that_are_not_asked_for_have_no_influence():
    x, y, episode, frame = _world(np.random.default_rng(2), 240, 12)
    rows = np.flatnonzero(episode < 4)
    folds = ridge.folds_of(episode[rows], frame[rows])
    plain = ridge.fit(x, y, rows, folds)
    x[episode >= 4], y[episode >= 4] = 1e6, -1e6
    again = ridge.fit(x, y, rows, folds)
    np.testing.assert_array_equal(plain.weights, again.weights)


def test_large_offsets_do_no_harm_and_constant_values_get_no_weight():
    x, y, episode, frame = _world(np.random.default_rng(3), 300, 8)
    folds = ridge.folds_of(episode, frame)
    plain = ridge.fit(x, y, np.arange(300), folds).predict(x)
    far = x + 1e7
    assert (ridge.fit(np.full((300, 2), 3.0), y, np.arange(300), folds).weights == 0).all()
    np.testing.assert_allclose(ridge.fit(far, y, np.arange(300), folds).predict(far), plain, rtol=1e-5, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(1e-3, 1e3), offset=st.floats(-1e3, 1e3), seed=st.integers(0, 100))
def test_prediction_does_not_change_with_the_units_of_a_latent(scale, offset, seed):
    x, y, episode, frame = _world(np.random.default_rng(seed), 120, 5)
    folds = ridge.folds_of(episode, frame)
    plain = ridge.fit(x, y, np.arange(120), folds).predict(x)
    moved = x * scale + offset
    again = ridge.fit(moved, y, np.arange(120), folds).predict(moved)
    np.testing.assert_allclose(again, plain, rtol=1e-4, atol=1e-3 * np.abs(plain).max())


def test_folds_are_whole_episodes_of_equal_size():
    lengths = [50, 10, 40, 30, 20, 25, 35]
    episode = np.repeat(np.arange(7), lengths)
    frame = np.concatenate([np.arange(n) for n in lengths])
    folds = ridge.folds_of(episode, frame, 3)
    assert all(len(set(folds[episode == e])) == 1 for e in range(7))
    assert np.ptp(np.bincount(folds)) <= 15
    assert set(ridge.folds_of(np.zeros(20, int), np.arange(20), 5)) == set(range(5))


def test_a_latent_wider_than_can_be_solved_is_refused():
    wide = np.zeros((ridge.MAX_WIDTH + 1, ridge.MAX_WIDTH + 1), np.uint8)
    with pytest.raises(UsageError, match="takes at most 8192"):
        ridge.solve(wide, np.zeros((len(wide), 1)), np.arange(len(wide)), np.ones(1))
