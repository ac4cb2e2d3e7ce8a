import itertools

import numpy as np
import pytest

from so101walk.envelope import Envelope
from so101walk.errors import ConfigError, EnvelopeError
from so101walk.joints import GRIPPER
from so101walk.policies.goal import Goal, GoalConfig
from so101walk.scene.kinematics import Kinematics

STEPS = 24


def episode(envelope, seed, config=GoalConfig(), steps=STEPS):  # noqa: B008  (frozen)
    rng = np.random.default_rng(seed)
    policy = Goal(config)
    z = [policy.start(rng, envelope)]
    for _ in range(steps):
        z.append(policy.propose(z[-1], rng))
    return envelope.z_to_q(z)


@pytest.fixture(scope="module")
def episodes(tabletop):
    return np.array([episode(tabletop, seed) for seed in range(12)])


def test_every_move_is_inside_the_envelope(episodes, tabletop):
    for q in episodes:
        assert tabletop.contains(q[0])
        for a, b in itertools.pairwise(q):
            assert tabletop.segment_ok(a, b)


def test_the_wrist_hardly_moves_and_the_rest_does(episodes):
    spread = episodes.reshape(-1, 6).std(axis=0)
    assert (spread[[3, 4]] < 4.0).all()
    assert (spread[[0, 1, 2]] > 10.0).all()
    assert spread[GRIPPER] > 15.0


def test_the_gripper_closes_low_carries_and_opens_low(episodes):
    config = GoalConfig()
    height = Kinematics.shared().tip_m(episodes)[..., 2]
    gripper = episodes[..., GRIPPER]
    closing = (gripper[:, :-1] == config.open_percent) & (gripper[:, 1:] == config.closed_percent)
    opening = (gripper[:, :-1] == config.closed_percent) & (gripper[:, 1:] == config.open_percent)
    assert closing.sum() >= 2 * len(episodes)
    assert opening.sum() >= 2 * len(episodes)
    for moment in (closing, opening):
        assert height[:, :-1][moment] == pytest.approx(config.grasp_m, abs=2e-4)
        assert height[:, 1:][moment] == pytest.approx(config.grasp_m, abs=2e-4)


def test_targets_fill_the_ring(episodes):
    q = episodes.reshape(-1, 6)
    tips = Kinematics.shared().tip_m(q)
    low = tips[tips[:, 2] < 0.05]
    radius, azimuth = np.hypot(low[:, 0], low[:, 1]), np.degrees(np.arctan2(low[:, 1], low[:, 0]))
    assert 0.2 - 1e-3 < radius.min() < 0.23
    assert 0.30 < radius.max() < 0.32 + 1e-3
    assert -50.1 < azimuth.min() < -30
    assert 30 < azimuth.max() < 50.1


def test_the_same_seed_gives_the_same_reaches(tabletop):
    assert (episode(tabletop, 3) == episode(tabletop, 3)).all()
    assert not (episode(tabletop, 3)[1] == episode(tabletop, 4)[1]).all()


def test_after_a_refusal_it_goes_on_from_where_the_arm_is(tabletop):
    rng = np.random.default_rng(0)
    policy = Goal(GoalConfig())
    z = policy.start(rng, tabletop)
    for _ in range(9):
        policy.propose(z, rng)  # never taken: the arm stays at home
    fresh = policy.propose(z, rng)
    assert tabletop.segment_ok(tabletop.z_to_q(z), tabletop.z_to_q(fresh))


def test_an_envelope_without_room_is_told(tabletop):
    low, high = tabletop.lower.copy(), tabletop.upper.copy()
    low[0], high[0] = -5.0, 5.0
    narrow = Envelope("narrow", tabletop.center, tabletop.scale, low, high, tabletop.clearance, "narrow.toml")
    with pytest.raises(EnvelopeError, match=r"none of 200 reaches lies in the envelope \(narrow.toml\)"):
        Goal(GoalConfig(radius_m=(0.3, 0.32), azimuth_deg=50.0)).start(np.random.default_rng(0), _without_ahead(narrow))


def _without_ahead(envelope):
    from so101walk.scene.clearance import ClearanceConfig, KeepOut

    box = KeepOut("box", (0.33, 0.0, 0.02), (0.1, 0.6, 0.1))
    return Envelope(
        envelope.name, envelope.center, envelope.scale, envelope.lower, envelope.upper,
        ClearanceConfig(keep_out=(box,)), envelope.source,
    )  # fmt: skip


def test_a_home_out_of_reach_is_told(tabletop):
    with pytest.raises(EnvelopeError, match="home pose can't be used: out of reach"):
        Goal(GoalConfig(home_m=(2.0, 0.0, 0.1))).start(np.random.default_rng(0), tabletop)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"radius_m": (0.3, 0.2)}, "two rising values"),
        ({"radius_m": (0.2, 3.0)}, "0.05 to 0.5 m"),
        ({"azimuth_deg": -1.0}, "azimuth_deg is -1"),
        ({"grasp_m": 0.2, "hover_m": 0.1}, "must rise"),
        ({"jitter_deg": 90.0}, "jitter_deg is 90"),
        ({"open_percent": 10.0, "closed_percent": 50.0}, "must rise, 0 to 100"),
        ({"wrist_flex_deg": float("nan")}, "wrist_flex_deg is nan"),
        ({"home_m": (0.1, float("inf"), 0.1)}, "three finite numbers"),
        ({"frames_per_step": 0}, "frames_per_step is 0"),
    ],
)
def test_values_out_of_range_are_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        GoalConfig(**values)
