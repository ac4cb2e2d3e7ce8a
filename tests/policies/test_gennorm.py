import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from so101walk.errors import ConfigError
from so101walk.policies.gennorm import (
    GenNorm,
    GenNormConfig,
    copula_rho,
    from_gaussian,
    lag_correlation,
    to_gaussian,
)
from so101walk.policies.ou import OU

ALPHAS = [0.7, 1.0, 4.0, 12.0]


def reference(alpha):
    return stats.gennorm(alpha, scale=1.0 / stats.gennorm(alpha).std())


@given(st.floats(-6.0, 6.0), st.floats(0.5, 20.0))
def test_the_map_and_its_inverse(u, alpha):
    assert to_gaussian(from_gaussian(u, alpha), alpha) == pytest.approx(u, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_quantiles_are_those_of_scipy(alpha):
    u = np.linspace(-4, 4, 41)
    assert from_gaussian(u, alpha) == pytest.approx(reference(alpha).ppf(stats.norm.cdf(u)), rel=1e-6, abs=1e-9)


def test_alpha_2_is_the_gaussian_walk(boundless):
    u = np.linspace(-5, 5, 21)
    assert from_gaussian(u, 2.0) == pytest.approx(u, rel=1e-12)
    assert copula_rho(0.9, 2.0) == 0.9
    a, b = GenNorm(2.0, 0.9), OU(0.9)
    z, w = (p.start(np.random.default_rng(0), boundless) for p in (a, b))
    assert z == pytest.approx(w)
    assert a.propose(z, np.random.default_rng(1)) == pytest.approx(b.propose(w, np.random.default_rng(1)))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_marginals_before_and_after_a_step(boundless, alpha):
    rng = np.random.default_rng(1)
    policy = GenNorm(alpha, 0.9)
    z = np.array([policy.start(rng, boundless) for _ in range(1500)])
    z_next = np.array([policy.propose(row, rng) for row in z])
    for x in (z, z_next):
        for joint in range(6):
            assert stats.kstest(x[:, joint], reference(alpha).cdf).pvalue > 1e-4
        assert np.abs(np.corrcoef(x.T) - np.eye(6)).max() < 0.13


@pytest.mark.parametrize(("alpha", "rho"), [(0.7, 0.9), (1.0, 0.5), (12.0, 0.9)])
def test_rho_is_the_correlation_of_z_itself(alpha, rho):
    rng = np.random.default_rng(2)
    n, r = 200_000, copula_rho(rho, alpha)
    u = rng.standard_normal(n)
    v = r * u + np.sqrt(1 - r * r) * rng.standard_normal(n)
    z, w = from_gaussian(u, alpha), from_gaussian(v, alpha)
    products = z * w
    assert products.mean() == pytest.approx(rho, abs=4.5 * products.std() / np.sqrt(n))
    assert products.std() / np.sqrt(n) < 0.01
    assert r > rho  # a nonlinear map loses linear correlation


def test_lag_correlation_is_between_none_and_that_of_the_copula():
    assert lag_correlation(0.0, 1.0) == pytest.approx(0.0, abs=1e-12)
    values = [lag_correlation(r, 1.0) for r in (0.2, 0.5, 0.9)]
    assert values == sorted(values)
    assert all(v < r for v, r in zip(values, (0.2, 0.5, 0.9), strict=True))


def test_a_joint_switched_off_stays_at_its_centre(tabletop):
    active = np.array([False, True, True, True, True, True])
    rng = np.random.default_rng(3)
    policy = GenNorm(1.0, active=active)
    z = policy.start(rng, tabletop)
    for _ in range(5):
        z = policy.propose(z, rng)
        assert z[0] == 0.0
        assert np.isfinite(z).all()
        assert (z[1:] != 0.0).all()


@pytest.mark.parametrize("alpha", [0.0, -1.0, 0.1, 50.0, float("nan"), float("inf")])
def test_a_shape_out_of_range_is_refused(alpha):
    for make in (GenNorm, lambda a: GenNormConfig(alpha=a)):
        with pytest.raises(ConfigError, match=r"the shape must be 0.5 to 20"):
            make(alpha)


def test_config_makes_what_it_states():
    policy = GenNormConfig(alpha=4.0, rho=0.8, joints={"gripper": False}).make()
    assert (policy.alpha, policy.rho, policy.name, bool(policy.active[5])) == (4.0, 0.8, "gennorm", False)
