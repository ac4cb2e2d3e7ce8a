import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from so101walk.dataset.assemble import assemble
from so101walk.dataset.reader import Dataset
from so101walk.errors import DatasetError
from so101walk.joints import FEATURE_NAMES

from . import stock_dataset
from .walks import CAMERAS, STEP, frames, serial, staged


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset of ours with three episodes of 20, 20 and 20 rows."""
    out = tmp_path_factory.mktemp("ours") / "walk"
    staged(out, [0, 1, 2])
    assemble(out)
    return out


@pytest.fixture
def ours(made, tmp_path):
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "walk"))


def serials(images):
    return [serial(rgb) for rgb in images]


def test_columns_are_what_was_written(made):
    dataset = Dataset.open(made)
    given = list(frames(1, 20))
    read = dataset.columns(["observation.state", "walk.z", "walk.waypoint", "sync.wall_ns"], episode=1)
    assert read["observation.state"].dtype == np.float32
    assert read["sync.wall_ns"].dtype == np.int64
    np.testing.assert_array_equal(read["observation.state"], np.float32([f.state for f in given]))
    np.testing.assert_array_equal(read["walk.z"], np.float32([f.z for f in given]))
    assert read["walk.waypoint"].tolist() == [k // STEP if k % STEP == 0 else -1 for k in range(20)]
    assert read["sync.wall_ns"].tolist() == [f.wall_ns for f in given]
    whole = dataset.columns(["observation.state", "index"])
    assert whole["index"].tolist() == list(range(60))
    np.testing.assert_array_equal(whole["observation.state"][20:40], read["observation.state"])


def test_metadata(made):
    dataset = Dataset.open(made)
    assert (dataset.fps, dataset.frame_count, len(dataset.episodes)) == (30, 60, 3)
    assert dataset.cameras == ("observation.images.front", "observation.images.wrist")
    assert dataset.names("observation.state") == FEATURE_NAMES
    assert dataset.tasks == {0: "Walk."}
    assert dataset.episodes[2].tasks == ("Walk.",)
    assert dataset.meta["policy"]["name"] == "ou"
    assert dataset.robot_type == "so_follower"
    assert dataset.episode_stats()[1]["frame_index"]["max"].tolist() == [19]
    assert dataset.stats["frame_index"]["count"].tolist() == [60]


def test_images_come_in_order_by_camera_and_stride(made):
    dataset = Dataset.open(made)
    assert serials(dataset.frames("front", 2)) == list(range(200, 220))
    assert serials(dataset.frames("observation.images.wrist", 1, stride=7)) == [100, 107, 114]
    first = next(iter(dataset.frames("wrist", 0)))
    assert first.shape == (*CAMERAS["wrist"], 3)
    assert first.dtype == np.uint8


def test_images_at_frame_numbers_in_any_order_with_repeats(made):
    dataset = Dataset.open(made)
    assert serials(dataset.decode_at("front", 1, [19, 3, 3, 0])) == [119, 103, 103, 100]
    assert dataset.decode_at("front", 1, []).shape == (0, *CAMERAS["front"], 3)
    with pytest.raises(DatasetError, match="episode 1 has no frame 20; it has 20"):
        dataset.decode_at("front", 1, [20])
    with pytest.raises(DatasetError, match="no frame -1"):
        dataset.decode_at("front", 1, [-1])


def test_what_does_not_exist_is_named_with_the_nearest(made):
    dataset = Dataset.open(made)
    with pytest.raises(DatasetError, match="no camera 'frnt'; did you mean 'front'"):
        dataset.frames("frnt", 0)
    with pytest.raises(DatasetError, match=r"no column 'walk.zz'; did you mean 'walk.z'"):
        dataset.columns(["walk.zz"])
    with pytest.raises(DatasetError, match="holds images; read them with frames"):
        dataset.columns(["observation.images.front"])
    with pytest.raises(DatasetError, match="no episode 3; it has 3"):
        dataset.columns(["action"], episode=3)


def test_not_a_dataset(tmp_path):
    with pytest.raises(DatasetError, match="nowhere: there is no such dataset folder"):
        Dataset.open(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"is not a LeRobot dataset: it has no meta/info.json$"):
        Dataset.open(tmp_path)
    (tmp_path / "walk.staging").mkdir()
    (tmp_path / "walk").mkdir()
    with pytest.raises(DatasetError, match=r"interrupted: run `so101walk repair .*walk`"):
        Dataset.open(tmp_path / "walk")


def edit_info(root, **changes):
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codebase_version": "v2.1"}, "version v2.1; so101walk reads v3; convert it"),
        ({"codebase_version": "v4.0"}, "version v4.0; so101walk reads v3"),
        ({"fps": None}, "key 'fps' is missing"),
        ({"fps": 0}, "fps is 0; it must be above 0"),
        ({"total_frames": 61}, "says total_frames 61, the episodes' metadata has 60; run `so101walk repair"),
        ({"total_episodes": 2}, "says total_episodes 2"),
    ],
)
def test_an_info_file_that_can_not_be(ours, changes, message):
    edit_info(ours, **changes)
    with pytest.raises(DatasetError, match=message):
        Dataset.open(ours)


def test_counters_and_missing_files_are_left_to_check_when_not_strict(ours):
    edit_info(ours, total_frames=61)
    (ours / "data/chunk-000/file-001.parquet").unlink()
    dataset = Dataset.open(ours, strict=False)
    assert dataset.columns(["index"], episode=2)["index"].tolist() == list(range(40, 60))
    with pytest.raises(DatasetError, match=r"file-001.parquet: the file is missing; run `so101walk repair"):
        dataset.columns(["index"], episode=1)
    edit_info(ours, total_frames=60)
    with pytest.raises(DatasetError, match=r"file-001.parquet: missing, though episode 1 needs it"):
        Dataset.open(ours)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_torn_files_are_named(ours):
    truncate(ours / "data/chunk-000/file-001.parquet")
    truncate(ours / "videos/observation.images.front/chunk-000/file-002.mp4")
    dataset = Dataset.open(ours)
    with pytest.raises(DatasetError, match=r"file-001.parquet: can't be read, torn or truncated.*so101walk repair"):
        dataset.columns(["action"], episode=1)
    with pytest.raises(DatasetError, match=r"file-002.mp4: can't be decoded.*so101walk repair"):
        list(dataset.frames("front", 2))
    assert len(list(dataset.frames("wrist", 2))) == 20


@pytest.mark.parametrize("name", ["meta/info.json", "meta/episodes/chunk-000/file-000.parquet"])
def test_torn_metadata_is_named(ours, name):
    truncate(ours / name)
    with pytest.raises(DatasetError, match=name):
        Dataset.open(ours)


def test_rows_other_than_the_metadata_says(ours):
    path = ours / "data/chunk-000/file-001.parquet"
    pq.write_table(pq.read_table(path).slice(0, 15), path)
    with pytest.raises(DatasetError, match="episode 1 has 15 rows where the metadata says 20"):
        Dataset.open(ours).columns(["action"], episode=1)


def test_stock_episodes_that_share_a_file(stock):
    dataset = Dataset.open(stock)
    assert [e.length for e in dataset.episodes] == list(stock_dataset.LENGTHS)
    assert len({e.data_file for e in dataset.episodes}) == 1
    assert dataset.meta is None
    assert dataset.tasks == {0: "task 0", 1: "task 1"}
    start = 0
    for e in dataset.episodes:
        numbers = list(range(start, start + e.length))
        assert serials(dataset.frames("film", e.index)) == numbers
        assert serials(dataset.frames("stills", e.index)) == numbers
        assert serials(dataset.decode_at("film", e.index, [e.length - 1, 0])) == [numbers[-1], numbers[0]]
        rows = dataset.columns(["grid", "index"], e.index)
        assert rows["grid"].shape == (e.length, 2, 3)
        assert rows["grid"][:, 1, 2].tolist() == numbers == rows["index"].tolist()
        start += e.length


def test_pixels_and_values_equal_those_that_stock_lerobot_reads(stock):
    dataset, read = Dataset.open(stock), np.load(stock.with_suffix(".npz"))
    state = dataset.columns(["observation.state"])["observation.state"]
    np.testing.assert_array_equal(state[list(stock_dataset.ROWS)], read["state"])
    for k, row in enumerate(stock_dataset.ROWS):
        e = next(e for e in dataset.episodes if e.from_index <= row < e.to_index)
        (rgb,) = dataset.decode_at("film", e.index, [row - e.from_index])
        np.testing.assert_array_equal(rgb, read["film"][k].transpose(1, 2, 0))


def test_a_short_process_that_read_a_dataset_ends_cleanly(made):
    code = f"from so101walk.dataset.reader import Dataset; Dataset.open({str(made)!r}).columns(['action'], 1)"
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_reader_needs_neither_lerobot_nor_torch(made):
    code = (
        f"import sys; from so101walk.dataset.reader import Dataset; d = Dataset.open({str(made)!r}); "
        "next(iter(d.frames('front', 0))); d.columns(['action']); "
        "print([m for m in ('torch', 'lerobot', 'pandas', 'huggingface_hub') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
