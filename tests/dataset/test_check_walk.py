import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from so101walk.dataset.check_walk import check_walk
from so101walk.dataset.claims import Claims
from so101walk.joints import FEATURE_NAMES, JOINTS
from so101walk.policies.gennorm import copula_rho, from_gaussian

from .planted import RHO, SCALE, columns, episodes, waypoints

OU = Claims(ours=True, kind="ou", rho=RHO, active=np.ones(6, bool))
ALL = ("observation.state", "action", "walk.z", "walk.waypoint")


def dataset(names=ALL):
    return SimpleNamespace(features={n: {} for n in names}, names=lambda _: FEATURE_NAMES)


def walk_rows(count=25, frames=150, **options):
    return dict(enumerate(episodes(count, frames, **options)))


def goal_rows(count=25, frames=150):
    """From one home pose to a random target and back: lift and elbow together, the wrist hardly, pan slowly."""
    rng, rows = np.random.default_rng(5), {}
    for e in range(count):
        steps = frames // 6 + 2
        reach = np.resize([0.0, 0.5, 1.0, 1.0, 0.5, 0.0], steps)
        target = np.array([1.5, 1.0, -1.2, 0.1, 0.02, 1.0]) * rng.uniform(0.6, 1.4, 6) * rng.choice([-1, 1], 6)
        target[1:3] = np.abs(target[1:3]) * [1, -1]
        home = np.array([0.0, -1.0, 1.0, 0.2, 0.0, 0.0])
        rows[e] = columns(home + reach[:, None] * (target - home) + rng.normal(0, 0.02, (steps, 6)), rng, frames)
    return rows


def test_a_walk_is_an_isotropic_walk():
    report, findings = check_walk(dataset(), walk_rows(), OU)
    assert findings == []
    assert report["verdict"] == "isotropic walk"
    assert report["joints_at_fault"] == []
    assert (report["episodes"], report["waypoints"], report["steps"]) == (25, 625, 600)
    assert report["rho"] == pytest.approx(RHO, abs=0.03)
    assert report["effective_samples"] == pytest.approx(625 * (1 - report["rho"]) / (1 + report["rho"]))
    assert report["rejected"] == 0
    low, high = report["rho_resolution"]
    assert 0.7 < low < RHO < high < 0.97
    for name in JOINTS:
        joint = report["joints"][name]
        assert joint["rho_ci"][0] < joint["rho"] < joint["rho_ci"][1]
        assert joint["std"] == pytest.approx(1.0, abs=0.4)
    json.dumps(report, allow_nan=False)


def test_three_short_episodes_raise_no_alarm():
    for seed in range(4):
        report, findings = check_walk(dataset(), walk_rows(3, 140, seed=seed), OU)
        assert (report["verdict"], findings) == ("isotropic walk", []), seed


def test_the_same_data_gives_the_same_report():
    rows = walk_rows(4)
    assert check_walk(dataset(), rows, OU) == check_walk(dataset(), rows, OU)


@pytest.mark.parametrize(("claims", "severity"), [(OU, "error"), (Claims(ours=True, kind="goal"), "warning")])
def test_a_goal_directed_dataset_is_not_an_isotropic_walk_and_its_joints_are_named(claims, severity):
    report, (finding, *_) = check_walk(dataset(), goal_rows(), claims)
    assert report["verdict"] == "not an isotropic walk"
    assert {"shoulder_lift", "elbow_flex", "wrist_roll"} <= set(report["joints_at_fault"])
    assert (finding.code, finding.severity) == ("walk.not_isotropic", severity)
    assert finding.message.startswith("not an isotropic walk (joints: ")
    assert "wrist_roll" in finding.message


def test_a_goal_directed_dataset_of_someone_else_too():
    report, (finding,) = check_walk(dataset(["observation.state"]), goal_rows(), Claims(ours=False))
    assert report["verdict"] == "not an isotropic walk"
    assert report["source"].startswith("observation.state at every")
    assert {"shoulder_lift", "elbow_flex"} <= set(report["joints_at_fault"])
    assert finding.severity == "warning"
    assert report["rejected"] is None
    assert set(report["autocorrelation"]) == {"lags_frames", *JOINTS}


def test_a_walk_without_its_walk_columns_is_still_seen_to_be_one():
    report, findings = check_walk(dataset(["observation.state"]), walk_rows(30, 240, seed=3), Claims(ours=False))
    assert (report["verdict"], findings) == ("isotropic walk", [])
    assert report["joints"]["gripper"]["std"] == pytest.approx(SCALE, rel=0.3)


