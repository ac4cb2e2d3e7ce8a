import dataclasses
import json
import os
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest

from so101walk.dataset.raw import read_raw
from so101walk.dataset.schema import data_path, features, video_path
from so101walk.dataset.staging import RECORD, Staging
from so101walk.dataset.tables import column, read_parquet
from so101walk.dataset.verify import EpisodeFiles
from so101walk.dataset.video import decode
from so101walk.errors import DatasetError

from .walks import CAMERAS, FPS, SESSION, STEP, frames, raw_log, save, serial, snapshot, staged, writer


@pytest.fixture
def staging(tmp_path):
    return staged(tmp_path / "walk", [])


def add_all(episode, count=20, change=None):
    for k, frame in enumerate(frames(0, count)):
        episode.add(change(k, frame) if change else frame)


def test_what_was_given_is_what_the_files_hold(staging):
    saved = save(staging, 0)
    files = EpisodeFiles.in_staging(saved.path, CAMERAS)
    table = read_parquet(files.data)
    given = list(frames(0, 20))
    for name, feature in features(CAMERAS).items():
        if feature["dtype"] == "video" or name not in given[0].row():
            continue
        wanted = np.array([f.row()[name] for f in given]).astype(feature["dtype"])
        np.testing.assert_array_equal(column(table, name), wanted, err_msg=name)
    assert column(table, "timestamp") == pytest.approx(np.arange(20) / FPS)
    for camera, path in files.videos.items():
        assert [serial(rgb) for rgb in decode(path)] == list(range(20)), camera
    assert read_raw(files.raw).attrs["seed"] == 7
    assert (saved.frames, saved.walk_index, saved.record["acceptance"]) == (20, 0, 0.98)
    assert json.loads((saved.path / RECORD).read_text()) == saved.record


def test_nothing_is_left_in_tmp_after_a_save(staging):
    save(staging, 0)
    assert list(staging.tmp.iterdir()) == []


def test_a_walk_index_is_saved_once(staging):
    save(staging, 3)
    with pytest.raises(DatasetError, match="episode 3 of the walk was saved before"):
        writer(staging, 3)


def test_abandoning_leaves_no_file_and_no_thread(staging, tmp_path):
    before = (snapshot(tmp_path / "walk"), threading.active_count())
    episode = writer(staging, 0)
    add_all(episode)
    episode.abandon("Ctrl-C")
    episode.abandon("again")
    assert (snapshot(tmp_path / "walk"), threading.active_count()) == before
    assert list(staging.tmp.iterdir()) == []


def test_an_exception_inside_drops_the_episode(staging):
    def walk():
        with writer(staging, 0) as episode:
            add_all(episode, 7)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        walk()
    assert list(staging.tmp.iterdir()) == []
    assert staging.saved() == {}


def spoil(name, row, value):
    return lambda k, frame: dataclasses.replace(frame, **{name: value}) if k == row else frame


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (spoil("state", 4, np.full(6, np.nan)), "observation.state holds a value that is not finite at row 4"),
        (spoil("z", 9, np.array([0, 0, np.inf, 0, 0, 0])), "walk.z holds a value that is not finite at row 9"),
        (spoil("waypoint", 10, -1), "walk.waypoint goes from 1 to 3"),
        (spoil("waypoint", 11, 2), "walk.waypoint goes from 2 to 2"),
        (spoil("waypoint", 2, -5), "walk.waypoint is -5"),
        (spoil("waypoint", 15, -1), "3 waypoints are flagged but 4 were reached"),
    ],
)
def test_a_bad_episode_is_set_aside_with_its_reason(staging, change, told):
    save(staging, 1)
    episode = writer(staging, 0)
    add_all(episode, change=change)
    with pytest.raises(DatasetError, match=told):
        episode.finish({}, raw_log(), waypoints=20 // STEP)
    (aside,) = staging.aside.iterdir()
    assert told in (aside / "reason.txt").read_text()
    assert (aside / data_path(0)).is_file()
    assert list(staging.saved()) == [1]
    assert list(staging.tmp.iterdir()) == []


def test_a_second_failure_of_the_same_attempt_is_kept_beside_the_first(staging):
    for _ in range(2):
        episode = writer(staging, 0)
        add_all(episode)
        episode.set_aside("a camera stalled", {}, raw_log())
    assert len(list(staging.aside.iterdir())) == 2


def test_a_frame_that_the_video_lacks_fails_the_episode(staging):
    """An encoder that loses an image must be found out: rows and images would slide apart."""
    episode = writer(staging, 0)
    add_all(episode, 19)
    video = episode._videos["wrist"]
    video.add = lambda rgb: None
    episode.add(list(frames(0, 20))[-1])
    with pytest.raises(DatasetError, match="19 decodable frames for 20 rows"):
        episode.finish({}, raw_log())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: dataclasses.replace(f, images={"front": f.images["front"]}), "wants front, wrist"),
        (lambda f: dataclasses.replace(f, images={**f.images, "wrist": f.images["front"]}), "camera 'wrist'"),
        (lambda f: dataclasses.replace(f, images={**f.images, "wrist": f.images["wrist"] / 1.0}), "uint8"),
        (lambda f: dataclasses.replace(f, state=np.zeros(5)), r"observation.state has shape \(5,\)"),
    ],
)
def test_a_frame_of_the_wrong_shape_is_refused_at_once(staging, change, told):
    (frame,) = frames(0, 1)
    with writer(staging, 0) as episode, pytest.raises(DatasetError, match=told):
        episode.add(change(frame))


