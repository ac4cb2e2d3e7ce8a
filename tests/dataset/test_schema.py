import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.dataset.schema import camera_sizes, data_path, features, raw_path, video_path
from so101walk.errors import DatasetError
from so101walk.joints import FEATURE_NAMES

from .walks import CAMERAS, frames


def test_state_and_action_are_named_as_stock_lerobot_names_them():
    table = features(CAMERAS)
    for name in ("observation.state", "action"):
        assert table[name] == {"dtype": "float32", "shape": (6,), "names": list(FEATURE_NAMES)}


def test_only_state_images_and_action_become_inputs_of_a_policy():
    inputs = [name for name in features(CAMERAS) if name.startswith(("observation", "action"))]
    assert inputs == ["observation.state", "action", "observation.images.front", "observation.images.wrist"]


def test_times_are_int64_since_lerobot_hands_float64_back_as_float32():
    times = [name for name in features(CAMERAS) if name.startswith("sync.")]
    assert sorted(times) == [
        "sync.capture_ns.front",
        "sync.capture_ns.wrist",
        "sync.repeated.front",
        "sync.repeated.wrist",
        "sync.state_gap_ns",
        "sync.wall_ns",
    ]
    assert {features(CAMERAS)[name]["dtype"] for name in times} == {"int64"}


def test_a_frame_has_a_value_for_every_column_that_is_ours():
    (frame,) = frames(0, 1)
    ours = [n for n, f in features(CAMERAS).items() if f["dtype"] != "video"]
    lerobots = {"timestamp", "frame_index", "episode_index", "index", "task_index"}
    assert frame.row().keys() == set(ours) - lerobots


def test_a_repeated_image_is_marked_for_its_camera_alone():
    _, frame = frames(0, 2)
    assert (frame.row()["sync.repeated.front"], frame.row()["sync.repeated.wrist"]) == (0, 1)


def test_image_columns_are_height_first():
    assert features(CAMERAS)["observation.images.front"]["shape"] == (48, 96, 3)
    assert camera_sizes(features(CAMERAS)) == CAMERAS


@pytest.mark.parametrize("size", [(0, 64), (48, -2), (47, 64), (48, 65)])
def test_a_size_that_video_cannot_have_is_refused_with_the_camera(size):
    with pytest.raises(DatasetError, match="front"):
        features({"front": size})


def test_a_dataset_without_cameras_is_refused():
    with pytest.raises(DatasetError, match="at least one camera"):
        features({})


@given(st.integers(0, 10_000_000))
def test_no_two_episodes_share_a_file_and_chunks_hold_a_thousand(episode):
    paths = [data_path(episode), video_path("front", episode), raw_path(episode)]
    following = [data_path(episode + 1), video_path("front", episode + 1), raw_path(episode + 1)]
    assert not set(paths) & set(following)
    assert int(data_path(episode).split("file-")[1].removesuffix(".parquet")) < 1000


def test_the_thousandth_episode_begins_a_chunk():
    assert data_path(999) == "data/chunk-000/file-999.parquet"
    assert data_path(1000) == "data/chunk-001/file-000.parquet"
    assert video_path("front", 1000) == "videos/observation.images.front/chunk-001/file-000.mp4"


def test_rows_hold_six_joints():
    (frame,) = frames(0, 1)
    assert {np.shape(frame.row()[n]) for n in ("observation.state", "action", "walk.z", "walk.request")} == {(6,)}
