"""The search against problems whose answer is known."""

import numpy as np
import pytest
from scipy import stats

from so101walk.calibrate.search import Draws, leaving, search
from so101walk.errors import EnvelopeError

LIMITS = np.array([[-100.0, 100], [-80, 80], [-90, 90], [-90, 90], [-150, 150], [5, 95]])
WIDTH = LIMITS[:, 1] - LIMITS[:, 0]


class Where:
    """A stand-in for the model: clear where ``rule`` says."""

    def __init__(self, rule):
        self.clear = rule


EVERYWHERE = Where(lambda q: np.ones(len(q), dtype=bool))


def test_without_obstacles_each_joint_gets_its_middle_and_an_equal_share():
    leave = 0.01
    found = search(LIMITS, EVERYWHERE, leave, 4000, np.random.default_rng(0))
    each = 1.0 - (1.0 - leave) ** (1 / 6)
    assert found.center == pytest.approx(LIMITS.mean(axis=1), abs=0.05)
    assert found.scale == pytest.approx(WIDTH / 2 / stats.norm.isf(each / 2), rel=2e-3)
    assert found.leave == pytest.approx(leave, rel=1e-3)


def test_an_obstacle_across_a_joint_is_a_nearer_limit():
    """No pose with the first joint above 20 is clear: the answer is that of the range from -100 to 20."""
    wall = Where(lambda q: q[:, 0] < 20.0)
    found = search(LIMITS, wall, 0.01, 16_000, np.random.default_rng(1))
    shorter = np.vstack([[-100.0, 20.0], LIMITS[1:]])
    known = search(shorter, EVERYWHERE, 0.01, 4000, np.random.default_rng(1))
    assert found.log_volume == pytest.approx(known.log_volume, abs=0.06)
    assert found.center[0] == pytest.approx(-40.0, abs=3.0)


def test_the_larger_of_two_rooms_is_found():
    """A wall with a narrow room on one side and a wide one on the other, the middle of the range inside the wall."""
    wall = Where(lambda q: (q[:, 0] < -60.0) | (q[:, 0] > -10.0))
    found = search(LIMITS, wall, 0.01, 12_000, np.random.default_rng(2))
    assert found.center[0] == pytest.approx(45.0, abs=4.0)


def test_the_gradient_is_that_of_the_estimate():
    rng = np.random.default_rng(3)
    draws = Draws(LIMITS, lambda q: q[:, 0] + q[:, 1] > 60.0)
    draws.add_uniform(3000, rng)
    draws.add_around(3000, np.zeros(6), WIDTH / 6, rng)
    bad, log_density = draws.colliding()
    center, log_scale = np.array([10.0, -5, 3, 2, -20, 48]), np.log(WIDTH / 7)

    def p(x):
        return leaving(x[:6], np.exp(x[6:]), LIMITS, bad, log_density)[0]

    x = np.concatenate([center, log_scale])
    _, by_center, by_log_scale = leaving(center, np.exp(log_scale), LIMITS, bad, log_density)
    steps = np.concatenate([np.full(6, 1e-4), np.full(6, 1e-6)])
    numeric = [(p(x + h * e) - p(x - h * e)) / (2 * h) for h, e in zip(steps, np.eye(12), strict=True)]
    assert np.concatenate([by_center, by_log_scale]) == pytest.approx(numeric, rel=1e-5, abs=1e-8)


def test_the_estimate_from_the_mixture_is_the_chance_of_leaving():
    rng = np.random.default_rng(4)
    draws = Draws(LIMITS, lambda q: q[:, 0] > 40.0)
    draws.add_uniform(20_000, rng)
    draws.add_around(20_000, np.zeros(6), WIDTH / 5, rng)
    assert draws.total == 40_000
    center, scale = np.array([5.0, 0, 0, 0, 0, 50]), WIDTH / 7
    inside = [stats.norm(c, s).cdf([lo, hi]) for c, s, (lo, hi) in zip(center, scale, LIMITS, strict=True)]
    rest = np.prod([b - a for a, b in inside[1:]])
    clear_first = stats.norm(center[0], scale[0]).cdf(40.0) - inside[0][0]
    assert leaving(center, scale, LIMITS, *draws.colliding())[0] == pytest.approx(1.0 - clear_first * rest, rel=0.05)


def test_progress_tells_of_every_pose_judged():
    told = []
    search(LIMITS, EVERYWHERE, 0.05, 4000, np.random.default_rng(5), told.append)
    assert 3000 < sum(told) <= 4000


def test_no_clear_pose_is_told():
    with pytest.raises(EnvelopeError, match="none of 500 poses within the joint limits is clear"):
        search(LIMITS, Where(lambda q: np.zeros(len(q), dtype=bool)), 0.01, 2000, np.random.default_rng(6))