def test_an_episode_without_frames_is_refused_and_dropped(staging):
    with pytest.raises(DatasetError, match="no frames"):
        writer(staging, 0).finish({}, raw_log())
    assert list(staging.tmp.iterdir()) == []


def test_what_json_cannot_hold_is_kept_as_null(staging):
    with writer(staging, 0) as episode:
        add_all(episode)
        saved = episode.finish({"rate": float("nan"), "ages": np.array([1, 2]), "walk_index": 99}, raw_log())
    assert (saved.record["rate"], saved.record["ages"], saved.record["walk_index"]) == (None, [1, 2], 0)


def test_the_same_frames_give_the_same_bytes(tmp_path):
    one, other = (save(staged(tmp_path / name, []), 0).path for name in ("a", "b"))
    for name in (data_path(0), video_path("front", 0), video_path("wrist", 0)):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


NOISY = """
import sys
import numpy as np
sys.path.insert(0, {here!r})
from walks import CAMERAS, SESSION, Staging, frames, raw_log, save, writer
import dataclasses, resource, signal
staging = Staging({out!r})
rng = np.random.default_rng(0)
with staging.lock():
    staging.begin(SESSION)
    save(staging, 0, 8)
    {limit}
    with writer(staging, 1) as episode:
        for frame in frames(1, 400):
            noise = {{c: rng.integers(0, 256, (*s, 3), dtype=np.uint8) for c, s in CAMERAS.items()}}
            episode.add(dataclasses.replace(frame, images=noise))
        episode.finish({{}}, raw_log())
"""


def run_noisy(out, limit):
    code = NOISY.format(here=os.path.dirname(__file__), out=str(out), limit=limit)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def may_mount(folder):
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    return done.returncode == 0


def test_a_disk_that_fills_up_during_an_episode_is_told_and_spares_the_saved_ones(tmp_path):
    """A real full disk where we may mount a small one, else a real limit on the size of a file."""
    small = tmp_path / "small"
    mounted = may_mount(small)
    try:
        limit = "pass" if mounted else "resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))"
        done = run_noisy(small / "walk", limit)
        message = done.stderr.strip().splitlines()[-1]
        assert "DatasetError" in message
        assert ".mp4: the disk is full (" in message or not mounted
        assert "--resume; saved episodes are whole" in message
        staging = Staging(small / "walk")
        assert list(staging.saved()) == [0]
        assert list(staging.tmp.iterdir()) == []
        assert len(read_parquet(staging.saved()[0] / data_path(0))) == 8
    finally:
        if mounted:
            subprocess.run(["umount", str(small)], check=True)


def test_a_limit_on_file_size_is_told_with_the_file(tmp_path):
    done = run_noisy(tmp_path / "walk", "resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))")
    message = done.stderr.strip().splitlines()[-1]
    assert "file-000.mp4: the file is larger than this user may write" in message
    assert list(Staging(tmp_path / "walk").saved()) == [0]


def test_a_full_disk_while_the_tables_are_written_drops_the_episode(staging, tmp_path):
    """The limit lets the videos pass (they are written by then) but not the log."""
    episode = writer(staging, 0)
    add_all(episode)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for video in episode._videos.values():
        video.finish()
        video.finish = lambda stats=video._stats: stats
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    try:
        with pytest.raises(DatasetError, match="larger than this user may write"):
            episode.finish({}, raw_log())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(staging.tmp.iterdir()) == []
    assert staging.saved() == {}


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    staging = Staging(tmp_path / "file" / "walk")
    with pytest.raises(DatasetError, match=r"walk\.staging can't be written: Not a directory"), staging.lock():
        staging.begin(SESSION)
