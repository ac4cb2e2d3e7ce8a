"""Small walks that are sound but for what a test plants in them: as arrays, and as datasets of ours on disk.

The arm's picture is six bars, each as high as one joint, so that images change with the joints and with nothing else.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from so101walk.dataset.assemble import assemble
from so101walk.dataset.raw import RawLog
from so101walk.dataset.schema import Frame
from so101walk.dataset.staging import Staging
from so101walk.dataset.writer import EpisodeWriter
from so101walk.joints import JOINTS

FPS, STEP, SETTLE = 30, 6, 2
SIZE = (48, 96)
SCALE = 15.0
LIMIT = 80.0
RHO = 0.9

Columns = dict[str, Any]
Change = Callable[[int, Columns], None]


def session(**policy: Any) -> dict[str, Any]:
    """What the metadata tells of a walk within +-80, as ``collect`` writes it."""
    joints = {j: {"center": 0.0, "scale": SCALE, "lower": -LIMIT, "upper": LIMIT} for j in JOINTS}
    return {
        "fps": FPS,
        "simulated": True,
        "seed": 7,
        "rig": {"name": "sim", "limits": {"velocity_deg_s": 300.0}},
        "envelope": {"name": "test", "joints": joints},
        "policy": {"kind": "ou", "name": "ou", "rho": RHO, "joints": {}} | policy,
    }


def waypoints(rng: np.random.Generator, count: int, rho: float = RHO) -> NDArray[np.float64]:
    """A chain of the walk, (count, 6)."""
    z = np.empty((count, 6))
    z[0] = rng.standard_normal(6)
    for k in range(1, count):
        z[k] = rho * z[k - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(6)
    return z


def columns(z: NDArray[np.float64], rng: np.random.Generator, frames: int) -> Columns:
    """The columns of an episode that goes through waypoints ``z``: minimum jerk, a lag of one frame, ticks of 0.088."""
    at = np.arange(frames)
    step, share = at // STEP, np.clip(at % STEP / (STEP - SETTLE), 0, 1)
    s = (10 * share**3 - 15 * share**4 + 6 * share**5)[:, None]
    path = z[step] + s * (z[step + 1] - z[step])
    action = np.round(SCALE * path / 0.088) * 0.088
    state = np.round((np.vstack([action[:1], action[:-1]]) + rng.normal(0, 0.05, action.shape)) / 0.088) * 0.088
    return {
        "observation.state": state,
        "action": action,
        "walk.request": SCALE * path,
        "walk.z": path,
        "walk.waypoint": np.where(at % STEP == 0, step, -1),
        "image_of": at.copy(),
        "sync.capture_ns.front": rng.integers(-2_000_000, 2_000_000, frames),
        "sync.repeated.front": np.zeros(frames, int),
        "sync.state_gap_ns": np.full(frames, 10_000_000),
        "sync.wall_ns": (at * 1e9 / FPS).astype(int) + rng.integers(-50_000, 50_000, frames),
    }


def episodes(count: int, frames: int, seed: int = 0, rho: float = RHO, change: Change | None = None) -> list[Columns]:
    """Columns of so many episodes, with what ``change(episode, columns)`` plants."""
    rng = np.random.default_rng(seed)
    made = [columns(waypoints(rng, frames // STEP + 2, rho), rng, frames) for _ in range(count)]
    for k, c in enumerate(made):
        if change is not None:
            change(k, c)
    return made


def picture(q: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Six bars on grey, (48, 96, 3) uint8."""
    rgb = np.full((*SIZE, 3), 90, np.uint8)
    for j, value in enumerate(q):
        top = int(np.clip(24 - value * 0.4, 2, 45))
        rgb[top:, 3 + 16 * j : 13 + 16 * j] = (40 + 35 * j, 220 - 30 * j, 200)
    return rgb


def frames_of(c: Columns) -> list[Frame]:
    """The rows of an episode; row k shows the picture of row ``image_of[k]``."""
    return [
        Frame(
            state=c["observation.state"][k],
            action=c["action"][k],
            z=c["walk.z"][k],
            request=c["walk.request"][k],
            waypoint=int(c["walk.waypoint"][k]),
            images={"front": picture(c["observation.state"][c["image_of"][k]])},
            capture_ns={"front": int(c["sync.capture_ns.front"][k])},
            state_gap_ns=int(c["sync.state_gap_ns"][k]),
            wall_ns=int(c["sync.wall_ns"][k]),
            repeated=frozenset({"front"} if c["sync.repeated.front"][k] else ()),
        )
        for k in range(len(c["action"]))
    ]


def dataset(
    out: Path, count: int = 3, frames: int = 120, seed: int = 0, change: Change | None = None, **policy: Any
) -> Path:
    """Write such a walk as ``collect`` would, and assemble it."""
    staging = Staging(out)
    with staging.lock():
        staging.begin(session(**policy))
        for k, c in enumerate(episodes(count, frames, seed, change=change)):
            with EpisodeWriter(staging, k, fps=FPS, cameras={"front": SIZE}, task="Walk.") as writer:
                for frame in frames_of(c):
                    writer.add(frame)
                writer.finish({"steps": frames // STEP - 1, "rejected": 0}, RawLog.of([], {"front": []}, {}))
        assemble(out)
    return out
