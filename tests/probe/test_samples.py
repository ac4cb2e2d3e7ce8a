"""Which frames, which episodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.dataset.reader import Dataset
from so101walk.errors import UsageError
from so101walk.joints import JOINTS
from so101walk.probe.samples import Samples, split_episodes

EPISODES = tuple(range(10))


@pytest.mark.parametrize(
    ("val", "held"), [("0.3", 3), ("5", 5), ("0.01", 1), ("0.99", 9), ("0,3,7-9", 5), ("4,", 1), ("2-3", 2)]
)
def test_as_many_episodes_are_held_out_as_asked(val, held):
    split = split_episodes(EPISODES, val, 0)
    assert len(split.val) == held
    assert sorted((*split.train, *split.val)) == list(EPISODES)


def test_listed_episodes_are_those():
    assert split_episodes(EPISODES, "0,3,7-9", 5).val == (0, 3, 7, 8, 9)


@given(seed=st.integers(0, 2**31), count=st.integers(1, 9))
def test_a_split_is_seeded_and_keeps_every_episode_once(seed, count):
    split = split_episodes(EPISODES, str(count), seed)
    assert split == split_episodes(EPISODES, str(count), seed)
    assert set(split.train) | set(split.val) == set(EPISODES)
    assert not set(split.train) & set(split.val)


def test_seeds_hold_out_different_episodes():
    assert len({split_episodes(EPISODES, "3", s).val for s in range(20)}) > 10


@pytest.mark.parametrize(
    ("val", "told"),
    [
        ("10", "the dataset has 10 episodes; it must be 1 to 9"),
        ("0", "it must be 1 to 9"),
        ("1.0", "a share must be above 0 and below 1"),
        ("-0.3", "a share must be above 0"),
        ("nan", "a share must be above 0"),
        ("some", "it must be a share"),
        ("0,99", "names episode 99"),
        ("0-9", "holds out 10 of 10"),
        ("1,x", "episodes are listed as"),
        (",", "lists no episode"),
    ],
)
def test_what_can_not_be_held_out_is_refused(val, told):
    with pytest.raises(UsageError, match=told):
        split_episodes(EPISODES, val, 0)


def test_one_episode_is_too_few():
    with pytest.raises(UsageError, match="needs at least two"):
        split_episodes((0,), "0.3", 0)


def test_samples_of_a_dataset(dataset):
    opened = Dataset.open(dataset)
    every, third = Samples.of(opened), Samples.of(opened, 3)
    assert every.joints == JOINTS
    assert every.units == ("deg",) * 5 + ("%",)
    assert len(every.rows) == 8 * 46
    assert set(third.frame % 3) == {0}
    np.testing.assert_array_equal(third.q, every.state[third.rows])
    assert third.where(17) == "episode 1 frame 3"
    with pytest.raises(UsageError, match="--stride is 0"):
        Samples.of(opened, 0)
