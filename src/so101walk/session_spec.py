"""What a session is asked to do, and who is told how it goes."""

import functools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .dataset.schema import features
from .dataset.staging import sibling
from .envelope import Envelope
from .errors import UsageError
from .joints import ROBOT_TYPE
from .policies.load import PolicySpec, load_policy
from .rig import Rig

__all__ = ["Report", "SessionSpec"]


class Report(Protocol):
    """Who is told how a session goes. Calls may come from any worker, in any order."""

    def started(self, walk_index: int, frames: int) -> None:
        """An episode begins that will have so many frames."""
        ...

    def advanced(self, walk_index: int, frames: int) -> None:
        """So many frames of it are recorded."""
        ...

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        """It is verified and durable."""
        ...

    def failed(self, walk_index: int, reason: str) -> None:
        """It was set aside; it will be tried again."""
        ...


@dataclass(frozen=True)
class SessionSpec:
    """What a session is asked to do.

    Args:
        out: The dataset's folder.
        rig: What walks; the simulated twin in a dry run.
        policy_source: The name or file of what it walks.
        envelope: Where it may.
        episodes: Total wanted in the dataset.
        episode_s: Seconds an episode.
        seed: Of the whole walk; episode ``i`` depends on it and on ``i`` alone.
        dry_run: The rig is the twin of a real one.
        full_meshes: Render the original meshes, in simulation.
        note: Kept in the dataset's metadata.
        policy_overrides: What the command line puts in place of the policy file's values.
    """

    out: Path
    rig: Rig
    policy_source: str
    envelope: Envelope
    episodes: int
    episode_s: float
    seed: int
    dry_run: bool = False
    full_meshes: bool = False
    note: str = ""
    policy_overrides: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise UsageError(f"--episodes is {self.episodes}; it must be 1 or more")
        if not (math.isfinite(self.episode_s) and 1 <= self.frames <= 100_000):
            raise UsageError(
                f"--episode-s is {self.episode_s:g}; an episode must have 1 to 100000 frames at {self.rig.fps} fps"
            )

    @functools.cached_property
    def policy(self) -> PolicySpec:
        """What walks. Loaded anew in each worker: a policy from a Python file can't be pickled."""
        return load_policy(self.policy_source, self.policy_overrides)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "policy"}

    @property
    def frames(self) -> int:
        """Dataset frames an episode."""
        return round(self.episode_s * self.rig.fps)

    @property
    def camera_sizes(self) -> dict[str, tuple[int, int]]:
        """Height and width [px] of each camera's images, by name."""
        return {name: (c.height, c.width) for name, c in self.rig.cameras.items()}

    def identity(self) -> dict[str, Any]:
        """What walks, for the dataset's metadata; a resume in which the walk differs is refused.

        Raises:
            HardwareError: A real arm has no calibration file.
        """
        return {
            "fps": self.rig.fps,
            "features": features(self.camera_sizes),
            "rig": self._rig_identity(),
            "envelope": {**self.envelope.to_dict(), "digest": self.envelope.digest},
            "policy": self.policy.to_dict(),
            "episode_s": self.episode_s,
            "seed": self.seed,
            "simulated": self.rig.simulated,
            "dry_run": self.dry_run,
            "robot_type": ROBOT_TYPE,
            "task": self.rig.task,
            "note": self.note,
        }

    def _rig_identity(self) -> dict[str, Any]:
        if self.rig.simulated:
            return self.rig.to_dict()
        from .real import calibration_digest

        return {**self.rig.to_dict(), "calibration": calibration_digest(self.rig)}

    @property
    def faults(self) -> Path:
        """Where a real arm's black box leaves its files: beside the dataset."""
        return sibling(self.out, ".faults")
