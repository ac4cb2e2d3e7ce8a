"""Effective sample size against its closed form for AR(1) chains."""

import numpy as np
import pytest

from so101walk.jepa.effective import effective_size


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_an_ar1_chain_is_worth_its_closed_form(rho):
    rng = np.random.default_rng(0)
    episodes, n = 40, 500
    x = rng.standard_normal((episodes, n, 4))
    for i in range(1, n):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1 - rho**2) * x[:, i]
    episode = np.repeat(np.arange(episodes), n)
    found = effective_size(x.reshape(-1, 4), episode, range(episodes))
    expected = episodes * n * (1 - rho) / (1 + rho)
    assert found == pytest.approx(np.full(4, expected), rel=0.15)


def test_frames_repeated_k_times_are_worth_a_kth_and_a_still_joint_nothing():
    rng = np.random.default_rng(1)
    x = np.repeat(rng.standard_normal((2000, 1)), 5, axis=0)
    x = np.concatenate([x, np.ones_like(x)], axis=1)
    found = effective_size(x, np.zeros(10000, int), [0])
    assert found[0] == pytest.approx(2000, rel=0.15)
    assert found[1] == 0.0


def test_only_the_given_episodes_count():
    rng = np.random.default_rng(2)
    x, episode = rng.standard_normal((900, 1)), np.repeat([0, 1, 2], 300)
    assert effective_size(x, episode, [1])[0] <= 300
