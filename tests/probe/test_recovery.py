"""Planted truth: latents whose R^2 algebra tells must get it."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from so101walk.probe import recovery as measures
from so101walk.probe.quadratic import quadratic_predictions
from so101walk.probe.ridge import fit, folds_of

from .made import CENTER, SCALE, ou_chain

NAMES = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")


class World:
    """Joints of an OU walk, episodes of it held out."""

    def __init__(self, seed, episodes=30, length=80, held=10, rho=0.9):
        self.rng = np.random.default_rng(seed)
        self.z = ou_chain(self.rng, episodes, length, 6, rho).reshape(-1, 6)
        self.q = CENTER + SCALE * self.z
        self.episode = np.repeat(np.arange(episodes), length)
        self.train = np.flatnonzero(self.episode >= held)
        self.val = np.flatnonzero(self.episode < held)
        self.folds = folds_of(self.episode[self.train], np.tile(np.arange(length), episodes)[self.train])

    def latents(self, noise, width=24):
        """A random linear image of noisy joints: R^2 of joint j is 1 / (1 + noise_j^2)."""
        seen = self.z + np.asarray(noise) * self.rng.standard_normal(self.z.shape)
        return (seen @ self.rng.standard_normal((6, width)) + 3.0).astype(np.float32)

    def score(self, latents):
        readout = fit(latents, self.q, self.train, self.folds, components=512)
        predicted = readout.predict(latents, self.val)
        return readout, measures.recovery(NAMES, self.q[self.val], predicted, self.episode[self.val], self.rng)


def test_a_noisy_linear_image_has_the_r2_that_algebra_predicts():
    noise = np.array([0.0, 0.2, 0.5, 0.8, 1.0, 1.5])
    _, found = World(0, episodes=60, held=20).score(World(0, episodes=60, held=20).latents(noise))
    truth = 1 / (1 + noise**2)
    for figure, true in zip(found.r2, truth, strict=True):
        assert figure.value == pytest.approx(true, abs=0.06)
    assert found.anisotropy.value == pytest.approx(truth[0] - truth[-1], abs=0.06)
    assert found.anisotropy.low <= truth[0] - truth[-1] <= found.anisotropy.high


def test_the_interval_of_the_whole_probe_holds_the_truth_at_its_nominal_rate():
    truth, held, worlds = 1 / (1 + 0.6**2), 0, 60
    for seed in range(worlds):
        world = World(seed, episodes=26, length=60, held=10)
        _, found = world.score(world.latents(np.full(6, 0.6), width=12))
        held += found.mean.low <= truth <= found.mean.high
    assert held / worlds >= 0.85  # 95 % nominal, less 3.5 standard errors of a share from 60 worlds


def test_isotropic_noise_has_little_anisotropy():
    world = World(3, episodes=60, held=20)
    _, found = world.score(world.latents(np.full(6, 0.5)))
    assert found.anisotropy.value < 0.1
    assert found.mean.value == pytest.approx(0.8, abs=0.04)


def test_a_quadratic_latent_scores_low_linearly_and_high_quadratically():
    world = World(4)
    hidden = np.sqrt(np.abs(world.z)) * np.sign(world.rng.standard_normal(world.z.shape))
    latents = np.concatenate([hidden, np.sign(world.z) * hidden], axis=1)  # z is the product of two of them
    readout, linear = world.score(latents)
    quadratic = quadratic_predictions(readout, latents, world.q, world.train, world.val, world.folds)
    found = measures.recovery(NAMES, world.q[world.val], quadratic.predicted, world.episode[world.val], world.rng)
    assert linear.mean.value < 0.2
    assert found.mean.value > 0.95


def test_within_and_between_episodes_are_told_apart():
    world = World(5)
    offsets = world.rng.standard_normal((30, 6))[world.episode]
    only_episode = world.q * 0 + offsets * SCALE
    share = measures.within_share(only_episode + 1e-3 * world.z, world.episode)
    assert (share < 1e-4).all()
    assert (measures.within_share(world.q, world.episode) > 0.6).all()
    within = measures.within_r2(world.q + 50 * offsets, world.q, world.episode)
    np.testing.assert_allclose(within, 1.0)


def test_reverse_r2_is_the_share_of_the_latent_that_joints_explain():
    world = World(6, episodes=60, held=20)
    clean = world.latents(np.zeros(6), width=6)
    noise = world.rng.standard_normal(clean.shape).astype(np.float32) * clean[world.train].std()
    both = np.concatenate([clean, noise], axis=1)
    assert measures.reverse_r2(world.q, clean, world.train, world.val, world.folds) > 0.999
    expected = clean.var(axis=0).sum() / both.var(axis=0).sum()
    assert measures.reverse_r2(world.q, both, world.train, world.val, world.folds) == pytest.approx(expected, abs=0.03)


def test_orthogonality_error_is_0_for_a_rotation_and_2_for_nothing():
    world = World(7)
    moving = list(range(6))
    rotated = world.z @ ortho_group.rvs(6, random_state=2)

    def error(latents):
        readout = fit(latents, world.q, world.train, world.folds)
        return measures.orthogonality_error(readout, latents, world.q, world.train, world.val, moving)

    assert error(rotated) < 1e-6
    half = rotated + 0.5 * world.rng.standard_normal(rotated.shape)
    # Whitened both, they correlate by 1 / sqrt(1.25), so the error is 2 (1 - 0.894) = 0.211
    assert error(half) == pytest.approx(0.211, abs=0.04)
    assert error(world.rng.standard_normal(rotated.shape)) == pytest.approx(2.0, abs=0.3)


def test_angles_are_read_where_a_joint_turns_all_the_way():
    rng = np.random.default_rng(8)
    angle = rng.uniform(-180, 180, (2000, 1))
    targets = measures.angle_targets(angle)
    np.testing.assert_allclose(targets[:, 0] ** 2 + targets[:, 1] ** 2, 1.0)
    train, val = np.arange(1000), np.arange(1000, 2000)
    folds = folds_of(np.repeat(np.arange(10), 100), np.tile(np.arange(100), 10))
    latents = np.concatenate([np.cos(np.radians(angle)), np.sin(np.radians(angle))], axis=1)
    plain = fit(latents, angle, train, folds).predict(latents, val)
    round_ = fit(latents, targets, train, folds).predict(latents, val)
    assert measures.plain_r2(angle[val], plain)[0] < 0.7
    assert (measures.plain_r2(targets[val], round_) > 0.999).all()


def test_a_still_joint_is_left_out_of_the_mean():
    world = World(9)
    world.q[:, 2] = 11.0
    _, found = world.score(world.latents(np.zeros(6)))
    assert np.isnan(found.r2[2].value)
    assert found.mean.value > 0.99
    assert found.anisotropy.value < 0.01
