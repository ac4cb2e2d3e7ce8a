import json
import random
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from so101walk.cli.repair import command
from so101walk.dataset.assemble import assemble
from so101walk.dataset.raw import RawLog, write_raw
from so101walk.dataset.repair import repair
from so101walk.dataset.schema import EPISODES_TABLE, INFO, META, STATS, TASKS, data_path, raw_path, video_path
from so101walk.dataset.staging import Staging, saved_walk_indices, sibling
from so101walk.dataset.tables import read_parquet
from so101walk.dataset.video import VideoWriter
from so101walk.errors import DatasetError

from . import walks
from .walks import CAMERAS, save, snapshot, staged


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A dataset of walk indices 0 to 3, to be copied."""
    out = tmp_path_factory.mktemp("whole") / "walk"
    with staged(out, [0, 1, 2, 3], 12).lock():
        assemble(out)
    return out


@pytest.fixture
def out(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "walk")
    return tmp_path / "walk"


def cut(path, share=0.6):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def walk_indices(out):
    return [e["walk_index"] for e in json.loads((out / META).read_text())["episodes"]]


def test_a_whole_dataset_is_left_as_it_is(out):
    before = snapshot(out)
    report = repair(out)
    assert (report.changed, report.episodes, report.frames) == (False, 4, 48)
    assert snapshot(out) == before


def shorten_video(path):
    size = CAMERAS[path.parent.parent.name.removeprefix("observation.images.")]
    video = VideoWriter(path, walks.FPS, *size)
    for k in range(11):
        video.add(walks.image(k, size))
    video.finish()


def renumber(path):
    """Another column order of the frames: frame_index no longer counts from 0."""
    table = pq.read_table(path)
    at = table.schema.get_field_index("frame_index")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(np.arange(12)[::-1])), path)


DAMAGE = {
    "truncated parquet": (data_path(2), cut, "file-002.parquet is torn"),
    "empty parquet": (data_path(2), lambda p: p.write_bytes(b""), "file-002.parquet is torn"),
    "rows out of order": (data_path(2), renumber, "frame_index"),
    "missing rows": (data_path(2), lambda p: p.unlink(), "file-002.parquet is missing"),
    "truncated video": (video_path("wrist", 2), cut, "file-002.mp4 is torn"),
    "video cut by a byte": (video_path("front", 2), lambda p: cut(p, 0.9999), "file-002.mp4 is torn"),
    "missing video": (video_path("front", 2), lambda p: p.unlink(), "file-002.mp4 is missing"),
    "video with a frame less": (video_path("wrist", 2), shorten_video, "11 decodable frames for 12 rows"),
    "truncated log": (raw_path(2), cut, "episode-000002.h5 is torn"),
    "missing log": (raw_path(2), lambda p: p.unlink(), "episode-000002.h5 is missing"),
    "a strange log": (raw_path(2), lambda p: write_raw(p, RawLog.of([])), "does not tell which episode"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_torn_episode_is_set_aside_and_the_others_are_numbered_anew(out, damage):
    name, hurt, told = DAMAGE[damage]
    hurt(out / name)
    left = {p.relative_to(out).as_posix(): p.read_bytes() for p in episode_files(out, 2)}
    report = repair(out)
    assert (report.episodes, report.frames, walk_indices(out)) == (3, 36, [0, 1, 3])
    (gone,) = report.quarantined
    assert told in gone.reason
    assert told in (gone.path / "reason.txt").read_text()
    kept = {p.relative_to(gone.path).as_posix(): p.read_bytes() for p in gone.path.rglob("*") if p.is_file()}
    assert {k: v for k, v in kept.items() if k != "reason.txt"} == left
    after = snapshot(out)
    second = repair(out)
    assert (second.changed, second.episodes) == (False, 3)
    assert snapshot(out) == after


def episode_files(out, episode):
    names = [data_path(episode), raw_path(episode), *(video_path(c, episode) for c in CAMERAS)]
    return [out / n for n in names if (out / n).exists()]


def edit(name, change):
    def hurt(out):
        content = json.loads((out / name).read_text())
        change(content)
        (out / name).write_text(json.dumps(content))

    return hurt


def drop_last_row(out):
    table = pq.read_table(out / EPISODES_TABLE)
    pq.write_table(table.slice(0, 3), out / EPISODES_TABLE)


def shift_index(out):
    table = pq.read_table(out / data_path(1))
    at = table.schema.get_field_index("index")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(np.arange(12))), out / data_path(1))


METADATA_DAMAGE = {
    "a counter": edit(INFO, lambda c: c.update(total_frames=47)),
    "another rate": edit(INFO, lambda c: c.update(fps=25)),
    "another size": edit(INFO, lambda c: c["features"]["observation.images.front"].update(shape=[64, 64, 3])),
    "no info": lambda out: (out / INFO).unlink(),
    "half an info": lambda out: cut(out / INFO),
    "wrong statistics": edit(STATS, lambda c: c["action"].update(mean=[0.0] * 6)),
    "no statistics": lambda out: (out / STATS).unlink(),
    "half a table of episodes": lambda out: cut(out / EPISODES_TABLE),
    "an episode less": drop_last_row,
    "no tasks": lambda out: (out / TASKS).unlink(),
    "records out of order": edit(META, lambda c: c["episodes"].reverse()),
    "no own metadata": lambda out: (out / META).unlink(),
    "half of it": lambda out: cut(out / META),
    "rows numbered wrongly": shift_index,
    "no meta at all": lambda out: shutil.rmtree(out / "meta"),
}


@pytest.mark.parametrize("damage", METADATA_DAMAGE)
def test_metadata_is_rebuilt_from_the_files(out, whole, damage):
    METADATA_DAMAGE[damage](out)
    report = repair(out)
    assert (report.episodes, report.quarantined, bool(report.faults)) == (4, (), True)
    assert json.loads((out / META).read_text()) == json.loads((whole / META).read_text())
    assert json.loads((out / INFO).read_text()) == json.loads((whole / INFO).read_text())
    for k in range(4):
        assert (out / data_path(k)).read_bytes() == (whole / data_path(k)).read_bytes()
    stats, wanted = (json.loads((d / STATS).read_text()) for d in (out, whole))
    for name in wanted:
        within = 0.02 if name.startswith("observation.images") else 1e-9  # images may be those of the decoded video
        np.testing.assert_allclose(stats[name]["mean"], wanted[name]["mean"], atol=within, err_msg=name)
    after = snapshot(out)
    assert repair(out).changed is False
    assert snapshot(out) == after


def test_several_torn_episodes_and_torn_metadata_at_once(out):
    cut(out / data_path(0))
    cut(out / video_path("front", 3))
    cut(out / INFO)
    report = repair(out)
    assert (report.episodes, walk_indices(out), len(report.quarantined)) == (2, [1, 2], 2)
    assert repair(out).changed is False


def test_with_no_whole_episode_left_the_dataset_itself_is_set_aside(out):
    for k in range(4):
        cut(out / data_path(k))
    report = repair(out)
    assert (report.episodes, out.exists()) == (0, False)
    assert len(list(sibling(out, ".quarantine").iterdir())) == 5


def test_a_walk_index_that_is_there_twice_is_set_aside_once(out):
    for name in (data_path, raw_path, lambda k: video_path("front", k), lambda k: video_path("wrist", k)):
        shutil.copy(out / name(1), out / name(4))
    report = repair(out)
    assert (report.episodes, walk_indices(out)) == (4, [0, 1, 2, 3])
    assert "walk index 1 is that of episode 1 too" in report.quarantined[0].reason


def test_saved_episodes_are_added_and_torn_ones_are_not(out):
    staging = staged(out, [4, 5, 6], 6)
    cut(staging.saved()[5] / data_path(0))
    (staging.saved()[6] / INFO).unlink()
    (staging.tmp / "half").mkdir()
    report = repair(out)
    assert (report.episodes, report.added, walk_indices(out)) == (5, 1, [0, 1, 2, 3, 4])
    assert sorted(q.name for q in report.quarantined) == ["episode-000005", "episode-000006", "half"]
    assert not staging.root.exists()
    assert repair(out).changed is False


def test_a_torn_episode_that_waits_whole_in_staging_is_taken_from_there(out):
    """The crash came between the new dataset and the removal of the staging folder; then the disk tore a file."""
    staging = staged(out, [], 12)
    with staging.lock():
        save(staging, 2, 12)
    cut(out / data_path(2))
    report = repair(out)
    assert (report.episodes, walk_indices(out)) == (4, [0, 1, 2, 3])


def test_a_session_at_work_is_not_disturbed(out):
    with Staging(out).lock():
        before = snapshot(out)
        with pytest.raises(DatasetError, match="another so101walk"):
            repair(out)
        assert snapshot(out) == before


def test_other_datasets_are_refused_and_left_as_they_are(tmp_path, out):
    (out / META).unlink()
    shutil.rmtree(out / "raw")
    before = snapshot(out)
    with pytest.raises(DatasetError, match="was not made by so101walk"):
        repair(out)
    assert snapshot(out) == before


def test_a_file_of_several_episodes_means_that_somebody_else_wrote_it(out):
    one, two = (pq.read_table(out / data_path(k)) for k in (0, 1))
    pq.write_table(pa.concat_tables([one, two]), out / data_path(4))
    before = snapshot(out)
    with pytest.raises(DatasetError, match=re.escape(f"{out / data_path(4)} holds several episodes")):
        repair(out)
    assert snapshot(out) == before


@pytest.mark.parametrize("kind", ["missing", "empty folder", "file"])
def test_a_path_that_is_no_dataset_is_told_in_a_line(tmp_path, kind):
    path = tmp_path / "walk"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("")
    with pytest.raises(DatasetError, match="is not a dataset") as caught:
        repair(path)
    assert "\n" not in str(caught.value)
    assert not sibling(path, ".staging").exists()


def test_the_command_tells_what_it_did_and_json_is_one_object(out):
    cut(out / video_path("front", 1))
    told = CliRunner().invoke(command, [str(out)])
    assert told.exit_code == 0
    assert "episode-000001 was moved to" in told.stdout
    assert told.stdout.strip().endswith("3 whole episodes, 36 frames")
    again = CliRunner().invoke(command, [str(out), "--json"])
    content = json.loads(again.stdout)
    assert (content["changed"], content["episodes"], content["quarantined"]) == (False, 3, [])
    assert "nothing to do" in CliRunner().invoke(command, [str(out)]).stdout


@pytest.mark.parametrize("seed", range(3))
def test_a_session_killed_at_any_moment_keeps_what_it_said_was_saved(tmp_path, seed):
    """SIGKILL at a random moment after the second save; then repair, and a session that goes on."""
    out = tmp_path / "walk"
    child = subprocess.Popen(
        [sys.executable, walks.__file__, "walk", str(out), "60", "40"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = [child.stdout.readline(), child.stdout.readline()]
    time.sleep(random.Random(seed).uniform(0.0, 0.6))
    child.kill()
    said += child.stdout.readlines()
    child.wait()
    saved = [int(line.split()[1]) for line in said]
    report = repair(out)
    assert report.episodes in (len(saved), len(saved) + 1)  # it may have died between the save and the word
    assert walk_indices(out)[: len(saved)] == saved
    assert repair(out).changed is False
    following = max(saved_walk_indices(out)) + 1
    with staged(out, [following], 6).lock():
        assert assemble(out).walk_indices == tuple(range(following + 1))
    assert len(read_parquet(out / data_path(following))) == 6
