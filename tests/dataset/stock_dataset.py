"""Make a dataset with stock LeRobot alone: ``python stock_dataset.py OUT``. Several episodes share each file.

Each image carries its number. What stock LeRobot itself reads back, for some rows, goes to ``OUT.npz``.
"""

import sys
from pathlib import Path

import numpy as np

SIZE = (48, 96)
LENGTHS = (30, 41, 22)
ROWS = (0, 5, 29, 30, 31, 55, 70, 71, 92)


def main(out: Path) -> None:
    """Record three episodes, read some rows back."""
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    from so101walk.joints import FEATURE_NAMES
    from tests.dataset.walks import image

    vector = {"dtype": "float32", "shape": (6,), "names": list(FEATURE_NAMES)}
    size = {"shape": (*SIZE, 3), "names": ["height", "width", "channels"]}
    features = {
        "observation.state": vector,
        "action": vector,
        "observation.images.film": {"dtype": "video", **size},
        "observation.images.stills": {"dtype": "image", **size},
        "grid": {"dtype": "float32", "shape": (2, 3), "names": None},
    }
    dataset = LeRobotDataset.create(
        "local/stock", 30, features, root=out, robot_type="so_follower", rgb_encoder=RGBEncoderConfig(vcodec="h264")
    )
    rng, number = np.random.default_rng(0), 0
    for e, length in enumerate(LENGTHS):
        q = np.cumsum(rng.normal(0, 2, (length, 6)), axis=0).astype(np.float32)
        for k in range(length):
            picture = image(number, SIZE)
            frame = {"observation.state": q[k], "action": q[k] + 1, "grid": np.full((2, 3), number, np.float32)}
            pictures = {"observation.images.film": picture, "observation.images.stills": picture}
            dataset.add_frame({**frame, **pictures, "task": f"task {e % 2}"})
            number += 1
        dataset.save_episode()
    dataset.finalize()
    opened = LeRobotDataset("local/stock", root=out)
    rows = [opened[k] for k in ROWS]
    np.savez(
        out.with_suffix(".npz"),
        film=np.stack([(r["observation.images.film"] * 255).round().byte().numpy() for r in rows]),
        state=np.stack([r["observation.state"].numpy() for r in rows]),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
