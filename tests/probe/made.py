"""Datasets and worlds made for the probe's tests: joints that move as an OU walk, and images that show them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from so101walk.joints import FEATURE_NAMES, ROBOT_TYPE

SIZE = 64
SCALE = np.array([40.0, 30.0, 30.0, 30.0, 60.0, 20.0])
CENTER = np.array([0.0, -20.0, 10.0, 5.0, 0.0, 50.0])


def ou_chain(rng: np.random.Generator, episodes: int, length: int, width: int, rho: float) -> NDArray[np.float64]:
    """Stationary Gaussian chains, (episodes, length, width), with correlation rho from one row to the next."""
    z = rng.standard_normal((episodes, length, width))
    for t in range(1, length):
        z[:, t] = rho * z[:, t - 1] + np.sqrt(1 - rho**2) * z[:, t]
    return z


def images_of(q: NDArray[np.float64]) -> dict[str, NDArray[np.uint8]]:
    """Two views of joints (n, 6): bars and discs whose places and colours are the joints, (n, SIZE, SIZE, 3) each."""
    z = (q - CENTER) / SCALE
    place = np.clip(SIZE / 2 + z * SIZE / 8, 4, SIZE - 5)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    views = {name: np.empty((len(q), SIZE, SIZE, 3), np.uint8) for name in ("front", "wrist")}
    for i, p in enumerate(place):
        views["front"][i] = _draw(xx, yy, [(p[0], p[1], (230, 60, 40)), (p[2], p[3], (40, 90, 220))], (70, 100, 80))
        views["wrist"][i] = _draw(xx, yy, [(p[4], p[5], (250, 220, 60)), (p[5], p[2], (60, 200, 180))], (100, 70, 60))
    return views


def _draw(xx, yy, discs, ground) -> NDArray[np.uint8]:
    image = np.empty((SIZE, SIZE, 3), np.float64)
    image[...] = np.array(ground) + 0.5 * xx[..., None] - 0.3 * yy[..., None]
    for x, y, color in discs:
        cover = np.clip(7.5 - np.hypot(xx - x, yy - y), 0, 1)[..., None]
        image = image * (1 - cover) + np.array(color) * cover
    return image.clip(0, 255).astype(np.uint8)


def make_dataset(
    root: Path,
    episodes: int = 6,
    length: int = 60,
    seed: int = 0,
    frames_per_step: int = 3,
    rho: float = 0.8,
    shift: int = 0,
    constant: tuple[int, ...] = (),
    gray: bool = False,
) -> Path:
    """A dataset written by stock LeRobot, several episodes a file, with the walk's own columns.

    Args:
        root: Folder to make.
        episodes: How many.
        length: Frames each.
        seed: Of the walk.
        frames_per_step: Frames from waypoint to waypoint; joints run straight between them.
        rho: Correlation from waypoint to waypoint.
        shift: Images show the joints of this many frames earlier.
        constant: Joints that don't move.
        gray: Images whose channels are all the first.
    """
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (6,), "names": list(FEATURE_NAMES)}
    image = {"dtype": "video", "shape": (SIZE, SIZE, 3), "names": ["height", "width", "channels"]}
    features = {
        "observation.state": vector,
        "action": vector,
        "observation.images.front": image,
        "observation.images.wrist": image,
        "walk.z": {"dtype": "float32", "shape": (6,), "names": list(FEATURE_NAMES)},
        "walk.waypoint": {"dtype": "int64", "shape": (1,), "names": None},
    }
    dataset = LeRobotDataset.create(
        f"local/{root.name}",
        fps=30,
        root=root,
        robot_type=ROBOT_TYPE,
        features=features,
        rgb_encoder=RGBEncoderConfig(vcodec="h264", preset="ultrafast", crf=12, g=5, extra_options={"bf": 0}),
    )
    waypoints = ou_chain(np.random.default_rng(seed), episodes, length // frames_per_step + 2, 6, rho)
    waypoints[:, :, list(constant)] = 0.0
    for walk in waypoints:
        at = np.arange(length + shift) / frames_per_step
        left = at.astype(int)
        z = walk[left] + (at - left)[:, None] * (walk[left + 1] - walk[left])
        q = CENTER + SCALE * z
        views = images_of(q[:length])
        for i in range(length):
            frame = {
                "observation.state": q[i + shift].astype(np.float32),
                "action": q[i + shift].astype(np.float32),
                "walk.z": z[i + shift].astype(np.float32),
                "walk.waypoint": np.array([i // frames_per_step if i % frames_per_step == 0 else -1], dtype=np.int64),
                "task": "walk",
            }
            for name, images in views.items():
                view = images[i]
                frame[f"observation.images.{name}"] = np.repeat(view[..., :1], 3, axis=2) if gray else view
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()
    return root
