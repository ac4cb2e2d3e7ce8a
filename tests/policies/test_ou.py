"""The chain's law. Tolerances are four standard errors or more, and less than half of what a fault would shift:
rho off by 0.02, a scale off by 5 %."""

import numpy as np
import pytest
from scipy import stats

from so101walk.envelope import Envelope
from so101walk.errors import ConfigError, EnvelopeError
from so101walk.policies.ou import OU, OUConfig, ou_step

PAIRS = 20_000


def pairs(policy, envelope, n, seed):
    """Independent stationary pairs (z, z'), each shape (n, 6)."""
    rng = np.random.default_rng(seed)
    z = np.array([policy.start(rng, envelope) for _ in range(n)])
    return z, np.array([policy.propose(row, rng) for row in z])


def walk(policy, envelope, steps, rng, rule="keep"):
    """A chain under the walk's rule, shape (steps, 6); or under one of the two rules that are wrong."""
    z = policy.start(rng, envelope)
    out = np.empty((steps, 6))
    for i in range(steps):
        proposal = policy.propose(z, rng)
        while rule == "redraw" and not envelope.contains(envelope.z_to_q(proposal)):
            proposal = policy.propose(z, rng)
        if rule == "clip":
            proposal = envelope.q_to_z(np.clip(envelope.z_to_q(proposal), envelope.lower, envelope.upper))
        if envelope.segment_ok(envelope.z_to_q(z), envelope.z_to_q(proposal)):
            z = proposal
        out[i] = z
    return out


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.97])
def test_one_step_is_stationary_isotropic_and_has_its_rho(boundless, rho):
    z, z_next = pairs(OU(rho), boundless, PAIRS, seed=1)
    error = 1 / np.sqrt(PAIRS)
    for x in (z, z_next):
        assert np.abs(x.mean(axis=0)).max() < 4 * error
        assert np.abs(x.std(axis=0) - 1.0).max() < 0.02  # 4 standard errors; a scale off by 5 % shifts it by 0.05
        assert np.abs(np.corrcoef(x.T) - np.eye(6)).max() < 4.5 * error
    across = z.T @ z_next / PAIRS
    rho_hat = (z * z_next).mean(axis=0) / ((z * z + z_next * z_next).mean(axis=0) / 2)
    assert np.abs(rho_hat - rho).max() < 4.5 * (1 - rho**2) * error
    assert abs(rho_hat.mean() - rho) < 0.008  # at least 2 standard errors at rho 0.5; rho off by 0.02 shifts it by 0.02
    assert np.abs(across - np.diag(np.diag(across))).max() < 5 * error


def test_the_noise_is_gaussian_and_independent_of_the_state(boundless):
    rho = 0.9
    z, z_next = pairs(OU(rho), boundless, 5_000, seed=2)
    noise = (z_next - rho * z) / np.sqrt(1 - rho**2)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert np.abs(noise.T @ z / len(z)).max() < 4.5 / np.sqrt(len(z))


def test_correlation_at_lag_k_is_rho_to_the_k(boundless):
    rho = 0.8
    z = walk(OU(rho), boundless, 20_000, np.random.default_rng(3))
    for lag in (1, 2, 4):
        hat = (z[lag:] * z[:-lag]).mean() / (z * z).mean()
        assert hat == pytest.approx(rho**lag, abs=0.025)


def test_a_joint_switched_off_stays_at_its_centre_and_the_others_are_unmoved(boundless):
    active = np.array([True, False, True, True, False, True])
    some = walk(OU(0.9, active=active), boundless, 50, np.random.default_rng(4))
    every = walk(OU(0.9), boundless, 50, np.random.default_rng(4))
    assert (some[:, ~active] == 0.0).all()
    assert (some[:, active] == every[:, active]).all()


def test_the_same_seed_gives_the_same_walk(tabletop):
    one, two, other = (walk(OU(), tabletop, 20, np.random.default_rng(s)) for s in (5, 5, 6))
    assert (one == two).all()
    assert not (one == other).any()


BOX = Envelope(
    "box",
    np.zeros(6),
    np.ones(6),
    np.array([-1.0, -0.5, -2, -3, -1.5, 0.0]),
    np.array([1.5, 2, 0.5, 3, 1.5, 1.0]),
    None,
)
RHO, STEPS, THIN = 0.6, 30_000, 10


def p_of_box_law(rule):
    """Smallest p of a KS test of each joint, thinned to near independence, against the normal law cut to the box."""
    z = walk(OU(RHO), BOX, STEPS, np.random.default_rng(7), rule)[::THIN]
    return min(stats.kstest(z[:, i], stats.truncnorm(BOX.lower[i], BOX.upper[i]).cdf).pvalue for i in range(6))


def test_keeping_the_old_state_gives_exactly_the_truncated_law():
    assert p_of_box_law("keep") > 1e-3


@pytest.mark.parametrize("rule", ["redraw", "clip"])
def test_the_rules_that_are_wrong_would_be_seen(rule):
    assert p_of_box_law(rule) < 1e-4


def test_truncation_by_contacts_agrees_with_rejection_sampling(tabletop):
    """A walk so large that contacts refuse a quarter of it, whole segments checked, against independent draws."""
    forward = tabletop.center + np.array([0.0, 35, 25, 0, 0, 0])
    wide = Envelope("wide", forward, 1.2 * tabletop.scale, tabletop.lower, tabletop.upper, tabletop.clearance, "wide")
    rng = np.random.default_rng(8)
    rho, chains, steps = 0.6, 80, 40
    z = np.stack([walk(OU(rho), wide, steps, rng) for _ in range(chains)])
    draws = rng.standard_normal((4_000, 6))
    draws = draws[wide.contains_each(wide.z_to_q(draws))]
    assert 0.6 < len(draws) / 4_000 < 0.95
    for moment in (1, 2):
        by_chain = (z**moment).mean(axis=1)
        error = np.sqrt(by_chain.var(axis=0, ddof=1) / chains + (draws**moment).var(axis=0) / len(draws))
        score = (by_chain.mean(axis=0) - (draws**moment).mean(axis=0)) / error
        assert np.abs(score).max() < 4.0
    assert (
        np.abs(draws.mean(axis=0)).max() * np.sqrt(len(draws)) > 6.0
    )  # the law is far from N(0, I) here, so agreement means something


def test_ou_step_takes_many_states_at_once():
    z = ou_step(np.zeros((1000, 6)), 0.9, np.random.default_rng(9))
    assert z.std() == pytest.approx(np.sqrt(1 - 0.81), rel=0.05)


@pytest.mark.parametrize("rho", [0.0, 1.0, -0.5, 1.5, float("nan"), float("inf")])
def test_a_rho_out_of_range_is_refused(rho):
    with pytest.raises(ConfigError, match="must be above 0 and below 1"):
        OU(rho)
    with pytest.raises(ConfigError, match="must be above 0 and below 1"):
        OUConfig(rho=rho)


def test_an_envelope_that_refuses_nearly_everything_is_told():
    narrow = Envelope("narrow", np.zeros(6), np.ones(6), np.full(6, -0.01), np.full(6, 0.01), None, "narrow.toml")
    with pytest.raises(EnvelopeError, match=r"none of 2000 draws .* asked for .* \(narrow.toml\)"):
        OU().start(np.random.default_rng(0), narrow)


def test_config_makes_what_it_states():
    policy = OUConfig(rho=0.7, frames_per_step=10, settle_frames=2, joints={"gripper": False}).make()
    assert (policy.rho, policy.frames_per_step, policy.settle_frames, policy.name) == (0.7, 10, 2, "ou")
    assert policy.active.tolist() == [True] * 5 + [False]
