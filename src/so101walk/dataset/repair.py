"""A dataset made right again from its files: the torn set aside, the rest numbered anew. Nothing is deleted.

Truth lies in the files, not in the counters: every episode's rows are read and every image decoded. What is not whole
goes to ``NAME.quarantine``, with its reason. A second repair finds nothing to do and changes no byte.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import DatasetError
from .assemble import Episode, Progress, assemble, build, episode_files_of, read_staged
from .durable import plain
from .schema import META
from .staging import HALF_WRITTEN, Staging, quarantine, recover, sibling
from .survey import metadata_faults, survey
from .verify import check_files

__all__ = ["Quarantined", "RepairReport", "repair"]


@dataclass(frozen=True)
class Quarantined:
    """Something that was moved out of the way: what it was, why, and where it is now."""

    name: str
    reason: str
    path: Path


@dataclass(frozen=True)
class RepairReport:
    """What a repair found and did.

    Attributes:
        path: The dataset.
        episodes: How many whole episodes it has now.
        frames: Their rows.
        added: How many of them came from the staging folder.
        quarantined: What was moved out of the way.
        faults: What the metadata said that the files didn't; it was written anew.
        recovered: What was done about an assembly that had been cut short, in words, or None.
    """

    path: Path
    episodes: int
    frames: int
    added: int
    quarantined: tuple[Quarantined, ...]
    faults: tuple[str, ...]
    recovered: str | None

    @property
    def changed(self) -> bool:
        """Whether anything on disk was changed."""
        return bool(self.added or self.quarantined or self.faults or self.recovered)

    def lines(self) -> list[str]:
        """The report in words, a line for each thing done, the state of the dataset last."""
        told = [self.recovered] if self.recovered else []
        told += [f"{q.name} was moved to {q.path}: {q.reason}" for q in self.quarantined]
        told += [f"the metadata was written anew: {fault}" for fault in self.faults]
        if self.added:
            told.append(f"{self.added} saved episodes were added from {sibling(self.path, '.staging')}")
        state = f"{self.path}: {self.episodes} whole episodes, {self.frames} frames"
        return [*told, state if told else f"{state}; nothing to do"]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON, with ``changed``."""
        return plain({**asdict(self), "changed": self.changed})


def repair(out: str | Path, on_episode: Progress | None = None) -> RepairReport:
    """Repair the dataset ``out``, and add the episodes that wait in its staging folder.

    Args:
        out: The dataset.
        on_episode: Told of the progress while the dataset's episodes are read.

    Raises:
        DatasetError: There is no such dataset, it was not made by so101walk, another process is at work on it, or the
            disk is full.
    """
    staging = Staging(out)
    _refuse_strangers(staging)
    with staging.lock():
        try:
            return _repair(staging, on_episode)
        finally:
            staging.remove_if_empty()


def _refuse_strangers(staging: Staging) -> None:
    """Raise unless ``out`` or what lies beside it is ours; nothing is touched."""
    out = staging.out
    beside = [staging.root, sibling(out, ".old"), sibling(out, ".building")]
    if not out.exists() and not any(path.exists() for path in beside):
        raise DatasetError(f"{out} is not a dataset: there is no such folder, and no {staging.root.name} beside it")
    if not out.exists():
        return
    if not out.is_dir() or not ((out / "meta").is_dir() or (out / "data").is_dir()):
        raise DatasetError(f"{out} is not a dataset: it has no meta and no data folder")
    if not (out / META).exists() and not any(name.startswith("raw/") for name in episode_files_of(out)):
        raise DatasetError(
            f"{out} was not made by so101walk (no {META}, no raw logs), so it is left as it is; "
            "lerobot-edit-dataset edits other datasets"
        )


def _repair(staging: Staging, on_episode: Progress | None) -> RepairReport:
    out = staging.out
    recovered = recover(out)
    staging.clear_assembled()
    moved = [Quarantined(p.name.partition("-")[2], HALF_WRITTEN, p) for p in staging.clear_leftovers()]
    episodes: list[Episode] = []
    faults: list[str] = []
    if out.exists():
        found = survey(out, on_episode)
        episodes = found.episodes
        for torn in found.torn:
            moved.append(Quarantined(torn.name, torn.reason, quarantine(out, torn.files, torn.reason, torn.name)))
        if not episodes:
            reason = "no whole episode was left in this dataset"
            moved.append(Quarantined(out.name, reason, quarantine(out, [out], reason, out.name)))
        elif found.torn:
            faults = [f"{len(found.torn)} of its episodes are torn"]
        else:
            faults = metadata_faults(out, found)
        if episodes and faults:
            build(out, episodes, found.session)
    moved += _quarantine_torn_staged(staging, {e.walk_index for e in episodes})
    if staging.saved():
        report = assemble(out)
        return RepairReport(out, report.episodes, report.frames, report.added, tuple(moved), tuple(faults), recovered)
    if episodes and staging.exists:
        staging.remove()
        recovered = recovered or "an assembly was cut short while it removed its staging folder; that was finished"
    frames = sum(e.row["length"] for e in episodes)
    return RepairReport(out, len(episodes), frames, 0, tuple(moved), tuple(faults), recovered)


def _quarantine_torn_staged(staging: Staging, known: set[int]) -> list[Quarantined]:
    """Check the episodes that wait in the staging folder, except those that the dataset has already."""
    moved = []
    for walk_index, folder in staging.saved().items():
        if walk_index in known:
            continue
        try:
            episode = read_staged(folder)
            if episode.walk_index != walk_index:
                raise DatasetError(f"{folder} holds episode {episode.walk_index} of the walk")
            check_files(episode.files, episode.layout.cameras, episode.layout.fps)
        except DatasetError as e:
            moved.append(Quarantined(folder.name, str(e), quarantine(staging.out, [folder], str(e), folder.name)))
    return moved
