"""Gestures stay within the arm's ranges and move as a hand does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.emulator.hand import GESTURES, SWEEP_S, Hand
from so101walk.errors import UsageError
from so101walk.joints import MODEL_RANGE_RAD


@given(st.sampled_from(GESTURES), st.floats(0, 60))
def test_within_ranges_and_never_jumps(gesture, t_s):
    hand = Hand(gesture)
    now, soon = hand.at(t_s), hand.at(t_s + 0.001)
    assert np.all(now >= MODEL_RANGE_RAD[:, 0] - 1e-9)
    assert np.all(now <= MODEL_RANGE_RAD[:, 1] + 1e-9)
    assert np.abs(soon - now).max() < np.radians(700) * 0.001


def test_still_is_still():
    pose = np.array([0.1, -0.5, 0.3, 0.2, 0.0, 0.4])
    np.testing.assert_array_equal(Hand("still", pose).at(7.0), pose)


def test_sway_moves_every_joint_about_the_pose():
    pose = np.array([0.0, -0.5, 0.3, 0.2, 0.0, 0.6])
    q = np.array([Hand("sway", pose).at(t) for t in np.arange(0, 60, 0.05)])
    np.testing.assert_allclose(q.std(axis=0), np.radians(15) / np.sqrt(2), rtol=0.1)
    np.testing.assert_allclose(q.mean(axis=0), pose, atol=0.02)
    assert np.abs(np.corrcoef(q.T)[np.triu_indices(6, 1)]).max() < 0.3


def test_sweep_takes_each_joint_through_its_range_in_turn():
    times = np.arange(0, 6 * SWEEP_S, 0.01)
    q = np.array([Hand("sweep").at(t) for t in times])
    np.testing.assert_allclose(q.min(axis=0), MODEL_RANGE_RAD[:, 0], atol=0.01)
    np.testing.assert_allclose(q.max(axis=0), MODEL_RANGE_RAD[:, 1], atol=0.01)
    away = np.abs(q - MODEL_RANGE_RAD.mean(axis=1)) > 1e-6
    assert away.sum(axis=1).max() == 1
    np.testing.assert_allclose(Hand("sweep").at(6 * SWEEP_S + 5), MODEL_RANGE_RAD.mean(axis=1))


def test_unknown_gesture():
    with pytest.raises(UsageError, match="'sweep'"):
        Hand("swep")
