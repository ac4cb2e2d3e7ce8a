import math

import numpy as np
import pytest

from so101walk.dataset.walk_null import autocorrelation, chain, debiased_rho, process
from so101walk.dataset.walk_stats import Layout, pooled_rho

LAYOUT = Layout((30, 5, 30))


def test_chains_are_stationary_with_their_rho_and_unrelated_between_episodes_and_joints():
    z = chain(np.random.default_rng(0), 0.8, LAYOUT, 2, 20_000)
    assert z.shape == (20_000, 65, 2)
    assert z.var(0) == pytest.approx(1.0, abs=0.05)
    assert z.mean(0) == pytest.approx(0.0, abs=0.035)
    for lag in (1, 4):
        assert (z[:, 0] * z[:, lag]).mean(0) == pytest.approx(0.8**lag, abs=0.04)
        assert (z[:, 25] * z[:, 25 + lag]).mean(0) == pytest.approx(0.8**lag, abs=0.04)
    assert (z[:, 29] * z[:, 30]).mean(0) == pytest.approx(0.0, abs=0.035)
    assert (z[:, 7, 0] * z[:, 7, 1]).mean() == pytest.approx(0.0, abs=0.035)


def test_processes_have_the_autocorrelation_asked_for():
    acf = np.exp(-((np.arange(12) / 5.0) ** 2))
    z = process(np.random.default_rng(1), acf, LAYOUT, 2, 20_000)
    assert z.shape == (20_000, 65, 2)
    assert z.var(0) == pytest.approx(1.0, abs=0.05)
    for lag in (1, 3, 8):
        assert (z[:, 2] * z[:, 2 + lag]).mean(0) == pytest.approx(acf[lag], abs=0.04)
    assert (z[:, 2] * z[:, 25]).mean(0) == pytest.approx(0.0, abs=0.04)
    assert (z[:, 29] * z[:, 30]).mean(0) == pytest.approx(0.0, abs=0.035)


def test_an_autocorrelation_that_is_none_still_gives_unit_variance():
    acf = np.array([1.0, 0.9, -0.9, 0.9])
    z = process(np.random.default_rng(2), acf, Layout((20,)), 1, 4000)
    assert z.var() == pytest.approx(1.0, abs=0.05)


def test_short_chains_show_too_low_a_rho_and_the_bias_is_taken_off():
    layout = Layout((6, 6))
    rng = np.random.default_rng(3)
    copies = chain(rng, 0.9, layout, 6, 300)
    plain = pooled_rho(copies, layout).mean()
    debiased = np.mean([debiased_rho(z, layout, rng, copies=100) for z in copies])
    assert plain < 0.89
    assert abs(debiased - 0.9) < 0.6 * abs(plain - 0.9)


def test_autocorrelation_of_episodes_by_hand():
    x = [np.array([[1.0], [2.0], [-3.0]]), np.array([[1.0], [-1.0]])]
    curve = autocorrelation(x, 3)
    power = (1 + 4 + 9 + 1 + 1) / 5
    assert curve[:, 0] == pytest.approx([1.0, (2 - 6 - 1) / 3 / power, -3 / 1 / power])


def test_autocorrelation_of_a_chain():
    layout = Layout((3000,) * 4)
    z = chain(np.random.default_rng(4), 0.9, layout, 3, 1)[0]
    curve = autocorrelation(np.split(z, 4), 20)
    assert curve.mean(1) == pytest.approx(0.9 ** np.arange(20), abs=4 * math.sqrt(20 / 36_000))
