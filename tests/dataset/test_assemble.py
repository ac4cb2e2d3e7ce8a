import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from so101walk.dataset import assemble as assembling
from so101walk.dataset.assemble import assemble
from so101walk.dataset.raw import read_raw_attrs
from so101walk.dataset.repair import repair
from so101walk.dataset.schema import EPISODES_TABLE, INFO, META, STATS, data_path, raw_path, video_path
from so101walk.dataset.staging import Staging, sibling
from so101walk.dataset.tables import column, read_parquet
from so101walk.dataset.video import decode
from so101walk.errors import DatasetError

from . import walks
from .walks import CAMERAS, SESSION, frames, serial, snapshot, staged


def assembled(out, walk_indices, count=12):
    staging = staged(out, walk_indices, count)
    with staging.lock():
        return assemble(out)


def test_episodes_come_in_order_of_the_walk_with_their_own_images(tmp_path):
    report = assembled(tmp_path / "walk", [4, 0, 2])
    assert (report.episodes, report.frames, report.added, report.walk_indices) == (3, 36, 3, (0, 2, 4))
    for k, walk_index in enumerate((0, 2, 4)):
        table = read_parquet(tmp_path / "walk" / data_path(k))
        assert set(column(table, "episode_index")) == {k}
        np.testing.assert_array_equal(column(table, "index"), np.arange(12 * k, 12 * k + 12))
        wanted = np.array([f.state for f in frames(walk_index, 12)]).astype(np.float32)
        np.testing.assert_array_equal(column(table, "observation.state"), wanted)
        for camera in CAMERAS:
            shown = [serial(rgb) for rgb in decode(tmp_path / "walk" / video_path(camera, k))]
            assert shown == list(range(100 * walk_index, 100 * walk_index + 12))
        assert read_raw_attrs(tmp_path / "walk" / raw_path(k))["episode"]["walk_index"] == walk_index


