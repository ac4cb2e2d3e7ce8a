import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.dataset.assemble import assemble
from so101walk.dataset.staging import (
    Staging,
    compare_identity,
    identity_of,
    quarantine,
    recover,
    saved_walk_indices,
    sibling,
)
from so101walk.errors import DatasetError

from .walks import SESSION, save, snapshot, staged, writer


def test_making_the_object_touches_nothing(tmp_path):
    staging = Staging(tmp_path / "walk")
    assert staging.saved() == {}
    assert not staging.exists
    assert list(tmp_path.iterdir()) == []


def test_saved_episodes_are_listed_by_walk_index(tmp_path):
    staging = staged(tmp_path / "walk", [5, 0, 12], 6)
    assert list(staging.saved()) == [0, 5, 12]
    assert saved_walk_indices(tmp_path / "walk") == {0, 5, 12}


def test_indices_of_the_dataset_and_of_staging_are_joined(tmp_path):
    out = tmp_path / "walk"
    with staged(out, [0, 2], 6).lock():
        assemble(out)
    staging = staged(out, [1], 6)
    assert list(staging.saved()) == [1]
    assert saved_walk_indices(out) == {0, 1, 2}


def test_two_sessions_cannot_hold_one_dataset(tmp_path):
    staging = Staging(tmp_path / "walk")
    with staging.lock():
        with pytest.raises(DatasetError, match="another so101walk"), Staging(tmp_path / "walk").lock():
            pass
        with Staging(tmp_path / "other").lock():
            pass
    with staging.lock():
        pass


