"""Stock LeRobot, unmodified, in a process of its own, through its public API alone, reads what we wrote.

One such process does all the loading (importing LeRobot takes about 10 s): it loads a dataset that was assembled, one
that was killed in the middle and repaired, and an episode still in staging; it iterates them in a DataLoader with
``delta_timestamps``; and it records a dataset of the same frames itself, for us to compare the two file by file.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from so101walk.dataset.assemble import assemble
from so101walk.dataset.repair import repair
from so101walk.dataset.schema import EPISODES_TABLE, INFO, LEROBOT_COLUMNS, STATS, TASKS, data_path, features

from ..dataset import walks

EDIT = """
import sys
from lerobot.scripts.lerobot_edit_dataset import main
root = sys.argv[1]
common = ["lerobot-edit-dataset", "--repo_id", "local/walk", "--root", f"{root}/walk"]
sys.argv = [*common, "--new_repo_id", "local/less", "--new_root", f"{root}/less",
            "--operation.type", "delete_episodes", "--operation.episode_indices", "[1]"]
main()
sys.argv = [*common, "--new_root", f"{root}/parts", "--operation.type", "split",
            "--operation.splits", '{"train": [0, 2], "val": [1]}']
main()
"""


def run(home: Path, *arguments: str) -> str:
    """Run Python in its own process, with no network to fall through to and a home of its own."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Datasets: ``walk`` assembled, ``killed`` in its sixth episode and repaired, ``staged`` one episode by itself."""
    root = tmp_path_factory.mktemp("stock")
    with walks.staged(root / "walk", [2, 0, 1]).lock():
        assemble(root / "walk")
    script = [sys.executable, walks.__file__, "hang", str(root / "killed"), "6", "60"]
    child = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert [child.stdout.readline().strip() for _ in range(6)] == [*(f"saved {k}" for k in range(5)), "halfway"]
    child.kill()
    child.wait()
    report = repair(root / "killed")
    assert (report.episodes, report.added) == (5, 5)
    assert [q.name.startswith("episode-000005") for q in report.quarantined] == [True]
    walks.staged(root / "alone", [3])
    (root / "alone.staging" / "episodes" / "episode-000003").rename(root / "staged")
    ours = {name: f for name, f in features(walks.CAMERAS).items() if name not in LEROBOT_COLUMNS}
    (root / "features.json").write_text(json.dumps(ours))
    return root


@pytest.fixture(scope="module")
def loaded(root):
    return json.loads(
        run(root / "home", str(Path(__file__).with_name("read_with_lerobot.py")), str(root)).splitlines()[-1]
    )


def serials(walk_indices, count):
    return [100 * w + k for w in walk_indices for k in range(count)]


@pytest.mark.parametrize(
    ("name", "walk_indices", "count"), [("walk", [0, 1, 2], 20), ("killed", [0, 1, 2, 3, 4], 60), ("staged", [3], 20)]
)
def test_it_loads_with_every_image_at_its_row(loaded, name, walk_indices, count):
    found = loaded[name]
    assert (found["frames"], found["episodes"]) == (count * len(walk_indices), len(walk_indices))
    assert found["serials"] == serials(walk_indices, count)
    assert found["before"] == [100 * w + max(k - 2, 0) for w in walk_indices for k in range(count)]
    assert (found["fps"], found["robot_type"], found["task"]) == (30, "so_follower", "Walk.")
    assert found["last_wrist"] == found["serials"][-1]
    *_, last = walks.frames(walk_indices[-1], count)
    np.testing.assert_array_equal(np.float32(found["last_state"]), np.float32(last.state))
    assert found["last_episode"] == len(walk_indices) - 1


def test_nanoseconds_come_back_exactly(loaded):
    wanted = [f.wall_ns for w in range(3) for f in walks.frames(w, 20)]
    assert (loaded["walk"]["walls"], loaded["walk"]["wall_dtype"]) == (wanted, "torch.int64")


