"""The README of a dataset: a card that the Hub reads, and that tells a person what is in the folder."""

from collections.abc import Mapping, Sequence
from typing import Any

from .schema import META

__all__ = ["card"]


def card(name: str, own: Mapping[str, Any], fps: int, cameras: Sequence[str]) -> str:
    """The text of a dataset's ``README.md``.

    Args:
        name: Of the dataset's folder.
        own: The content of ``meta/so101walk.json``.
        fps: Frames a second.
        cameras: Names.
    """
    policy = own.get("policy")
    policy_name = policy.get("name", "unknown") if isinstance(policy, Mapping) else policy or "unknown"
    origin = "simulated SO-101" if own.get("simulated") else "SO-101"
    return f"""---
tags:
- LeRobot
- so101
- random-walk
task_categories:
- robotics
configs:
- config_name: default
  data_files: data/*/*.parquet
---

# {name}

Episodes of a {origin}, policy `{policy_name}`, recorded with so101walk {own["so101walk"]}: a LeRobot v3 dataset at
{fps} frames a second, cameras {", ".join(f"`{c}`" for c in cameras)}.

    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    dataset = LeRobotDataset("local/{name}", root="PATH/OF/{name}")

Columns beside LeRobot's own (policies ignore them): `walk.z` the commanded latent, `walk.waypoint` the index of the
waypoint reached at a frame else -1, `walk.request` the joints asked for; in nanoseconds, `sync.capture_ns.<camera>`
from a frame's nominal time to its image's capture, `sync.state_gap_ns` the width of the bracket that the joints were
interpolated in, `sync.wall_ns` the measured time since the first frame; `sync.repeated.<camera>` is 1 where an image
was used again since no new one had come. `raw/` holds the full-rate joint log of each episode, `{META}` what walked.
"""
