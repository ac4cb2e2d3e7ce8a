"""Ranking trials: what is drawn, and what a random and a perfect predictor score."""

import numpy as np
import pytest

from so101walk.errors import DatasetError, UsageError
from so101walk.jepa.pairs import Timeline
from so101walk.jepa.rank import action_baselines
from so101walk.jepa.trials import draw_trials, hits, top1


def timeline(lengths: list[int]) -> Timeline:
    return Timeline(np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.arange(n) for n in lengths]))


TIME = timeline([80, 60, 100, 50])


def test_trials_stay_in_their_episodes_and_rivals_where_they_belong():
    trials = draw_trials(TIME, [0, 2, 3], reach=5, rivals=7, count=150, rng=np.random.default_rng(0))
    assert len(trials) == 150
    assert len(set(trials.start.tolist())) == 150
    assert (trials.chunks[:, 0] == trials.start).all()
    assert (TIME.episode[trials.start] == TIME.episode[trials.goal]).all()
    assert (TIME.episode[trials.chunks] == TIME.episode[trials.chunks + 5]).all()
    assert set(TIME.episode[trials.chunks].ravel()) == {0, 2, 3}
    assert ((TIME.episode[trials.chunks] == trials.episode[:, None]) == trials.same).all()
    assert trials.same[:, 1:].sum(axis=1).tolist() == [3] * 150
    apart = np.abs(trials.chunks - trials.start[:, None])[:, 1:]
    assert apart[trials.same[:, 1:]].min() >= 5


def test_trials_come_from_their_seed():
    drawn = [draw_trials(TIME, range(4), 3, 4, 50, np.random.default_rng(s)).chunks for s in (1, 1, 2)]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()


def test_short_episodes_and_senseless_numbers_are_told():
    with pytest.raises(DatasetError, match="Lower --horizon"):
        draw_trials(TIME, range(4), 30, 4, 50, np.random.default_rng(0))
    with pytest.raises(UsageError, match="1 or more"):
        draw_trials(TIME, range(4), 3, 0, 50, np.random.default_rng(0))


@pytest.mark.parametrize("k", [2, 8, 16])
def test_a_random_predictor_scores_chance(k):
    rng = np.random.default_rng(k)
    hit = hits(rng.random((20000, k)))
    assert hit.mean() == pytest.approx(1 / k, abs=4 * np.sqrt((1 - 1 / k) / k / 20000))


def test_a_perfect_predictor_scores_one_and_a_constant_one_exactly_chance():
    rng = np.random.default_rng(0)
    perfect = rng.random((100, 5)) + 0.1
    perfect[:, 0] = 0.0
    assert hits(perfect).tolist() == [1.0] * 100
    assert hits(np.ones((100, 5))).tolist() == [0.2] * 100
    assert hits(1.0 - perfect).tolist() == [0.0] * 100


def test_only_the_rivals_asked_for_compete():
    distance = np.array([[1.0, 0.5, 2.0], [1.0, 2.0, 0.5]])
    among = np.array([[True, False, True], [True, False, True]])
    assert hits(distance, among).tolist() == [1.0, 0.0]


def test_the_interval_covers_the_truth_when_hits_cluster_by_episode():
    rng = np.random.default_rng(0)
    covered, truth, rounds = 0, 0.6, 200
    for _ in range(rounds):
        rate = np.clip(rng.normal(truth, 0.1, 40), 0, 1)
        hit = (rng.random((40, 25)) < rate[:, None]).astype(float).ravel()
        figure = top1(hit, np.repeat(np.arange(40), 25), rng)
        covered += figure.low <= truth <= figure.high
    assert 0.88 <= covered / rounds <= 0.99


def test_one_episode_has_no_interval():
    figure = top1(np.array([1.0, 0.0]), np.array([3, 3]), np.random.default_rng(0))
    assert (figure.value, figure.low, figure.high) == (0.5, None, None)


def test_baselines_find_the_chunk_that_ends_at_the_goal():
    rng = np.random.default_rng(0)
    episodes, length, reach = 8, 60, 4
    time = timeline([length] * episodes)
    # Slow smooth motions: the action at the goal is near the chunk's last one, and displacements add up.
    steps = rng.standard_normal((episodes, length // 10, 6))
    actions = np.concatenate([np.cumsum(np.repeat(s, 10, axis=0), axis=0) for s in steps])
    trials = draw_trials(time, range(4, 8), reach, 15, 100, np.random.default_rng(1))
    distances = action_baselines(actions, time, (0, 1, 2, 3), trials)
    assert hits(distances["last_action"]).mean() > 0.6
    assert hits(distances["mean_displacement"]).mean() > 0.15


def test_the_last_action_of_unrelated_actions_tells_nothing():
    rng = np.random.default_rng(0)
    time = timeline([300] * 6)
    trials = draw_trials(time, range(3, 6), 4, 15, 800, rng)
    distances = action_baselines(rng.standard_normal((1800, 6)), time, (0, 1, 2), trials)
    assert hits(distances["last_action"]).mean() == pytest.approx(1 / 16, abs=4 * np.sqrt(15 / 256 / 800))
