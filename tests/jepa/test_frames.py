"""The frame cache: right images, decoded once, by content."""

import numpy as np
import pytest

from so101walk.dataset.reader import Dataset
from so101walk.errors import DatasetError
from so101walk.jepa import frames as module
from so101walk.jepa.frames import open_frames, shrink


def test_the_cache_holds_every_view_of_every_frame_in_order(walk_dataset, tmp_path):
    dataset = Dataset.open(walk_dataset)
    told = []
    frames = open_frames(dataset, (), 32, tmp_path, lambda done, total: told.append((done, total)))
    assert frames.images.shape == (600, 2, 32, 32, 3)
    assert frames.images.dtype == np.uint8
    assert isinstance(frames.images, np.memmap)
    assert not frames.images.flags.writeable
    assert told[-1] == (600, 600)
    for view, camera in enumerate(dataset.cameras):
        assert (frames.images[123, view] == dataset.decode_at(camera, 2, [3])[0]).all()
    t = frames.timeline
    assert (t.episode[123], t.frame[123], t.waypoint[123], t.step_frames) == (2, 3, 3, 1)
    assert [p.suffix for p in tmp_path.iterdir()] == [".npy"]


def test_a_second_opening_decodes_nothing_and_another_size_or_view_does(walk_dataset, tmp_path, monkeypatch):
    dataset = Dataset.open(walk_dataset)
    open_frames(dataset, (), 32, tmp_path)
    decoded = []
    real = Dataset.frames
    monkeypatch.setattr(Dataset, "frames", lambda self, *a: decoded.append(a) or real(self, *a))
    open_frames(dataset, (), 32, tmp_path)
    assert decoded == []
    assert open_frames(dataset, ("wrist",), 16, tmp_path).images.shape == (600, 1, 16, 16, 3)
    assert len(decoded) == 10


def test_another_content_is_another_entry(make_dataset, chain, tmp_path):
    rng = np.random.default_rng(0)
    states = [chain(rng, 5, 0.8), chain(rng, 5, 0.8)]
    first = open_frames(Dataset.open(make_dataset("a", states)), (), 32, tmp_path / "cache")
    states[1] = states[1] + 0.5
    second = open_frames(Dataset.open(make_dataset("b", states)), (), 32, tmp_path / "cache")
    assert first.digest != second.digest
    assert (first.images[:5] == second.images[:5]).all()
    assert (first.images[5:] != second.images[5:]).any()


def test_a_torn_cache_file_is_decoded_again(make_dataset, chain, tmp_path):
    dataset = Dataset.open(make_dataset("a", [chain(np.random.default_rng(0), 5, 0.8)] * 2))
    whole = np.array(open_frames(dataset, (), 32, tmp_path / "cache").images)
    (path,) = (tmp_path / "cache").iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert (open_frames(dataset, (), 32, tmp_path / "cache").images == whole).all()


def test_missing_images_are_told_and_leave_nothing_behind(make_dataset, chain, tmp_path, monkeypatch):
    dataset = Dataset.open(make_dataset("a", [chain(np.random.default_rng(0), 5, 0.8)] * 2))
    monkeypatch.setattr(Dataset, "frames", lambda self, *a: iter(np.zeros((3, 32, 32, 3), np.uint8)))
    with pytest.raises(DatasetError, match="3 images for 5 rows"):
        open_frames(dataset, (), 32, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_cache_lies_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.cache_dir() == tmp_path / "so101walk" / "frames"


def test_shrinking_keeps_the_mean_and_leaves_what_fits_alone():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)
    small = shrink(image, 32)
    assert small.shape == (32, 32, 3)
    assert small.mean() == pytest.approx(image.mean(), abs=1.0)
    assert shrink(small, 32) is small
