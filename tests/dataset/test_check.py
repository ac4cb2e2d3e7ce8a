"""Whole datasets with one fault each; what one room checks in detail is tested beside that room."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from so101walk.dataset.check import check
from so101walk.errors import DatasetError

from . import planted
from .test_reader import edit_info, truncate


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A sound walk of three episodes."""
    return planted.dataset(tmp_path_factory.mktemp("sound") / "walk")


@pytest.fixture
def walk(made, tmp_path):
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "walk"))


def data_file(root, episode):
    return root / f"data/chunk-000/file-{episode:03d}.parquet"


def rewrite(root, episode, name, change):
    """Change a column of one episode in place."""
    path = data_file(root, episode)
    table = pq.read_table(path)
    at = table.schema.get_field_index(name)
    values = np.array(table[name].to_pylist())
    change(values)
    column = pa.array(values.tolist(), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), column), path)


def one(report, code):
    """The only finding that counts, of this code."""
    counted = [f for f in report.findings if f.severity != "note"]
    assert [f.code for f in counted] == [code]
    assert not report.ok
    return counted[0]


def test_a_sound_walk_is_sound(made):
    looked = []
    report = check(made, progress=lambda done, total: looked.append((done, total)))
    assert report.findings == ()
    assert report.ok
    assert (report.episodes, report.frames) == (3, 360)
    assert report.walk["verdict"] == "isotropic walk"
    assert report.timing["measured"] is True
    assert looked[-1] == (360, 360)
    found = report.to_dict()
    assert list(found) == ["ok", "episodes", "frames", "findings", "walk", "timing"]
    json.dumps(found, allow_nan=False)


def test_nothing_is_written(walk):
    before = {p: p.read_bytes() for p in walk.rglob("*") if p.is_file()}
    check(walk)
    assert {p: p.read_bytes() for p in walk.rglob("*") if p.is_file()} == before


def test_a_truncated_data_file(walk):
    truncate(data_file(walk, 1))
    finding = one(check(walk), "structure.torn")
    assert (finding.severity, finding.episode) == ("error", 1)
    assert finding.message.startswith("data/chunk-000/file-001.parquet: can't be read, torn or truncated")
    assert f"so101walk repair {walk}" in finding.message


def test_a_truncated_video(walk):
    truncate(walk / "videos/observation.images.front/chunk-000/file-002.mp4")
    finding = one(check(walk), "structure.torn")
    assert (finding.severity, finding.episode) == ("error", 2)
    assert "file-002.mp4: can't be decoded" in finding.message
    assert check(walk, images=False).ok


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"total_frames": 361}, "total_frames 361; there are 360"),
        ({"total_episodes": 4}, "total_episodes 4; there are 3"),
    ],
)
def test_counters_that_disagree(walk, changes, said):
    edit_info(walk, **changes)
    assert said in one(check(walk), "structure.counter").message


@pytest.mark.parametrize(
    ("name", "at", "value", "code", "said"),
    [
        ("frame_index", 7, 8, "structure.frame_index", "frame_index is 8 in row 7; 7 follows on"),
        ("index", 0, 5, "structure.index", "index is 5 in row 0; 120 follows on"),
        ("timestamp", 30, 1.02, "structure.timestamp", "timestamp is 1.0200 s in row 30; frame_index / fps is 1.0000"),
        ("task_index", 3, 9, "structure.task_index", "task_index 9 is not among the 1 tasks"),
        ("walk.waypoint", 7, 1, "structure.waypoint", "waypoint 1 is flagged as reached in 2 rows"),
    ],
)
def test_numbering_and_times(walk, name, at, value, code, said):
    def change(values):
        values[at] = value

    rewrite(walk, 1, name, change)
    found = {f.code: f for f in check(walk, images=False).findings if f.code.startswith("structure")}
    assert said in found[code].message
    assert found[code].episode == 1


def test_a_value_that_is_not_finite(walk):
    def change(values):
        values[40, 2] = np.nan

    rewrite(walk, 1, "observation.state", change)
    found = {f.code: f for f in check(walk, images=False).findings}
    assert found["structure.not_finite"].message == "observation.state is not finite in 1 rows, first in row 40"


def test_a_file_of_no_episode(walk):
    shutil.copy(data_file(walk, 0), data_file(walk, 7))
    finding = one(check(walk), "structure.stray_file")
    assert finding.message.startswith("data/chunk-000/file-007.parquet belongs to no episode, yet LeRobot reads it")


def edit_stats(root, change):
    path = root / "meta/stats.json"
    stats = json.loads(path.read_text())
    change(stats)
    path.write_text(json.dumps(stats))


