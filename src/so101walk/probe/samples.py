"""Which frames a probe uses, what their joints are, and which episodes are held out."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from ..errors import DatasetError, UsageError
from ..joints import FEATURE_NAMES, JOINTS, UNITS

__all__ = ["Samples", "Split", "split_episodes"]

STATE = "observation.state"


@dataclass(frozen=True)
class Samples:
    """The joints of every row of a dataset, and the rows that are encoded (every ``stride``-th of an episode).

    Attributes:
        joints: Names, m of them.
        units: Their units, "" where the dataset doesn't tell.
        fps: Frames a second.
        stride: 1 for every frame.
        state: Joints of every row of the dataset. Shape (N, m).
        state_episode: Episode of every row. Shape (N,).
        rows: The rows that are encoded. Shape (n,).
        episode: Their episode. Shape (n,).
        frame: Their number within it. Shape (n,).
    """

    joints: tuple[str, ...]
    units: tuple[str, ...]
    fps: int
    stride: int
    state: NDArray[np.float64]
    state_episode: NDArray[np.int64]
    rows: NDArray[np.int64]
    episode: NDArray[np.int64]
    frame: NDArray[np.int64]

    @classmethod
    def of(cls, dataset: Dataset, stride: int = 1) -> "Samples":
        """The samples of a dataset.

        Raises:
            DatasetError: It has no ``observation.state``, no camera, or a joint value that isn't finite.
            UsageError: ``stride`` is below 1.
        """
        if stride < 1:
            raise UsageError(f"--stride is {stride}; it must be at least 1")
        if STATE not in dataset.features:
            raise DatasetError(f"{dataset.root} has no column {STATE!r}: there are no joints to probe for")
        if not dataset.cameras:
            raise DatasetError(f"{dataset.root} has no camera: there is nothing to encode")
        table = dataset.columns([STATE, "episode_index", "frame_index"])
        state = table[STATE].astype(np.float64)
        state = state.reshape(len(state), -1)
        episode, frame = table["episode_index"].astype(np.int64), table["frame_index"].astype(np.int64)
        if not np.isfinite(state).all():
            row = int(np.argmax(~np.isfinite(state).all(axis=1)))
            raise DatasetError(
                f"{dataset.root}: {STATE} isn't finite in episode {episode[row]}, frame {frame[row]}; "
                "`so101walk check` tells more"
            )
        rows = np.flatnonzero(frame % stride == 0)
        names = dataset.names(STATE)
        ours = names == FEATURE_NAMES
        joints = JOINTS if ours else tuple(n.removesuffix(".pos") for n in names)
        units = UNITS if ours else ("",) * len(names)
        return cls(joints, units, dataset.fps, stride, state, episode, rows, episode[rows], frame[rows])

    @cached_property
    def q(self) -> NDArray[np.float64]:
        """Joints of the encoded rows. Shape (n, m)."""
        return self.state[self.rows]

    def in_episodes(self, episodes: tuple[int, ...]) -> NDArray[np.int64]:
        """Places (into the n encoded rows) of the frames of some episodes."""
        return np.flatnonzero(np.isin(self.episode, episodes))

    def where(self, place: int) -> str:
        """An encoded row in words."""
        return f"episode {self.episode[place]} frame {self.frame[place]}"


@dataclass(frozen=True)
class Split:
    """Episodes that the readout is fit on, and those that it is scored on."""

    train: tuple[int, ...]
    val: tuple[int, ...]


def split_episodes(episodes: tuple[int, ...], val: str, seed: int) -> Split:
    """Hold whole episodes out.

    Args:
        episodes: Every episode of the dataset.
        val: A share (``0.3``), a number of episodes (``5``), or the episodes themselves (``0,3,7-9``; ``4,`` for one).
        seed: Chooses which, for a share or a number.

    Raises:
        UsageError: It can't be read, names an episode that isn't there, or leaves none to train on or to score.
    """
    total = len(episodes)
    if total < 2:
        raise UsageError("the dataset has one episode; a probe needs at least two, one to fit on and one to score")
    chosen = _listed(episodes, val) if "," in val or "-" in val[1:] else _drawn(episodes, val, seed)
    if len(chosen) >= total:
        raise UsageError(
            f"--val {val} holds out {len(chosen)} of {total} episodes; at least one must be left to fit on"
        )
    return Split(tuple(e for e in episodes if e not in chosen), tuple(sorted(chosen)))


def _drawn(episodes: tuple[int, ...], val: str, seed: int) -> set[int]:
    total = len(episodes)
    try:
        count = int(val) if val.strip().isdecimal() else None
        share = None if count is not None else float(val)
    except ValueError:
        raise UsageError(f"--val is {val!r}; it must be a share (0.3), a number (5) or a list (0,3,7-9)") from None
    if share is not None:
        if not 0.0 < share < 1.0:
            raise UsageError(f"--val is {val}; a share must be above 0 and below 1, a number of episodes has no point")
        count = min(max(1, round(share * total)), total - 1)
    assert count is not None
    if count < 1 or count >= total:
        raise UsageError(f"--val is {val} but the dataset has {total} episodes; it must be 1 to {total - 1}")
    drawn = np.random.default_rng(np.random.SeedSequence(seed)).permutation(total)[:count]
    return {episodes[i] for i in drawn}


def _listed(episodes: tuple[int, ...], val: str) -> set[int]:
    chosen: set[int] = set()
    for part in filter(None, (p.strip() for p in val.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--val has {part!r}; episodes are listed as 0,3,7-9")
        chosen.update(range(int(first), int(last or first) + 1))
    unknown = sorted(chosen - set(episodes))
    if unknown:
        raise UsageError(
            f"--val names episode {unknown[0]}, which the dataset hasn't (it has {min(episodes)} to {max(episodes)})"
        )
    if not chosen:
        raise UsageError("--val lists no episode")
    return chosen
