from types import SimpleNamespace

import numpy as np
import pytest

from so101walk.dataset.claims import Claims, read_claims
from so101walk.joints import FEATURE_NAMES

from .planted import LIMIT, session


def claims(meta, names=FEATURE_NAMES):
    return read_claims(SimpleNamespace(meta=meta, features={"observation.state": {}}, names=lambda _: names))


def test_a_walk_of_ours_claims_all():
    found = claims(session(joints={"wrist_roll": False}))
    assert (found.ours, found.kind, found.rho, found.simulated, found.is_walk) == (True, "ou", 0.9, True, True)
    assert found.active.tolist() == [True, True, True, True, False, True]
    assert found.lower.tolist() == [-LIMIT] * 6
    assert found.upper.tolist() == [LIMIT] * 6
    assert found.velocity == pytest.approx([300.0] * 5 + [300.0 / 1.1])


def test_a_goal_policy_claims_no_walk():
    found = claims(session(kind="goal"))
    assert not found.is_walk
    assert found.active is None
    assert found.rho is None


def test_another_recorders_dataset_claims_nothing_but_its_arm():
    found = claims(None)
    assert not found.ours
    assert np.all(found.max_speed[:5] == 360.0)
    assert claims(None, names=("x", "y")) == Claims(ours=False)


@pytest.mark.parametrize(
    "meta",
    [{}, {"policy": 3}, {"policy": {"kind": 1, "rho": "a"}}, {"envelope": {"joints": {"gripper": {"lower": None}}}}],
)
def test_odd_metadata_is_unknown_and_no_error(meta):
    found = claims(meta)
    assert (found.kind, found.rho, found.lower, found.velocity) == (None, None, None, None)
