"""Small LeRobot v3 datasets whose images are drawn from known states: no simulator and no video needed."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

CAMERAS = ("observation.images.front", "observation.images.wrist")


def draw(z: NDArray[np.floating], size: int = 32) -> NDArray[np.uint8]:
    """An image (size, size, 3) of a state (6,): a soft blob a colour, at a place that two of its values say."""
    grid = np.linspace(-1, 1, size)
    x, y = grid[None, :], grid[:, None]
    blobs = [np.exp(-((x - 0.28 * z[2 * c]) ** 2 + (y - 0.28 * z[2 * c + 1]) ** 2) / 0.08) for c in range(3)]
    return np.round(255 * np.stack(blobs, axis=-1)).astype(np.uint8)


def ou_chain(rng: np.random.Generator, steps: int, rho: float) -> NDArray[np.float64]:
    """A stationary walk, shape (steps, 6)."""
    z = np.empty((steps, 6))
    z[0] = rng.standard_normal(6)
    for i in range(1, steps):
        z[i] = rho * z[i - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(6)
    return z


def write_dataset(
    root: Path, states: list[NDArray[np.floating]], size: int = 32, fps: int = 4, frames_per_step: int | None = 1
) -> Path:
    """A dataset with an episode for each array of states (n, 6), seen by two cameras of which the second mirrors."""
    episodes, start = [], 0
    for index, z in enumerate(states):
        n = len(z)
        table = {
            "observation.state": pa.array((10 * z).astype(np.float32).tolist(), pa.list_(pa.float32(), 6)),
            "action": pa.array(
                (10 * np.concatenate([z[1:], z[-1:]])).astype(np.float32).tolist(), pa.list_(pa.float32(), 6)
            ),
            "walk.z": pa.array(z.astype(np.float32).tolist(), pa.list_(pa.float32(), 6)),
            "walk.waypoint": pa.array(np.arange(n)),
            "timestamp": pa.array((np.arange(n) / fps).astype(np.float32)),
            "frame_index": pa.array(np.arange(n)),
            "episode_index": pa.array(np.full(n, index)),
            "index": pa.array(start + np.arange(n)),
            "task_index": pa.array(np.zeros(n, int)),
        }
        for view, camera in enumerate(CAMERAS):
            cells = [{"bytes": _png(draw(s, size)[:, :: -1 if view else 1]), "path": None} for s in z]
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
    _write_metadata(root, episodes, size, fps, frames_per_step)
    return root


def _png(image: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _write_metadata(root: Path, episodes: list[dict], size: int, fps: int, frames_per_step: int | None) -> None:
    vector = {"dtype": "float32", "shape": [6], "names": None}
    scalar = {"dtype": "int64", "shape": [1], "names": None}
    image = {"dtype": "image", "shape": [size, size, 3], "names": ["height", "width", "channels"]}
    features = {name: dict(vector) for name in ("observation.state", "action", "walk.z")}
    features |= {camera: dict(image) for camera in CAMERAS}
    features |= {n: dict(scalar) for n in ("walk.waypoint", "frame_index", "episode_index", "index", "task_index")}
    features["timestamp"] = {"dtype": "float32", "shape": [1], "names": None}
    info = {
        "codebase_version": "v3.0",
        "fps": fps,
        "features": features,
        "total_episodes": len(episodes),
        "total_frames": sum(e["length"] for e in episodes),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": None,
    }
    (root / "meta/episodes/chunk-000").mkdir(parents=True, exist_ok=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    pq.write_table(pa.Table.from_pylist(episodes), root / "meta/episodes/chunk-000/file-000.parquet")
    if frames_per_step is not None:
        own = {"policy": {"kind": "ou", "rho": 0.8, "frames_per_step": frames_per_step}, "episodes": []}
        (root / "meta/so101walk.json").write_text(json.dumps(own))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """These networks are too small to be shared out between cores."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def walk_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten episodes of sixty frames of a Gaussian walk, rho 0.8 a frame."""
    rng = np.random.default_rng(0)
    return write_dataset(tmp_path_factory.mktemp("walk") / "walk", [ou_chain(rng, 60, 0.8) for _ in range(10)])


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset from states under the test's folder; see :func:`write_dataset`."""
    return lambda name, states, **more: write_dataset(tmp_path / name, states, **more)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded frames and latents go to the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def chain() -> Callable[..., NDArray[np.float64]]:
    """Draws a stationary walk; see :func:`ou_chain`."""
    return ou_chain