def test_missing_statistics(walk):
    edit_stats(walk, lambda s: s.pop("action"))
    assert one(check(walk), "stats.missing").message.startswith("meta/stats.json has no statistics of action")
    (walk / "meta/stats.json").unlink()
    assert one(check(walk), "stats.missing").message.startswith("there is no meta/stats.json")


@pytest.mark.parametrize("key", ["min", "max", "mean", "std"])
def test_wrong_statistics(walk, key):
    def change(stats):
        stats["observation.state"][key][3] += 0.5

    edit_stats(walk, change)
    assert one(check(walk), "stats.wrong").message.startswith(f"stats of observation.state: {key} is [")


def test_wrong_count_and_wrong_colours(walk):
    edit_stats(walk, lambda s: s["action"].update(count=[359]))
    assert "count is 359, there are 360 rows" in one(check(walk), "stats.wrong").message
    edit_stats(walk, lambda s: s["action"].update(count=[360]))
    edit_stats(walk, lambda s: s["observation.images.front"].update(mean=[[[0.5]], [[0.1]], [[0.5]]]))
    assert one(check(walk), "stats.wrong").message.startswith(
        "stats of observation.images.front: mean is [0.5, 0.1, 0.5]"
    )


def test_episodes_without_statistics(walk):
    path = walk / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop([n for n in table.column_names if n.startswith("stats/action/")]), path)
    missing = [f for f in check(walk).findings if f.code == "stats.missing"]
    assert [f.episode for f in missing] == [0, 1, 2]
    assert missing[0].message.startswith("the metadata has no statistics of action")


def freeze(episode, c):
    if episode == 1:
        c["observation.state"][40:100, 2] = c["observation.state"][40, 2]


def repeat(episode, c):
    if episode == 1:
        c["image_of"][51:71] = 51


def compress(episode, c):
    c["sync.wall_ns"] = (np.arange(len(c["action"])) * 45_000_000).astype(int)


def pause(episode, c):
    if episode == 2:
        c["sync.wall_ns"][61:] += 366_666_667


def outside(episode, c):
    if episode == 0:
        c["walk.request"][30:33, 0] = c["action"][30:33, 0] = planted.LIMIT + 3


@pytest.mark.parametrize(
    ("change", "code", "episode", "said"),
    [
        (freeze, "motion.frozen", 1, "elbow_flex reads"),
        (repeat, "images.repeated", 1, "front: rows 51 to 70 show one picture (20 rows)"),
        (compress, "timing.cadence", 0, "compressed by 25.9%"),
        (pause, "timing.gap", 2, "400 ms pass between rows 60 and 61"),
        (outside, "motion.outside_limits", 0, "action of shoulder_pan is 83.0 at row 30"),
    ],
)
def test_what_is_planted_is_found(tmp_path, change, code, episode, said):
    report = check(planted.dataset(tmp_path / "walk", change=change))
    found = [f for f in report.findings if f.code == code]
    assert found
    assert found[0].episode == episode
    assert said in found[0].message
    assert not report.ok
    others = {f.code for f in report.findings if f.code != code and f.severity != "note"}
    assert others <= {"motion.jump"}


def test_a_goal_directed_dataset_of_ours(tmp_path):
    def reach(episode, c):
        phase = np.resize(np.repeat([0, 0.5, 1, 0.5], 6), 120)[:, None] * np.array([1.5, 2, -2, 0.05, 0.0, 2])
        c["walk.z"] = phase * (1 + 0.1 * episode)

    out = planted.dataset(tmp_path / "goal", count=6, change=reach, kind="goal", rho=None)
    report = check(out)
    finding = one(report, "walk.not_isotropic")
    assert report.walk["verdict"] == "not an isotropic walk"
    assert finding.message.startswith("not an isotropic walk (joints: ")
    assert "wrist_flex" in report.walk["joints_at_fault"]
    sound = check(out, walk=False)
    assert sound.ok
    assert sound.walk == {"verdict": "unknown", "why": "not asked for"}


def test_a_dataset_of_stock_lerobot_is_read_and_what_is_not_there_is_unknown(stock):
    report = check(stock)
    assert [(f.code, f.severity) for f in report.findings] == [("walk.unknown", "note")]
    assert report.ok
    assert (report.episodes, report.frames) == (3, 93)
    assert report.timing["cadence_error"] == "unknown"
    assert report.walk["verdict"] == "unknown"


def test_what_is_no_dataset_is_an_error_and_not_a_finding(tmp_path):
    with pytest.raises(DatasetError, match="is not a LeRobot dataset"):
        check(tmp_path)
