"""plan_episode: the policy proposes, the envelope disposes; every episode can be made again alone."""

import numpy as np
import pytest

from so101walk.envelope import Envelope
from so101walk.errors import EnvelopeError, So101WalkError
from so101walk.policies.ou import OU
from so101walk.rig import LimitsConfig
from so101walk.walk import Plan, episode_rng, plan_episode

WIDE = np.full(6, 60.0)
LIMITS = LimitsConfig()


def envelope(half: float = 60.0, scale: float = 10.0) -> Envelope:
    return Envelope("test", np.zeros(6), np.full(6, scale), np.full(6, -half), np.full(6, half), clearance=None)


def plan(frames: int = 360, seed: int = 3, walk_index: int = 0, attempt: int = 0, **kind) -> Plan:
    rng = episode_rng(seed, walk_index, attempt)
    return plan_episode(OU(), envelope(**kind), LIMITS, 30, frames, rng)


def test_waypoints_arrive_every_step_and_fill_the_episode() -> None:
    p = plan()
    reached = p.waypoint_at()
    assert reached.shape == (360,)
    at = np.flatnonzero(reached >= 0)
    assert at[0] == 0
    assert (np.diff(at) >= 15).all()
    np.testing.assert_array_equal(reached[at], np.arange(len(at)))
    assert p.steps == len(at) - 1
    assert p.path.arrivals[-1] >= 359, "the path must not end before the episode does"
    np.testing.assert_allclose(p.path.at(at / 30), p.q[: len(at)], atol=1e-9)


def test_an_episode_depends_on_its_number_alone() -> None:
    alone = plan(walk_index=7)
    again = [plan(walk_index=i) for i in (3, 7)][1]
    np.testing.assert_array_equal(alone.z, again.z)
    for other in (plan(walk_index=8), plan(seed=4, walk_index=7), plan(walk_index=7, attempt=1)):
        assert not np.array_equal(alone.z[0], other.z[0])


def test_a_refused_proposal_keeps_the_old_state_and_is_counted() -> None:
    p = plan(half=12.0, frames=3000)
    kept = [i for i, r in enumerate(p.refusals) if r]
    assert len(kept) > 20
    for i in kept:
        np.testing.assert_array_equal(p.z[i], p.z[i - 1])
    moved = [i for i in range(1, len(p.z)) if not p.refusals[i]]
    assert all(not np.array_equal(p.z[i], p.z[i - 1]) for i in moved)
    within = p.path.arrivals < 3000
    assert sum(p.causes.values()) == sum(bool(r) for r, w in zip(p.refusals, within, strict=True) if w)
    assert set(p.causes) <= {f"limit:{j}" for j in ("shoulder_pan", "shoulder_lift", "elbow_flex")} | {
        f"limit:{j}" for j in ("wrist_flex", "wrist_roll", "gripper")
    }
    assert np.abs(p.q).max() <= 12.0


class Stubborn:
    """A policy that proposes what it is told to."""

    name, frames_per_step, settle_frames = "stubborn", 10, 2

    def __init__(self, start, proposal) -> None:
        self._start, self._proposal = start, proposal

    def start(self, rng, envelope):
        return self._start

    def propose(self, z, rng):
        return self._proposal


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        (np.full(6, np.nan), "not finite for shoulder_pan"),
        (np.array([0, 0, np.inf, 0, 0, 0]), "not finite for elbow_flex$"),
        (np.zeros(5), r"shape \(5,\); it must be \(6,\)"),
    ],
)
def test_what_is_not_six_finite_numbers_never_becomes_a_plan(proposal: np.ndarray, words: str) -> None:
    with pytest.raises(So101WalkError, match=words):
        plan_episode(Stubborn(np.zeros(6), proposal), envelope(), LIMITS, 30, 60, episode_rng(0, 0))


def test_no_reachable_start_is_told() -> None:
    with pytest.raises(EnvelopeError, match=r"none of 100 first waypoints.*shoulder_pan"):
        plan_episode(Stubborn(np.full(6, 9.0), np.zeros(6)), envelope(), LIMITS, 30, 60, episode_rng(0, 0))


def test_a_policy_can_not_change_the_walks_state_behind_its_back() -> None:
    class Meddler(Stubborn):
        def propose(self, z, rng):
            z += 100.0
            return np.full(6, 99.0)

    p = plan_episode(Meddler(np.zeros(6), None), envelope(), LIMITS, 30, 60, episode_rng(0, 0))
    np.testing.assert_array_equal(p.z, 0.0)


def test_steps_that_are_too_fast_take_more_frames() -> None:
    slow = plan_episode(OU(), envelope(scale=30.0, half=200.0), LimitsConfig(10.0, 600.0), 30, 360, episode_rng(0, 0))
    assert (slow.path.stretched > 0).any()
    assert slow.steps < plan().steps