def test_the_lock_of_a_killed_process_holds_nothing(tmp_path):
    code = (
        "import sys, time; from so101walk.dataset.staging import Staging\n"
        f"with Staging({str(tmp_path / 'walk')!r}).lock():\n    print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(DatasetError, match="another so101walk"), Staging(tmp_path / "walk").lock():
        pass
    child.kill()
    child.wait()
    with Staging(tmp_path / "walk").lock():
        pass


def test_a_lock_taken_while_the_folder_was_removed_is_taken_again(tmp_path, monkeypatch):
    """Between our open and our lock the other session may have assembled and removed the folder."""
    staging = Staging(tmp_path / "walk")
    real_open, removed = os.open, []

    def open_then_lose(path, *arguments):
        fd = real_open(path, *arguments)
        if str(path).endswith("lock") and not removed:
            removed.append(path)
            os.unlink(path)
        return fd

    monkeypatch.setattr(os, "open", open_then_lose)
    with staging.lock(), pytest.raises(DatasetError, match="another so101walk"), Staging(tmp_path / "walk").lock():
        pass
    assert removed


def test_leftovers_of_a_crash_go_to_the_quarantine_with_their_content(tmp_path):
    staging = staged(tmp_path / "walk", [0], 6)
    episode = writer(staging, 1)
    (half,) = staging.tmp.iterdir()
    (half / "note").write_text("half")
    episode._open = False  # as if the process had died
    for video in episode._videos.values():
        video.cancel()
    with staging.lock():
        staging.begin(SESSION)
    (place,) = staging.quarantine.iterdir()
    assert (place / half.name / "note").read_text() == "half"
    assert "cut off" in (place / "reason.txt").read_text()
    assert list(staging.tmp.iterdir()) == []
    assert list(staging.saved()) == [0]


def test_quarantined_things_of_one_name_do_not_meet(tmp_path):
    out = tmp_path / "walk"
    for k in range(3):
        (tmp_path / "x").write_text(str(k))
        quarantine(out, [tmp_path / "x"], "why", "x")
    kept = sorted(p.read_text() for p in (tmp_path / "walk.quarantine").glob("*/x"))
    assert kept == ["0", "1", "2"]


CHANGES = [
    ({"fps": 25}, "fps is 30 in the dataset, 25 now"),
    ({"rig": {"name": "sim", "arm": {"control_hz": 50.0}}}, "rig.arm.control_hz is 100.0 in the dataset, 50.0 now"),
    ({"envelope": {"name": "so101-tabletop", "digest": "xyz"}}, "envelope.digest is abc in the dataset, xyz now"),
    ({"policy": {"name": "ou", "rho": 0.9, "alpha": 2}}, "policy.alpha is not set in the dataset, 2 now"),
    ({"policy": {"name": "ou"}}, "policy.rho is 0.9 in the dataset, not set now"),
    ({"calibration": "sha256:1"}, "calibration is not set in the dataset, sha256:1 now"),
    ({"simulated": False}, "simulated is True in the dataset, False now"),
]


@pytest.mark.parametrize(("change", "line"), CHANGES)
def test_each_difference_is_told_in_a_line(change, line):
    assert compare_identity(SESSION, {**SESSION, **change}) == [line]


@given(st.dictionaries(st.sampled_from(["seed", "episodes", "workers", "host"]), st.integers()))
def test_what_is_not_identity_may_differ(extra):
    assert compare_identity(SESSION, {**SESSION, **extra}) == []


def test_tuples_and_lists_are_the_same_once_written(tmp_path):
    assert compare_identity({"rig": {"a": [1, 2]}}, {"rig": {"a": (1, 2)}}) == []


@pytest.mark.parametrize("assembled", [False, True])
@pytest.mark.parametrize(("change", "line"), CHANGES)
def test_another_walk_is_refused_and_no_byte_changes(tmp_path, change, line, assembled):
    out = tmp_path / "walk"
    staging = staged(out, [0], 6)
    if assembled:
        with staging.lock():
            assemble(out)
    before = snapshot(out)
    assert compare_identity(identity_of(out) or {}, {**SESSION, **change}) == [line]
    with pytest.raises(DatasetError, match=line.replace(".", r"\.")):
        Staging(out).begin({**SESSION, **change})
    assert snapshot(out) == before


def test_the_same_walk_goes_on_and_keeps_the_first_description(tmp_path):
    staging = staged(tmp_path / "walk", [0], 6)
    with staging.lock():
        staging.begin({**SESSION, "seed": 8})
        save(staging, 1, 6)
    assert staging.session()["seed"] == 7
    assert list(staging.saved()) == [0, 1]


def test_a_folder_that_is_not_ours_has_no_identity(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(DatasetError, match="was not made by so101walk"):
        identity_of(tmp_path / "photos")
    assert identity_of(tmp_path / "nothing") is None


def test_removing_keeps_what_was_set_aside(tmp_path):
    staging = staged(tmp_path / "walk", [0], 6)
    (staging.aside / "episode-000001-attempt-0").mkdir()
    (staging.aside / "episode-000001-attempt-0" / "reason.txt").write_text("a camera stalled")
    with staging.lock():
        staging.remove()
    assert [p.name for p in staging.aside.iterdir()] == ["episode-000001-attempt-0"]
    assert staging.saved() == {}


def test_a_removed_staging_folder_leaves_nothing(tmp_path):
    staging = staged(tmp_path / "walk", [0], 6)
    with staging.lock():
        staging.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", ["old only", "old and building", "old and new", "building only"])
def test_each_state_that_a_crash_can_leave_is_recovered(tmp_path, state):
    out = tmp_path / "walk"
    with staged(out, [0], 6).lock():
        assemble(out)
    wanted = snapshot(out)
    if state == "old only":
        out.rename(sibling(out, ".old"))
    elif state == "old and building":
        shutil.copytree(out, sibling(out, ".building"))
        out.rename(sibling(out, ".old"))
        (sibling(out, ".old") / "old").write_text("")
    elif state == "old and new":
        shutil.copytree(out, sibling(out, ".old"))
    else:
        (sibling(out, ".building") / "data").mkdir(parents=True)
    assert recover(out) is not None
    assert snapshot(out) == wanted
    assert recover(out) is None


def test_a_session_that_goes_on_after_a_swap_was_cut_short_knows_every_episode(tmp_path):
    out = tmp_path / "walk"
    with staged(out, [0, 1], 6).lock():
        assemble(out)
    staging = staged(out, [2], 6)
    shutil.copytree(out, sibling(out, ".building"))
    out.rename(sibling(out, ".old"))
    with staging.lock():
        staging.begin(SESSION)
        assert saved_walk_indices(out) == {0, 1, 2}
        assert assemble(out).walk_indices == (0, 1, 2)
