"""Theorem 5.3 on simulated Gaussian worlds."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from so101walk.probe.theorem import theorem_5_3, waypoint_pairs

RHO = 0.9


def _pairs(rng, count=20000, n=4):
    z = rng.standard_normal((count, n))
    return z, RHO * z + np.sqrt(1 - RHO**2) * rng.standard_normal((count, n))


def test_the_bound_is_tight_for_a_rotation():
    rng = np.random.default_rng(0)
    z, z_next = _pairs(rng, 300)
    q = ortho_group.rvs(4, random_state=1)
    white = np.linalg.inv(np.linalg.cholesky(np.cov(np.concatenate([z, z_next]).T, bias=True))).T
    found = theorem_5_3(z @ white @ q, z_next @ white @ q, z @ white, z_next @ white)
    assert found.delta == 0.0
    assert found.eps < 1e-9
    assert found.bound < 1e-9
    assert found.error < 1e-9


def test_the_least_loss_is_that_of_theorem_5_1():
    z, z_next = _pairs(np.random.default_rng(1))
    found = theorem_5_3(z, z_next, z, z_next, rho=RHO)
    # L(h) of h = z is 2 (1 - rho) n = 0.8; its standard error from 20,000 pairs is 0.8 sqrt(2 / (4 * 20000)) = 0.004
    assert found.least == pytest.approx(2 * (1 - RHO) * 4)
    assert found.loss == pytest.approx(found.least, abs=0.016)
    assert found.rho == RHO


def _quadratic(x):
    return np.column_stack([(x[:, 0] ** 2 - 1) / np.sqrt(2), x[:, 1:]])


def _mixed(share):
    return lambda x: np.sqrt(1 - share) * x + np.sqrt(share) * (x[:, [1, 2, 3, 0]] ** 2 - 1) / np.sqrt(2)


@pytest.mark.parametrize("h", [lambda x: 1.3 * x, lambda x: np.tanh(x), _quadratic, _mixed(0.05), _mixed(0.4), np.sin])
def test_the_bound_holds_for_what_is_no_rotation(h):
    z, z_next = _pairs(np.random.default_rng(2))
    found = theorem_5_3(h(z), h(z_next), z, z_next)
    assert found.error > 0.01
    assert found.error <= found.bound
    assert found.holds


def test_a_quadratic_component_has_the_slack_that_hermite_algebra_gives():
    z, z_next = _pairs(np.random.default_rng(3), 100_000)
    found = theorem_5_3(_quadratic(z), _quadratic(z_next), z, z_next, rho=RHO)
    # a degree-2 Hermite component decays by rho^2, so its loss is 2 (1 - rho^2) where a linear one's is 2 (1 - rho)
    assert found.delta == pytest.approx(2 * (RHO - RHO**2), rel=0.05)
    # the best rotation gets three of four: E||h - Qz||^2 is Var h_0 + Var z_0 = 2
    assert found.error == pytest.approx(2.0, rel=0.05)


def test_pairs_are_consecutive_waypoints_of_one_episode():
    episode = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    frame = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    waypoint = np.array([0, -1, 1, 3, 4, 5, -1, 6])
    first, second = waypoint_pairs(episode, frame, waypoint)
    assert list(zip(first, second, strict=True)) == [(0, 2), (4, 5), (5, 7)]