def test_one_joint_of_another_rho_is_named():
    def slower(episode, c):
        rng = np.random.default_rng(500 + episode)
        c["walk.z"][:, 3] = columns(waypoints(rng, 27, 0.6), rng, 150)["walk.z"][:, 3]

    report, (finding, *_) = check_walk(dataset(), walk_rows(change=slower), OU)
    assert report["joints_at_fault"] == ["wrist_flex"]
    assert "rho differs between joints: wrist_flex" in finding.message


def test_another_rho_than_the_policy_says():
    report, (finding,) = check_walk(dataset(), walk_rows(rho=0.8), OU)
    assert report["verdict"] == "isotropic walk"
    assert (finding.code, finding.severity) == ("walk.rho", "error")
    assert finding.message.startswith("rho at the step is 0.7") or finding.message.startswith("rho at the step is 0.8")
    assert finding.message.endswith("the policy says 0.9")


def bent_rows(alpha, count=40):
    """Chains of the same lag-1 correlation with generalized-normal marginals."""
    rows = {}
    for k in range(count):
        rng = np.random.default_rng(k)
        rows[k] = columns(from_gaussian(waypoints(rng, 27, copula_rho(RHO, alpha)), alpha), rng, 150)
    return rows


def test_a_non_gaussian_walk_is_isotropic_but_not_gaussian():
    claims = dataclasses.replace(OU, kind="gennorm", alpha=1.0)
    rows = bent_rows(1.0)
    report, (finding,) = check_walk(dataset(), rows, claims)
    assert report["verdict"] == "isotropic but not Gaussian"
    assert (finding.code, finding.severity) == ("walk.not_gaussian", "note")
    report, (finding,) = check_walk(dataset(), rows, OU)
    assert report["verdict"] == "isotropic but not Gaussian"
    assert (finding.code, finding.severity) == ("walk.not_gaussian", "error")


def test_a_joint_switched_off_is_no_fault_but_one_that_stands_still_is():
    def still(_, c):
        c["walk.z"][:, 4] = 0.0

    rows = walk_rows(change=still)
    off = dataclasses.replace(OU, active=np.arange(6) != 4)
    report, findings = check_walk(dataset(), rows, off)
    assert (report["verdict"], findings) == ("isotropic walk", [])
    assert report["joints"]["wrist_roll"] == {"moves": False}
    report, (finding,) = check_walk(dataset(), rows, OU)
    assert report["joints_at_fault"] == ["wrist_roll"]
    assert "never moves: wrist_roll" in finding.message


def test_refused_steps_are_counted_from_the_data():
    def refuse(k, c):
        reached = np.flatnonzero(c["walk.waypoint"] >= 0)
        for at in reached[2::8]:
            c["walk.z"][at] = c["walk.z"][at - 6]

    report, findings = check_walk(dataset(), walk_rows(change=refuse), OU)
    assert report["rejected"] == 3 * 25
    assert report["rejected_share"] == pytest.approx(75 / 600)
    (finding,) = [f for f in findings if f.code == "walk.rejected"]
    assert finding.message.startswith("the envelope refused 75 of 600 steps (12.5%)")


def test_a_missing_waypoint_breaks_the_chain_there():
    def drop(_, c):
        c["walk.waypoint"][c["walk.waypoint"] == 7] = -1

    report, findings = check_walk(dataset(), walk_rows(change=drop), OU)
    assert report["steps"] == 25 * 22
    assert findings == []


@pytest.mark.parametrize(
    ("names", "rows", "why"),
    [
        (ALL, walk_rows(1, 60), "9 steps between waypoints are too few"),
        (ALL, {}, "0 steps between waypoints"),
        (["observation.state"], walk_rows(3), "it takes 4 episodes or more; there are 3"),
        (["observation.state"], walk_rows(5, 100), "it takes 20 independent samples"),
        (["action"], walk_rows(3), "neither walk.z nor observation.state"),
    ],
)
def test_too_little_evidence_is_unknown_and_no_finding_that_counts(names, rows, why):
    report, (finding,) = check_walk(dataset(names), rows, Claims(ours=False))
    assert report["verdict"] == "unknown"
    assert finding.severity == "note"
    assert why in finding.message