def test_the_metadata_counts_what_is_there(tmp_path):
    out = tmp_path / "walk"
    assembled(out, [1, 3])
    info, own = json.loads((out / INFO).read_text()), json.loads((out / META).read_text())
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (2, 24, 1)
    assert [(e["episode_index"], e["walk_index"], e["frames"]) for e in own["episodes"]] == [(0, 1, 12), (1, 3, 12)]
    assert {k: own[k] for k in SESSION} == SESSION
    stats = json.loads((out / STATS).read_text())
    states = np.concatenate([[f.state for f in frames(w, 12)] for w in (1, 3)]).astype(np.float32)
    np.testing.assert_allclose(stats["observation.state"]["mean"], states.mean(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(stats["observation.state"]["std"], states.std(axis=0), rtol=1e-5)
    assert stats["index"]["max"] == [23.0]
    rows = read_parquet(out / EPISODES_TABLE).to_pylist()
    assert [(r["dataset_from_index"], r["dataset_to_index"]) for r in rows] == [(0, 12), (12, 24)]
    assert [r["stats/episode_index/max"] for r in rows] == [[0.0], [1.0]]
    assert "LeRobot" in (out / "README.md").read_text()


def test_nothing_is_left_beside_the_dataset(tmp_path):
    assembled(tmp_path / "walk", [0])
    assert [p.name for p in tmp_path.iterdir()] == ["walk"]


def test_episodes_are_added_to_a_dataset_that_is_there(tmp_path):
    out = tmp_path / "walk"
    assembled(out, [0, 3])
    first = (out / data_path(0)).read_bytes()
    report = assembled(out, [1], 7)
    assert (report.walk_indices, report.added, report.frames) == ((0, 1, 3), 1, 31)
    assert (out / data_path(0)).read_bytes() == first
    np.testing.assert_array_equal(column(read_parquet(out / data_path(2)), "index"), np.arange(19, 31))


@pytest.mark.parametrize("orders", [[[2, 0, 1]], [[1], [2, 0]], [[0], [1], [2]]])
def test_whatever_the_order_of_saving_the_bytes_are_the_same(tmp_path, orders):
    for walk_indices in orders:
        assembled(tmp_path / "walk", walk_indices)
    assembled(tmp_path / "at_once" / "walk", [0, 1, 2])
    assert snapshot(tmp_path / "walk") == snapshot(tmp_path / "at_once" / "walk")


def test_what_a_user_keeps_in_the_dataset_is_carried_over(tmp_path):
    out = tmp_path / "walk"
    assembled(out, [0])
    (out / "notes").mkdir()
    for name in ("sheet.png", "notes/day.txt", "meta/mine.json", "raw/why.txt", "README.md"):
        (out / name).write_text(name)
    assembled(out, [1])
    for name in ("sheet.png", "notes/day.txt", "meta/mine.json", "raw/why.txt", "README.md"):
        assert (out / name).read_text() == name


def test_a_copy_does_where_the_file_system_has_no_links(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert assembled(tmp_path / "walk", [0, 1]).episodes == 2
    assert repair(tmp_path / "walk").changed is False


def test_a_thousand_files_fill_a_chunk(tmp_path, monkeypatch):
    """With chunks of two files the third episode lies in the second chunk, and says so."""
    for module in ("schema", "tables"):
        monkeypatch.setattr(f"so101walk.dataset.{module}.CHUNK", 2)
    out = tmp_path / "walk"
    assembled(out, [0, 1, 2], 6)
    assert (out / "data/chunk-001/file-000.parquet").is_file()
    row = read_parquet(out / EPISODES_TABLE).to_pylist()[2]
    cells = ("data/chunk_index", "data/file_index", "videos/observation.images.front/chunk_index")
    assert [row[c] for c in cells] == [1, 0, 1]


def test_without_episodes_there_is_nothing_to_assemble(tmp_path):
    staging = staged(tmp_path / "walk", [])
    with staging.lock(), pytest.raises(DatasetError, match="no episode is saved"):
        assemble(tmp_path / "walk")
    assert not (tmp_path / "walk").exists()


def test_episodes_of_another_kind_are_refused(tmp_path):
    out = tmp_path / "walk"
    staging = staged(out, [0])
    info = staging.saved()[0] / INFO
    staged(out, [1])
    info.write_text(info.read_text().replace('"fps": 30', '"fps": 25'))
    with staging.lock(), pytest.raises(DatasetError, match="differ in fps"):
        assemble(out)
    assert not out.exists()
    assert not sibling(out, ".building").exists()


def test_someone_elses_dataset_is_left_alone(tmp_path):
    out = tmp_path / "walk"
    (out / "meta").mkdir(parents=True)
    (out / INFO).write_text("{}")
    staged(tmp_path / "other", [0])
    shutil.move(tmp_path / "other.staging", tmp_path / "walk.staging")
    before = snapshot(out)
    with pytest.raises(DatasetError, match="was not made by so101walk"):
        assemble(out)
    assert snapshot(out) == before


@pytest.mark.parametrize("lost", [data_path(0), video_path("front", 1), raw_path(0)])
def test_a_file_that_is_gone_is_named_and_the_dataset_stays(tmp_path, lost):
    out = tmp_path / "walk"
    assembled(out, [1, 2])
    (out / lost).unlink()
    staging = staged(out, [0])
    before = snapshot(out)
    with staging.lock(), pytest.raises(DatasetError, match="is missing"):
        assemble(out)
    assert {k: v for k, v in snapshot(out).items() if not k.endswith("lock")} == {
        k: v for k, v in before.items() if not k.endswith("lock")
    }


def test_a_file_that_the_metadata_does_not_know_is_told(tmp_path):
    out = tmp_path / "walk"
    assembled(out, [0])
    shutil.copy(out / data_path(0), out / data_path(5))
    with pytest.raises(DatasetError, match=r"data/chunk-000/file-005.parquet belongs to no episode"):
        assemble(out)


def test_a_disk_that_fills_up_while_assembling_leaves_the_dataset(tmp_path, monkeypatch):
    out = tmp_path / "walk"
    assembled(out, [0])
    staging = staged(out, [1])
    before = snapshot(out)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(assembling, "link_or_copy", full)
    with staging.lock(), pytest.raises(DatasetError, match=r"the disk is full .* saved episodes are whole"):
        assemble(out)
    assert snapshot(out) == before
    assert not sibling(out, ".building").exists()


def test_progress_is_told(tmp_path):
    staging, told = staged(tmp_path / "walk", [0, 1]), []
    with staging.lock():
        assemble(tmp_path / "walk", lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def die(out: Path, work: str) -> list[Path]:
    """Run ``work`` on copies of ``out``, each killed at another file operation; the copies, in that order."""
    done = subprocess.run(
        [sys.executable, walks.__file__, "die", str(out), work], capture_output=True, text=True, timeout=250, check=True
    )
    return [out.with_name(name) for name in done.stdout.split()]


def test_a_kill_at_any_file_operation_of_an_assembly_loses_nothing(tmp_path):
    """The dataset of one episode is there; two wait in staging. After each kill, repair gives the same three."""
    out = tmp_path / "walk"
    assembled(out, [1], 6)
    staged(out, [0, 2], 6)
    shutil.copytree(out, tmp_path / "reference" / "walk")
    shutil.copytree(sibling(out, ".staging"), tmp_path / "reference" / "walk.staging")
    reference = tmp_path / "reference" / "walk"
    with Staging(reference).lock():
        assemble(reference)
    wanted = {k.partition("/")[2]: v for k, v in snapshot(reference).items() if not k.endswith("README.md")}
    copies = die(out, "assemble")
    assert len(copies) > 15
    for copy in copies:
        assert copy.exists() or sibling(copy, ".old").exists(), f"{copy.name}: the old dataset is gone"
        report = repair(copy)
        assert (report.episodes, report.quarantined) == (3, ()), copy.name
        left = {k.partition("/")[2]: v for k, v in snapshot(copy).items() if not k.endswith("README.md")}
        assert left == wanted, copy.name
    for copy in copies[::5]:
        assert repair(copy).changed is False, copy.name


def test_a_kill_at_any_file_operation_of_a_save_spares_the_earlier_episodes(tmp_path):
    out = tmp_path / "walk"
    staged(out, [0, 1], 6)
    earlier = {k.removeprefix("walk.staging/"): v for k, v in snapshot(out).items() if "/episodes/" in k}
    copies = die(out, "save")
    assert len(copies) > 5
    saved_third = 0
    for copy in copies:
        staging = Staging(copy)
        assert list(staging.saved())[:2] == [0, 1], copy.name
        now = {k.partition("/")[2]: v for k, v in snapshot(copy).items() if "/episodes/episode-00000" in k}
        assert {k: v for k, v in now.items() if k in earlier} == earlier, copy.name
        saved_third += 2 in staging.saved()
        report = repair(copy)
        assert report.episodes == (3 if report.added == 3 else 2), copy.name
    assert saved_third >= 1
