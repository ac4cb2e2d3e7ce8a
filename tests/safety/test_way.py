"""Ways home over the model's geometry."""

import itertools

import numpy as np
import pytest

from so101walk.arms.simulated import REST_Q
from so101walk.envelope import Envelope, load_envelope
from so101walk.safety.way import WayHome


@pytest.fixture(scope="module")
def envelope() -> Envelope:
    return load_envelope("so101-tabletop")


@pytest.fixture
def way(envelope: Envelope) -> WayHome:
    return WayHome(envelope, REST_Q)


def test_from_the_center_straight_to_rest_and_back(way: WayHome, envelope: Envelope) -> None:
    assert way.blocked(REST_Q, envelope.center) is None
    assert [p.tolist() for p in way.to_rest(envelope.center)] == [REST_Q.tolist()]
    assert [p.tolist() for p in way.to_center(REST_Q)] == [envelope.center.tolist()]


def test_what_touches_already_may_be_left(way: WayHome, envelope: Envelope) -> None:
    limp = np.array([0.0, -99.0, 95.0, 70.0, 0.0, 5.0])  # lying on the table
    assert way.blocked(limp, envelope.center) is None


def test_a_move_through_the_table_is_blocked(way: WayHome, envelope: Envelope) -> None:
    # From low on one side to low on the other, shoulder first: both ends are free, what lies between isn't.
    below = envelope.center + np.array([0.0, 95.0, 40.0, 0.0, 0.0, 0.0])
    pair = way.blocked(envelope.center, below)
    assert pair is not None
    assert "table" in pair


def test_the_way_back_is_the_way_the_arm_came(
    way: WayHome, envelope: Envelope, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [envelope.center + np.array([10.0 * k, 0, 0, 0, 0, 0]) for k in range(1, 5)]
    way.walked(steps)
    here = (steps[2] + steps[3]) / 2
    # nothing but the first waypoint reaches the center straight
    monkeypatch.setattr(way, "blocked", lambda a, b: None if np.allclose(a, steps[0]) else "link and table")
    poses = way.to_center(here)
    np.testing.assert_allclose(poses, [steps[2], steps[1], steps[0], envelope.center])
    monkeypatch.setattr(way, "blocked", lambda a, b: "everything")
    poses = way.to_rest(here)
    np.testing.assert_allclose(poses, [steps[2], steps[1], steps[0], envelope.center, REST_Q])


def test_walks_of_the_shipped_envelope_always_find_home(way: WayHome, envelope: Envelope) -> None:
    rng = np.random.default_rng(4)
    straight = 0
    for _ in range(30):
        q = envelope.z_to_q(rng.standard_normal(6))
        if not envelope.segment_ok(envelope.center, q):
            continue
        way.walked([q])
        poses = [q, *way.to_rest(q)]
        straight += len(poses) == 2
        for a, b in itertools.pairwise(poses):
            assert way.blocked(a, b) is None
    assert straight > 0
