"""What stock LeRobot sees: ``python read_with_lerobot.py FOLDER``, run in a process of its own.

Loads the datasets ``walk``, ``killed`` and ``staged`` in FOLDER through LeRobot's public API and prints what it found
as JSON; then records one episode itself, into ``stock``, with the features in ``features.json``.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from lerobot.configs.video import RGBEncoderConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset

sys.path.insert(0, str(Path(__file__).parents[1] / "dataset"))
import walks

FRONT, WRIST = "observation.images.front", "observation.images.wrist"
DELTAS = {"observation.state": [-1 / 30, 0.0], "action": [0.0, 1 / 30, 2 / 30], FRONT: [0.0, -2 / 30]}


def serial(image: torch.Tensor) -> int:
    """The number that a (3, H, W) image of floats in 0..1 shows."""
    return walks.serial((image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def load(name: str, folder: Path) -> dict:
    """Iterate a dataset in a DataLoader with windows, then look at its last item without."""
    dataset = LeRobotDataset(f"local/{name}", root=folder, delta_timestamps=DELTAS)
    found: dict = {"serials": [], "before": [], "walls": []}
    for batch in torch.utils.data.DataLoader(dataset, batch_size=7, shuffle=False):
        found["serials"] += [serial(window[0]) for window in batch[FRONT]]
        found["before"] += [serial(window[1]) for window in batch[FRONT]]
        found["walls"] += batch["sync.wall_ns"].tolist()
        found["wall_dtype"] = str(batch["sync.wall_ns"].dtype)
        found["shapes"] = {key: list(value.shape[1:]) for key, value in batch.items() if hasattr(value, "shape")}
    plain = LeRobotDataset(f"local/{name}", root=folder)
    last = plain[len(plain) - 1]
    return {
        **found,
        "frames": len(dataset),
        "episodes": dataset.num_episodes,
        "fps": dataset.fps,
        "robot_type": dataset.meta.robot_type,
        "task": last["task"],
        "last_wrist": serial(last[WRIST]),
        "last_state": last["observation.state"].tolist(),
        "last_episode": int(last["episode_index"]),
        "policy_inputs": sorted(k for k in dataset.features if k.startswith(("observation", "action"))),
    }


def record(folder: Path, features: dict) -> None:
    """Record the frames of walk index 0 with LeRobot's own writer."""
    options = {"bf": 0, "sc_threshold": 0}
    dataset = LeRobotDataset.create(
        "local/stock",
        30,
        root=folder,
        robot_type="so_follower",
        features={name: {**f, "shape": tuple(f["shape"])} for name, f in features.items()},
        streaming_encoding=True,
        rgb_encoder=RGBEncoderConfig(vcodec="h264", g=10, crf=18, preset="ultrafast", extra_options=options),
        encoder_threads=1,
        encoder_queue_maxsize=400,
    )
    for frame in walks.frames(0, 20):
        row = {k: np.atleast_1d(np.asarray(v, dtype=features[k]["dtype"])) for k, v in frame.row().items()}
        images = {f"observation.images.{camera}": image for camera, image in frame.images.items()}
        dataset.add_frame({**row, **images, "task": "Walk."})
    dataset.save_episode()
    dataset.finalize()


if __name__ == "__main__":
    root = Path(sys.argv[1])
    result = {name: load(name, root / name) for name in ("walk", "killed", "staged")}
    record(root / "stock", json.loads((root / "features.json").read_text()))
    print(json.dumps(result))
