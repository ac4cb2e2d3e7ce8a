"""The guard that images are the images: a sample of frames decoded by stock LeRobot and by us."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from .guards import Guard
from .offline import offline

__all__ = ["decode"]

EPISODES = 4
FRAMES_EACH = 3


def decode(dataset: Dataset, cameras: tuple[str, ...], rng: np.random.Generator) -> Guard:
    """Decode some frames twice, by ``LeRobotDataset`` (PyAV backend) and by our reader; both must give the same pixels.

    Random frames of random episodes, and always the first and the last of each: off-by-one faults live at the ends.

    Args:
        dataset: The dataset.
        cameras: Column names of the views.
        rng: Chooses the frames.
    """
    chosen = rng.permutation(len(dataset.episodes))[:EPISODES]
    try:
        stock = _stock(dataset)
        worst, where, frames = 0, "", 0
        for i in sorted(chosen):
            episode = dataset.episodes[i]
            numbers = sorted({0, episode.length - 1, *rng.integers(0, episode.length, FRAMES_EACH - 2).tolist()})
            rows = [stock[episode.from_index + k] for k in numbers]
            for camera in cameras:
                ours = dataset.decode_at(camera, episode.index, numbers)
                for number, row, image in zip(numbers, rows, ours, strict=True):
                    frames += 1
                    off = int(np.abs(_pixels(row[camera]).astype(int) - image).max())
                    if off > worst:
                        worst, where = off, f"{camera} episode {episode.index} frame {number}"
    except Exception as e:
        reason = str(e).splitlines()[0][:160] if str(e) else type(e).__name__
        return Guard("decode", "warn", f"stock LeRobot can't read the dataset ({reason}), so images can't be compared")
    figures = {"frames": frames, "worst_levels": worst, "where": where}
    if worst > 0:
        text = (
            f"{where} differs by up to {worst} of 255 levels between stock LeRobot and our reader: not the same image"
        )
        return Guard("decode", "warn", text, figures)
    return Guard("decode", "pass", f"{frames} images are equal, decoded by stock LeRobot and by us", figures)


def _pixels(image: Any) -> NDArray[np.uint8]:
    """LeRobot's float (3, H, W) in [0, 1] back to uint8 (H, W, 3), exactly."""
    return np.rint(image.numpy().transpose(1, 2, 0) * 255.0).astype(np.uint8)


def _stock(dataset: Dataset) -> Any:
    with offline():
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        return LeRobotDataset(f"local/{dataset.root.name}", root=dataset.root, video_backend="pyav")
