"""Which rows make pairs and windows, and the pair correlation of a known walk."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.errors import DatasetError
from so101walk.jepa.pairs import Pairs, Timeline, correlation, pairs_of, windows_of


def timeline(lengths: list[int], every: int = 1, step_frames: int = 1) -> Timeline:
    episode = np.repeat(np.arange(len(lengths)), lengths)
    frame = np.concatenate([np.arange(n) for n in lengths])
    waypoint = np.where(frame % every == 0, frame // every, -1)
    return Timeline(episode, frame, waypoint, step_frames)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    step_frames=st.integers(1, 4),
    lags=st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=1, max_size=3, unique=True),
)
@settings(max_examples=80, deadline=None)
def test_frame_pairs_are_exactly_those_a_lag_apart_in_one_episode(lengths, step_frames, lags):
    t = timeline(lengths, step_frames=step_frames)
    hops = [max(1, round(lag * step_frames)) for lag in lags]
    expected = {(i, i + hop) for hop in hops for i in range(len(t.episode) - hop) if t.episode[i] == t.episode[i + hop]}
    if not expected:
        with pytest.raises(DatasetError, match="lower the recipe's lags"):
            pairs_of(t, range(len(lengths)), "frame", lags)
        return
    pairs = pairs_of(t, range(len(lengths)), "frame", lags)
    assert set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == expected


def test_waypoint_pairs_skip_the_frames_between_and_follow_stretched_steps():
    frame = np.arange(10)
    waypoint = np.array([0, -1, 1, -1, -1, 2, -1, 3, -1, -1])
    t = Timeline(np.zeros(10, int), frame, waypoint, 2)
    pairs = pairs_of(t, [0], "waypoint", [1, 2])
    assert list(zip(pairs.first, pairs.second, pairs.lag, strict=True)) == [
        (0, 2, 1), (2, 5, 1), (5, 7, 1), (0, 5, 2), (2, 7, 2),
    ]  # fmt: skip


def test_only_the_given_episodes_are_taken():
    t = timeline([5, 5, 5])
    pairs = pairs_of(t, [0, 2], "frame", [1])
    assert set(t.episode[pairs.first]) == {0, 2}
    assert set(t.episode[windows_of(t, [1], 2, 2)]) == {1}


@pytest.mark.parametrize(
    ("t", "unit", "words"),
    [
        (Timeline(np.zeros(5, int), np.arange(5), None, 1), "waypoint", "marks no waypoints"),
        (Timeline(np.zeros(5, int), np.arange(5), None, 0), "frame", "step_frames"),
        (timeline([3, 3]), "frame", "lower the recipe's lags"),
    ],
)
def test_what_cannot_be_paired_is_told(t, unit, words):
    with pytest.raises(DatasetError, match=words):
        pairs_of(t, [0, 1], unit, [4])


def test_windows_hold_every_start_whose_frames_all_exist():
    starts = windows_of(timeline([9, 3, 7]), [0, 1, 2], length=4, stride=2)
    assert starts.tolist() == [0, 1, 2, 12]
    with pytest.raises(DatasetError, match="history or stride"):
        windows_of(timeline([6, 3]), [0, 1], length=4, stride=2)


def test_correlation_of_a_rotated_scaled_walk_is_its_rho():
    rng = np.random.default_rng(0)
    rho, n, episodes = 0.8, 400, 60
    z = rng.standard_normal((episodes, n, 3))
    for i in range(1, n):
        z[:, i] = rho * z[:, i - 1] + np.sqrt(1 - rho**2) * z[:, i]
    flat = z.reshape(-1, 3) @ rng.standard_normal((3, 3)) + 5.0
    t = timeline([n] * episodes)
    for lag in (1, 2):
        pairs = pairs_of(t, range(episodes), "frame", [lag])
        assert correlation(flat, pairs, 3) == pytest.approx(rho**lag, abs=0.01)


def test_correlation_counts_only_the_leading_directions_and_ignores_dead_ones():
    rng = np.random.default_rng(1)
    slow = np.cumsum(rng.standard_normal((4000, 1)), axis=0)
    x = np.concatenate([slow, rng.standard_normal((4000, 1)), np.full((4000, 1), 3.0)], axis=1)
    rows = np.arange(3999)
    pairs = Pairs(rows, rows + 1, np.ones(3999))
    assert correlation(x, pairs, 1) > 0.98
    assert correlation(x, pairs, 2) == pytest.approx(0.5, abs=0.05)
