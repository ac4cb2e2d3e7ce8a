import math

import numpy as np
import pytest
from scipy import stats

from so101walk.dataset.walk_null import chain
from so101walk.dataset.walk_stats import (
    Layout,
    bootstrap_rho,
    correlated_pairs,
    correlations,
    effective_samples,
    kurtosis,
    pooled_rho,
    rho_hat,
    sigreg,
    skew,
    statistics,
)


def test_pairs_never_cross_from_one_episode_to_the_next():
    layout = Layout((3, 1, 2))
    assert layout.n == 6
    assert layout.first.tolist() == [0, 3, 4]
    assert layout.pairs.tolist() == [0, 1, 4]


def test_rho_hat_by_hand():
    z = np.array([[1.0], [2.0], [3.0], [5.0], [4.0]])
    layout = Layout((3, 2))
    assert rho_hat(z, layout)[0] == pytest.approx(2 * (2 + 6 + 20) / (1 + 4 + 4 + 9 + 25 + 16))


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9, 0.98])
def test_rho_hat_of_long_chains(rho):
    layout = Layout((2000,) * 10)
    z = chain(np.random.default_rng(0), rho, layout, 6, 1)[0]
    error = 4 * math.sqrt((1 - rho**2) / layout.n)
    assert rho_hat(z, layout) == pytest.approx(rho, abs=error + 1e-9)
    assert pooled_rho(z, layout) == pytest.approx(rho, abs=error)


def test_a_joint_that_is_off_has_no_rho():
    z = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    assert np.isnan(rho_hat(z, Layout((3,)))).tolist() == [False, True]


def test_bootstrap_intervals_cover_at_their_nominal_rate():
    layout, inside = Layout((24,) * 25), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z = chain(rng, 0.9, layout, 6, 1)[0]
        interval, _ = bootstrap_rho(z, layout, rng, draws=500)
        inside.append((interval[:, 0] <= 0.9) & (interval[:, 1] >= 0.9))
    # 360 intervals: 0.95 +- 0.011; a percentile interval of 25 episodes is known to run a little short.
    assert 0.90 <= np.mean(inside) <= 0.985


def test_one_episode_can_not_be_resampled():
    interval, spread = bootstrap_rho(np.ones((5, 2)), Layout((5,)), np.random.default_rng(0))
    assert np.isnan(interval).all()
    assert np.isnan(spread).all()


def test_correlations_name_the_pair_and_the_lag():
    rng = np.random.default_rng(1)
    layout = Layout((4000,))
    z = rng.standard_normal((4000, 3))
    z[:, 2] = 0.6 * z[:, 0] + 0.8 * z[:, 2]
    z[1:, 1] = 0.5 * z[:-1, 0] + math.sqrt(0.75) * z[1:, 1]
    found = dict(zip(correlated_pairs(3), correlations(z, layout), strict=True))
    assert len(found) == 3 + 6
    assert found[0, 2, 0] == pytest.approx(0.6, abs=0.05)
    assert found[0, 1, 1] == pytest.approx(0.5, abs=0.05)
    assert found[1, 0, 1] == pytest.approx(0.0, abs=0.07)


def test_effective_samples_of_the_paper():
    assert effective_samples(600, 0.9) == pytest.approx(31.6, abs=0.05)
    assert effective_samples(600, 0.0) == 600


def test_moments_equal_scipys():
    z = np.random.default_rng(2).gamma(2.0, size=(2, 300, 3))
    assert skew(z) == pytest.approx(stats.skew(z, axis=1))
    assert kurtosis(z) == pytest.approx(stats.kurtosis(z, axis=1, fisher=False))


def weights():
    t = np.linspace(0, 3, 17)
    w = np.full(17, 2 * 3 / 16)
    w[[0, -1]] = 3 / 16
    return t, w * np.exp(-(t**2) / 2)


def test_sigreg_by_its_formula():
    rng = np.random.default_rng(3)
    z, direction = rng.standard_normal((50, 2)), np.array([[0.6], [0.8]])
    t, w = weights()
    seen = np.exp(1j * np.outer(z @ direction, t)).mean(0)
    wanted = 50 * (w * np.abs(seen - np.exp(-(t**2) / 2)) ** 2).sum()
    assert sigreg(z, direction)[0] == pytest.approx(wanted, rel=1e-4)


def test_sigreg_of_independent_draws_has_its_known_mean():
    # E |ecf - cf|^2 = (1 - cf^2) / n for n independent draws from the law itself.
    z = np.random.default_rng(4).standard_normal((4000, 40, 1))
    t, w = weights()
    null = sigreg(z, np.ones((1, 1)))
    assert null.mean() == pytest.approx((w * (1 - np.exp(-(t**2)))).sum(), abs=4 * null.std() / math.sqrt(4000))


def test_statistics_treat_copies_as_the_data():
    layout = Layout((10, 12))
    z = chain(np.random.default_rng(5), 0.5, layout, 4, 3)
    together = statistics(z, layout)
    for name, values in statistics(z[1], layout).items():
        assert together[name][1] == pytest.approx(values), name
