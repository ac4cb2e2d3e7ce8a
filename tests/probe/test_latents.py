"""Encoding as a stream, and the cache by content."""

import json
import shutil
from dataclasses import dataclass, field

import numpy as np
import pyarrow.parquet as pq
import pytest

from so101walk.dataset.reader import Dataset
from so101walk.errors import So101WalkError, UsageError
from so101walk.probe.latents import cache_dir, dataset_digest, extract
from so101walk.probe.pixel_encoders import Pixels, shrink
from so101walk.probe.samples import Samples
from so101walk.probe.stream import batches


@dataclass
class Counting:
    """Mean colour of each view; counts the frames it is given."""

    fingerprint: str | None = "v1"
    spec: str = "counting"
    seen: list[int] = field(default_factory=list)

    def encode(self, views):
        self.seen.append(len(views[0]))
        return np.concatenate([v.mean(axis=(1, 2)) for v in views], axis=1)


def _extract(path, encoders, cameras=("observation.images.front", "observation.images.wrist"), stride=1, batch=50):
    opened = Dataset.open(path)
    samples = Samples.of(opened, stride)
    return extract(opened, dataset_digest(opened, cameras), samples, cameras, encoders, batch)


@pytest.mark.parametrize(("stride", "size"), [(1, 50), (1, 1000), (7, 5)])
def test_batches_are_every_asked_frame_of_every_camera_in_order(dataset, stride, size):
    opened = Dataset.open(dataset)
    samples = Samples.of(opened, stride)
    cameras = ("observation.images.wrist", "observation.images.front")
    found = list(batches(opened, samples, cameras, size))
    assert all(len(b) == size for b in found[:-1])
    for k, camera in enumerate(cameras):
        whole = np.concatenate([b.views[k] for b in found])
        for episode in (0, 5):
            mine = samples.episode == episode
            expected = opened.decode_at(camera, episode, samples.frame[mine].tolist())
            np.testing.assert_array_equal(whole[mine], expected)


def test_a_second_time_nothing_is_encoded_and_latents_are_the_same(dataset):
    encoder = Counting()
    first, pixels = _extract(dataset, [encoder, Pixels(8)])
    again, _ = _extract(dataset, [encoder, Pixels(8)])
    assert sum(encoder.seen) == 8 * 46
    assert (first.cached, again.cached) == (False, True)
    np.testing.assert_array_equal(first.array, again.array)
    assert first.made_s == pytest.approx(again.made_s)
    assert pixels.array.dtype == np.uint8
    opened = Dataset.open(dataset)
    np.testing.assert_array_equal(
        pixels.array[46].reshape(2, 8, 8, 3)[0], shrink(opened.decode_at("front", 1, [0]), 8)[0]
    )


def test_what_changes_the_latents_is_another_entry(dataset, tmp_path):
    encoder = Counting()
    _extract(dataset, [encoder])
    _extract(dataset, [Counting("v2", seen=encoder.seen)])
    _extract(dataset, [encoder], stride=2)
    _extract(dataset, [encoder], cameras=("observation.images.wrist",))
    assert sum(encoder.seen) == 8 * (46 + 46 + 23 + 46)
    moved = shutil.copytree(dataset, tmp_path / "moved")
    _extract(moved, [encoder])
    assert sum(encoder.seen) == 8 * (46 + 46 + 23 + 46)
    path = next((moved / "data").rglob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table, path, compression="zstd")
    _extract(moved, [encoder])
    assert sum(encoder.seen) == 8 * (46 + 46 + 23 + 46 + 46)


def test_an_encoder_without_a_fingerprint_is_never_cached(dataset):
    encoder = Counting(None)
    _extract(dataset, [encoder])
    found = _extract(dataset, [encoder])[0]
    assert not found.cached
    assert found.notes is None
    assert sum(encoder.seen) == 2 * 8 * 46
    assert found.array.shape == (8 * 46, 6)


def test_a_torn_entry_is_made_again(dataset):
    encoder = Counting()
    first = np.array(_extract(dataset, [encoder])[0].array)
    entry = next(cache_dir().glob("*.npy"))
    entry.write_bytes(entry.read_bytes()[:200])
    again = _extract(dataset, [encoder])[0]
    assert not again.cached
    np.testing.assert_array_equal(first, again.array)
    assert not list(cache_dir().glob("*.partial"))


def test_an_encoder_that_fails_half_way_leaves_nothing_behind(dataset):
    class Failing(Counting):
        def encode(self, views):
            found = super().encode(views)
            if len(self.seen) == 3:
                found[7, 1] = np.nan
            return found

    with pytest.raises(UsageError, match="isn't finite for episode 2 frame 15"):
        _extract(dataset, [Failing()])
    assert not [p for p in cache_dir().iterdir() if p.suffix in (".npy", ".partial", ".json")]


def test_shapes_that_are_not_one_vector_a_frame_are_refused(dataset):
    class Short(Counting):
        def encode(self, views):
            return super().encode(views)[:-1]

    class Growing(Counting):
        def encode(self, views):
            return np.repeat(super().encode(views), 1 + len(self.seen) // 2, axis=1)

    with pytest.raises(UsageError, match=r"gave an array \(49, 6\) for 50 frames"):
        _extract(dataset, [Short()])
    with pytest.raises(UsageError, match="gave 12 values a frame from episode 1 frame 4 on, 6 before"):
        _extract(dataset, [Growing()])
    with pytest.raises(UsageError, match="--batch is 0"):
        _extract(dataset, [Counting()], batch=0)


def test_no_memory_for_a_batch_says_what_to_lower(dataset):
    class Greedy(Counting):
        def encode(self, views):
            return np.zeros((len(views[0]), 10**13))

    with pytest.raises(So101WalkError, match=r"batch of 50 frames .64x64, 64x64 px. with counting; lower --batch"):
        _extract(dataset, [Greedy()])


def test_a_cache_that_can_not_be_written_is_told(dataset, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(So101WalkError, match="set XDG_CACHE_HOME"):
        _extract(dataset, [Counting()])


def test_an_entry_states_what_it_is(dataset):
    _extract(dataset, [Counting()])
    facts = json.loads(next(p for p in cache_dir().glob("*.json")).read_text())
    assert facts["spec"] == "counting"
    assert facts["rows"] == 8 * 46
