import numpy as np
import pytest

from so101walk.envelope import Envelope
from so101walk.errors import EnvelopeError
from so101walk.policies.start import draw_inside

HALF = Envelope("half", np.zeros(6), np.ones(6), np.array([0.0, *[-50.0] * 5]), np.full(6, 50.0), None, "half.toml")


def test_it_is_the_first_draw_that_is_inside():
    draws = iter(np.array([[-1.0, 0, 0, 0, 0, 0], [-2.0, 0, 0, 0, 0, 0], [0.5, 1, 2, 3, 4, 5], [1.0, 0, 0, 0, 0, 0]]))
    assert draw_inside(lambda: next(draws), HALF).tolist() == [0.5, 1, 2, 3, 4, 5]


def test_its_law_is_that_of_the_draw_given_that_it_is_inside():
    rng = np.random.default_rng(0)
    z = np.array([draw_inside(lambda: rng.standard_normal(6), HALF) for _ in range(4000)])
    assert (z[:, 0] >= 0).all()
    assert z[:, 0].mean() == pytest.approx(np.sqrt(2 / np.pi), abs=0.04)
    assert z[:, 1:].mean() == pytest.approx(0.0, abs=0.03)


def test_giving_up_tells_the_acceptance_and_the_last_refusal():
    with pytest.raises(
        EnvelopeError, match=r"none of 40 draws .*acceptance below 2.50%.*shoulder_pan asked for -1.0 deg"
    ):
        draw_inside(lambda: np.array([-1.0, 0, 0, 0, 0, 0]), HALF, max_tries=40)