def test_windows_have_the_shapes_that_were_asked_for(loaded):
    shapes = loaded["walk"]["shapes"]
    assert (shapes["observation.state"], shapes["action"]) == ([2, 6], [3, 6])
    assert shapes["observation.images.front"] == [2, 3, *walks.CAMERAS["front"]]
    assert shapes["action_is_pad"] == [3]


def test_policies_are_given_state_images_and_action_alone(loaded):
    wanted = ["action", "observation.images.front", "observation.images.wrist", "observation.state"]
    assert loaded["walk"]["policy_inputs"] == wanted


def test_nothing_was_fetched_and_nothing_was_written_into_the_dataset(root, loaded):
    assert repair(root / "walk").changed is False
    assert not list((root / "home").rglob("*datasets--local*"))


def test_info_json_is_what_stock_lerobot_writes_for_these_frames(root, loaded):
    ours, stock = (json.loads((root / name / INFO).read_text()) for name in ("staged", "stock"))
    assert ours == stock
    assert list(ours) == list(stock)
    assert list(ours["features"]) == list(stock["features"])


@pytest.mark.parametrize("name", [data_path(0), EPISODES_TABLE, TASKS])
def test_tables_have_the_columns_and_types_that_stock_lerobot_writes(root, loaded, name):
    ours, stock = (pq.read_schema(root / d / name) for d in ("staged", "stock"))
    assert {f.name: str(f.type) for f in ours} == {f.name: str(f.type) for f in stock}
    for key in (b"huggingface", b"pandas"):
        one, other = (json.loads(s.metadata[key]) if key in (s.metadata or {}) else None for s in (ours, stock))
        for volatile in ("fingerprint", "creator", "pandas_version"):
            for content in (one, other):
                (content or {}).pop(volatile, None)
        if name != EPISODES_TABLE:
            assert one == other, key


def test_rows_equal_those_that_stock_lerobot_writes(root, loaded):
    with_walk = pq.read_table(root / "walk" / data_path(0))
    stock = pq.read_table(root / "stock" / data_path(0))
    assert with_walk.select(stock.column_names).equals(stock.cast(with_walk.select(stock.column_names).schema))


def test_statistics_agree_with_stock_lerobots(root, loaded):
    (root / "first").mkdir()
    with walks.staged(root / "first" / "walk", [0]).lock():
        assemble(root / "first" / "walk")
    ours, stock = (json.loads((d / STATS).read_text()) for d in (root / "first" / "walk", root / "stock"))
    assert ours.keys() == stock.keys()
    for name in ours:
        assert ours[name].keys() == stock[name].keys(), name
        image = name.startswith("observation.images")
        for statistic in ("min", "max", "mean", "std"):
            one, other = (np.array(s[name][statistic]) for s in (ours, stock))
            assert one.shape == other.shape, (name, statistic)
            # LeRobot sums squares, which costs a large constant column half of its digits; images are sampled.
            scale = float(np.abs(np.array(stock[name]["max"])).max())
            within = 0.02 if image else 1e-3 + (1e-7 if statistic == "std" else 1e-12) * scale
            np.testing.assert_allclose(one, other, atol=within, err_msg=f"{name} {statistic}")


def test_lerobot_edit_dataset_deletes_and_splits(root, loaded):
    run(root / "home", "-c", EDIT, str(root))
    for folder, walk_indices in (("less", [0, 2]), ("parts/train", [0, 2]), ("parts/val", [1])):
        info = json.loads((root / folder / INFO).read_text())
        assert (info["total_episodes"], info["total_frames"]) == (len(walk_indices), 20 * len(walk_indices)), folder
        files = sorted((root / folder / "data").rglob("*.parquet"))
        states = [row for file in files for row in pq.read_table(file).column("observation.state").to_pylist()]
        wanted = [np.float32(f.state).tolist() for w in walk_indices for f in walks.frames(w, 20)]
        assert states == wanted, folder
