"""Export to stable-worldmodel's layout: every row, in order, at the size asked for."""

import io
import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from so101walk.dataset.export import export_swm_hdf5
from so101walk.dataset.reader import Dataset
from so101walk.errors import DatasetError, UsageError

LENGTHS = (20, 7)
CAMERAS = ("observation.images.front", "observation.images.wrist")


def image(episode: int, frame: int, camera: int) -> np.ndarray:
    return np.full((16, 24, 3), (10 * episode + frame, 100 * camera, 50), np.uint8)


def png(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def dataset(tmp_path):
    root, episodes, start = tmp_path / "walk", [], 0
    for index, n in enumerate(LENGTHS):
        state = np.arange(n * 6, dtype=np.float32).reshape(n, 6) + 1000 * index
        table = {
            "observation.state": pa.array(state.tolist(), pa.list_(pa.float32(), 6)),
            "action": pa.array((state + 0.5).tolist(), pa.list_(pa.float32(), 6)),
            "episode_index": pa.array(np.full(n, index)),
            "frame_index": pa.array(np.arange(n)),
            "index": pa.array(start + np.arange(n)),
        }
        for c, camera in enumerate(CAMERAS):
            cells = [{"bytes": png(image(index, f, c)), "path": None} for f in range(n)]
            table[camera] = pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
        path = root / f"data/chunk-000/file-{index:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)
        episodes.append(
            {
                "episode_index": index,
                "length": n,
                "dataset_from_index": start,
                "dataset_to_index": start + n,
                "tasks": ["walk"],
                "data/chunk_index": 0,
                "data/file_index": index,
            }
        )
        start += n
    features = {n: {"dtype": "float32", "shape": [6], "names": None} for n in ("observation.state", "action")}
    features |= {n: {"dtype": "int64", "shape": [1], "names": None} for n in ("episode_index", "frame_index", "index")}
    features |= {c: {"dtype": "image", "shape": [16, 24, 3], "names": None} for c in CAMERAS}
    info = {
        "codebase_version": "v3.0", "fps": 30, "features": features, "total_episodes": 2, "total_frames": start,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet", "video_path": None,
    }  # fmt: skip
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    pq.write_table(pa.Table.from_pylist(episodes), root / "meta/episodes/chunk-000/file-000.parquet")
    return Dataset.open(root)


def test_rows_images_and_episodes_arrive_in_order(dataset, tmp_path):
    done = export_swm_hdf5(dataset, tmp_path / "out.h5")
    assert (done.episodes, done.frames, done.pixels) == (2, 27, (16, 24))
    with h5py.File(tmp_path / "out.h5") as f:
        assert f["pixels"].dtype == np.uint8
        assert f["action"].dtype == f["proprio"].dtype == np.float32
        assert f["ep_len"].dtype == np.int32
        assert f["ep_offset"].dtype == np.int64
        assert f["ep_len"][:].tolist() == [20, 7]
        assert f["ep_offset"][:].tolist() == [0, 20]
        assert f["ep_idx"][:].tolist() == [0] * 20 + [1] * 7
        assert f["step_idx"][:].tolist() == [*range(20), *range(7)]
        expected = np.stack([image(e, i, 0) for e, n in enumerate(LENGTHS) for i in range(n)])
        assert (f["pixels"][:] == expected).all()
        assert np.array_equal(f["action"][:], f["proprio"][:] + 0.5)
        assert f["proprio"][20, 0] == 1000.0


def test_a_tile_holds_every_view_side_by_side_at_the_size_asked_for(dataset, tmp_path):
    done = export_swm_hdf5(dataset, tmp_path / "tiled.h5", size_px=32, tile=True)
    assert done.cameras == CAMERAS
    with h5py.File(tmp_path / "tiled.h5") as f:
        assert f["pixels"].shape == (27, 32, 32, 3)
        assert (f["pixels"][5, :, :16] == image(0, 5, 0)[0, 0]).all()
        assert (f["pixels"][5, :, 16:] == image(0, 5, 1)[0, 0]).all()


def test_one_camera_may_be_chosen(dataset, tmp_path):
    export_swm_hdf5(dataset, tmp_path / "wrist.h5", cameras=("wrist",))
    with h5py.File(tmp_path / "wrist.h5") as f:
        assert (f["pixels"][0] == image(0, 0, 1)).all()


def test_nothing_is_overwritten_and_nothing_half_written_is_left(dataset, tmp_path, monkeypatch):
    target = tmp_path / "out.h5"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        export_swm_hdf5(dataset, target)
    assert target.read_text() == "mine"
    with pytest.raises(UsageError, match="8 to 4096"):
        export_swm_hdf5(dataset, tmp_path / "b.h5", size_px=2)
    with pytest.raises(DatasetError, match="did you mean"):
        export_swm_hdf5(dataset, tmp_path / "c.h5", cameras=("wrst",))
    torn = Dataset(dataset.root, dataset.info, dataset.episodes)
    monkeypatch.setattr(Dataset, "frames", lambda self, camera, episode, stride=1: iter([image(0, 0, 0)]))
    with pytest.raises(DatasetError, match="1 images for 20 rows"):
        export_swm_hdf5(torn, tmp_path / "d.h5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.h5", "walk"]
