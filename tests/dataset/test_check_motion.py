import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from so101walk.dataset.check_motion import check_constant_joints, check_motion, check_saturation, runs
from so101walk.dataset.claims import Claims
from so101walk.joints import FEATURE_NAMES

from .planted import FPS, LIMIT, SCALE, episodes

DATASET = SimpleNamespace(fps=FPS, names=lambda _: FEATURE_NAMES)
OU = Claims(
    ours=True,
    kind="ou",
    rho=0.9,
    active=np.ones(6, bool),
    lower=np.full(6, -LIMIT),
    upper=np.full(6, LIMIT),
    velocity=np.full(6, 300.0),
    max_speed=np.full(6, 360.0),
)


def found(change=None, claims=OU, **options):
    """Findings in the first of three episodes, in which something is planted."""
    made = episodes(3, 240, seed=2)
    if change is not None:
        change(made[0])
    width = np.ptp(np.concatenate([c["action"] for c in made]), axis=0)
    return check_motion(DATASET, 0, made[0], claims, width)


def test_runs():
    mask = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], bool)
    assert runs(mask) == [(0, 1), (3, 3), (6, 8)]
    assert runs(np.zeros(0, bool)) == []


def test_a_sound_walk_has_no_findings():
    assert found() == []


def test_a_joint_that_freezes_while_its_command_moves():
    def freeze(c):
        c["observation.state"][100:160, 2] = c["observation.state"][100, 2]

    (finding,) = [f for f in found(freeze) if f.code != "motion.jump"]
    assert (finding.code, finding.severity, finding.episode) == ("motion.frozen", "error", 0)
    assert finding.message.startswith("elbow_flex reads ")
    assert "rows 100 to 159" in finding.message


def test_a_joint_that_is_told_to_stand_still_is_not_frozen():
    def hold(c):
        for name in ("observation.state", "action", "walk.request"):
            c[name][100:200, 2] = c[name][100, 2]
        c["observation.state"][200:, 2] = c["action"][199:-1, 2]

    assert [f.code for f in found(hold) if f.code == "motion.frozen"] == []


def test_a_joint_may_begin_to_move_late():
    def late(c):
        for name in ("observation.state", "action", "walk.request"):
            c[name][60:100, 2] = c[name][60, 2]
        c["action"][100:105, 2] += 8.0
        c["observation.state"][100:104, 2] = c["observation.state"][60, 2]

    assert "motion.frozen" not in [f.code for f in found(late)]


def test_a_jump_is_told_with_its_row_and_both_values():
    def jump(c):
        c["observation.state"][77, 0] += 40.0

    (finding,) = found(jump)
    assert (finding.code, finding.severity) == ("motion.jump", "error")
    assert finding.message.startswith("shoulder_pan jumps from ")
    assert "at row 7" in finding.message
    assert "(2 such steps)" in finding.message
    assert found(jump, dataclasses.replace(OU, max_speed=None)) == []


@pytest.mark.parametrize(("column", "value"), [("action", LIMIT + 1), ("observation.state", LIMIT + 6)])
def test_values_outside_the_envelope(column, value):
    def leave(c):
        c["walk.request"][:, 5] = c["action"][:, 5] = c["observation.state"][:, 5] = LIMIT - 1
        c[column][50:53, 5] = value
        c["walk.request"][50:53, 5] = c["action"][50:53, 5]

    (finding,) = found(leave)
    assert (finding.code, finding.severity) == ("motion.outside_limits", "error")
    assert f"{column} of gripper is {value:.1f} at row 50" in finding.message
    assert "allows -80.0 to 80.0 (3 rows outside)" in finding.message
    assert found(leave, dataclasses.replace(OU, lower=None)) == []


def test_sag_is_not_outside():
    def sag(c):
        c["walk.request"][:, 1] = c["action"][:, 1] = LIMIT
        c["observation.state"][:, 1] = LIMIT + 3.0

    assert [f for f in found(sag) if f.code == "motion.outside_limits"] == []


def test_what_a_limit_cut_off_is_told():
    def cut(c):
        c["action"][30:40, 4] -= 2.0

    (finding,) = found(cut)
    assert (finding.code, finding.severity) == ("motion.limited", "warning")
    assert finding.message.startswith(
        "wrist_roll: what went on the wire differs from what was asked in 10 rows, by up to 2"
    )


def all_of(name, change=None):
    q = np.concatenate([c[name] for c in episodes(8, 240, seed=4)])
    return q if change is None else change(q)


def test_constant_joints():
    def still(q):
        q[:, 4] = 12.0
        return q

    q = all_of("observation.state", still)
    (finding,) = check_constant_joints(DATASET, q, OU)
    assert (finding.code, finding.severity) == ("motion.constant", "error")
    assert finding.message == "wrist_roll reads 12.0 in every row of the dataset"
    assert check_constant_joints(DATASET, q, dataclasses.replace(OU, active=np.arange(6) != 4)) == []
    assert check_constant_joints(DATASET, q, Claims(ours=False))[0].severity == "warning"
    assert check_constant_joints(DATASET, all_of("observation.state"), OU) == []


def test_commands_clipped_at_a_limit_pile_up():
    q = all_of("action", lambda q: np.clip(q, -1.2 * SCALE, np.inf))
    found = check_saturation(DATASET, q[:, :], OU)
    assert {f.code for f in found} == {"motion.saturated"}
    assert {f.severity for f in found} == {"warning"}
    assert found[0].message.startswith("shoulder_pan is commanded to its lowest value -18.0 in ")
    assert check_saturation(DATASET, q, Claims(ours=False))[0].severity == "note"
    assert check_saturation(DATASET, all_of("action"), OU) == []


def test_a_dataset_without_joints_has_nothing_to_say():
    assert check_motion(DATASET, 0, {"action": np.zeros((5, 6))}, OU, np.zeros(6)) == []
