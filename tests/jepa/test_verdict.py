"""The verdict on planted outcomes."""

import dataclasses

import pytest

from so101walk.jepa.verdict import Outcome, decide
from so101walk.probe.intervals import Interval


def around(value: float, half: float = 0.01) -> Interval:
    return Interval(value, value - half, value + half)


GOOD = Outcome(0, around(0.95), around(0.05), around(0.45), around(0.8), around(0.5))


def outcome(**changes: Interval) -> Outcome:
    return dataclasses.replace(GOOD, **changes)


def test_every_criterion_met_by_every_seed_is_supported():
    verdict = decide([GOOD, outcome(), outcome()])
    assert verdict.word == "supported"
    assert {c.id: c.state for c in verdict.criteria} == dict.fromkeys(("R1", "R2", "R3", "B1", "B2"), "met")
    assert "3 seeds" in verdict.why


@pytest.mark.parametrize(
    ("changes", "criterion"),
    [
        ({"walk_r2": around(0.6)}, "R1"),
        ({"walk_anisotropy": around(0.4)}, "R2"),
        ({"difference": around(-0.2)}, "R3"),
    ],
)
def test_a_walk_that_every_seed_finds_wanting_is_refuted(changes, criterion):
    verdict = decide([outcome(**changes)] * 3)
    assert verdict.word == "refuted"
    assert criterion in verdict.why


@pytest.mark.parametrize(
    "outcomes",
    [
        [GOOD, outcome(walk_r2=Interval(0.82, 0.78, 0.86))],  # an interval that spans its mark
        [GOOD, outcome(walk_r2=around(0.6))],  # seeds that disagree
        [outcome(difference=Interval(0.02, -0.05, 0.09))] * 2,  # no difference to speak of
        [outcome(goal_r2=around(0.9), difference=around(0.05))] * 2,  # goal-directed data recovered as well
        [outcome(goal_anisotropy=around(0.1))] * 2,
        [outcome(walk_anisotropy=Interval(0.1, None, None))],  # too few episodes for an interval
        [outcome(walk_r2=Interval(float("nan"), float("nan"), float("nan")))],
        [],
    ],
)
def test_anything_between_is_inconclusive(outcomes):
    assert decide(outcomes).word == "inconclusive"


def test_a_doubt_forbids_a_verdict_either_way():
    for outcomes in ([GOOD], [outcome(walk_r2=around(0.1))]):
        verdict = decide(outcomes, ["bars-walk.toml wasn't frozen in time"])
        assert verdict.word == "inconclusive"
        assert verdict.why == "bars-walk.toml wasn't frozen in time"


def test_a_figure_exactly_on_its_mark_counts_as_the_bars_say():
    # R1 and B2 read "at least", R2 and B1 "below".
    on = outcome(
        walk_r2=Interval(0.9, 0.80, 0.95), goal_anisotropy=Interval(0.5, 0.20, 0.8),
        walk_anisotropy=Interval(0.1, 0.0, 0.20), goal_r2=Interval(0.5, 0.4, 0.80),
    )  # fmt: skip
    states = {c.id: c.state for c in decide([on]).criteria}
    assert states == {"R1": "met", "R2": "open", "R3": "met", "B1": "open", "B2": "met"}
