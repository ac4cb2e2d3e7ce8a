"""Where a session's episodes wait: a folder beside the dataset, one finished episode in each of its folders.

``datasets/NAME.staging/``::

    session.json                 what walks: written once, before the first episode
    lock                         held by the one session (or repair) at work; a dead one's lock holds nothing
    episodes/episode-000007/     a finished LeRobot dataset of one episode, with raw.h5 and episode.json
    tmp/                         the episode being written; what a crash leaves here never counted
    set-aside/                   episodes that failed their checks, each with reason.txt
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DatasetError
from .durable import fsync_path, fsync_tree, json_bytes, make_dirs, read_json, remove_tree, rename, replace_bytes, told
from .metadata import session_of
from .schema import META

__all__ = [
    "IDENTITY",
    "RECORD",
    "Staging",
    "compare_identity",
    "identity_of",
    "quarantine",
    "recover",
    "saved_walk_indices",
    "sibling",
]

IDENTITY = ("fps", "robot_type", "features", "task", "simulated", "rig", "envelope", "policy", "calibration")
"""Keys of a session on which every session of a dataset must agree, those of them that it has."""


HALF_WRITTEN = "left half-written by a session that was cut off; it never counted as an episode"

RECORD = "episode.json"
"""In an episode's folder: what ``meta/so101walk.json`` will tell about it."""


def sibling(out: Path, suffix: str) -> Path:
    """The folder ``<out><suffix>`` beside a dataset, for example ``datasets/demo.staging``."""
    return out.with_name(out.name + suffix)


class Staging:
    """The staging folder of the dataset ``out``. Making this object touches nothing on disk.

    Args:
        out: The dataset that the episodes are for.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(os.path.normpath(out))
        self.root = sibling(self.out, ".staging")
        self.episodes = self.root / "episodes"
        self.tmp = self.root / "tmp"
        self.aside = self.root / "set-aside"
        self.assembled = self.root / "assembled"
        self.quarantine = sibling(self.out, ".quarantine")

    @property
    def exists(self) -> bool:
        """Whether there is a session's folder on disk."""
        return (self.root / "session.json").is_file()

    def begin(self, session: Mapping[str, Any]) -> None:
        """Make the folder ready for a session; call it under :meth:`lock`.

        An assembly that was cut short is finished or undone, and what an earlier session left half-written is moved to
        the quarantine. An earlier session's description stays as it is.

        Args:
            session: What walks, as JSON: the keys of :data:`IDENTITY`, and whatever else is worth keeping (seed, ...).

        Raises:
            DatasetError: The folder can't be made or written to, or the dataset or its staging folder holds another
                walk.
        """
        earlier = identity_of(self.out)
        lines = compare_identity(earlier, session) if earlier is not None else []
        if lines:
            raise DatasetError(f"{self.out} holds another walk: {'; '.join(lines)}. Use another --out.")
        for folder in (self.episodes, self.tmp, self.aside):
            make_dirs(folder)
        recover(self.out)
        self.clear_assembled()
        self.clear_leftovers()
        if not self.exists:
            replace_bytes(self.root / "session.json", json_bytes(session))
            fsync_path(self.root.parent)

    def session(self) -> dict[str, Any]:
        """What the session's :meth:`begin` was given.

        Raises:
            DatasetError: There is no session, or its file is torn.
        """
        return read_json(self.root / "session.json")

    def saved(self) -> dict[int, Path]:
        """The folders of the episodes saved here, by walk index, in its order."""
        found = {}
        for path in self.episodes.glob("episode-*") if self.episodes.is_dir() else ():
            if match := re.fullmatch(r"episode-(\d+)", path.name):
                found[int(match[1])] = path
        return dict(sorted(found.items()))

    def clear_leftovers(self) -> list[Path]:
        """Move everything in ``tmp/`` to the quarantine; returns where each thing went. Call it under :meth:`lock`."""
        if not self.tmp.is_dir():
            return []
        return [quarantine(self.out, [path], HALF_WRITTEN, path.name) for path in sorted(self.tmp.iterdir())]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the dataset against other sessions and repairs while the block runs; the staging folder is made.

        The kernel lets go of a dead process's lock, so a lock file left behind holds nothing.

        Raises:
            DatasetError: Another process is at work on this dataset, or the folder can't be made.
        """
        fd = self._locked_fd()
        try:
            yield
        finally:
            os.close(fd)

    def _locked_fd(self) -> int:
        path = self.root / "lock"
        while True:
            make_dirs(self.root)
            with told(path):
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                os.close(fd)
                raise DatasetError(
                    f"{self.out} is being written by another so101walk; wait for it to end, or use another --out"
                ) from e
            # Whoever assembled may have removed the folder between our open and our lock.
            if path.exists() and os.fstat(fd).st_ino == path.stat().st_ino:
                return fd
            os.close(fd)

    def remove(self) -> None:
        """Remove the folder after its episodes went into the dataset; call it under :meth:`lock`.

        Episodes that were set aside stay.
        """
        if self.episodes.is_dir():
            rename(self.episodes, self.assembled)
        self.clear_assembled()
        (self.root / "session.json").unlink(missing_ok=True)
        self.remove_if_empty()

    def clear_assembled(self) -> None:
        """Remove episodes that went into the dataset before a crash cut :meth:`remove` short."""
        remove_tree(self.assembled)

    def remove_if_empty(self) -> None:
        """Remove the folder if it holds no session and no episode. Call it under :meth:`lock`."""
        lock = self.root / "lock"
        if any(p for p in self.root.rglob("*") if p.is_file() and p != lock):
            return
        lock.unlink(missing_ok=True)
        for folder in (self.episodes, self.tmp, self.aside, self.root):
            try:
                folder.rmdir()
            except OSError:
                pass  # not there, or another session has just begun here


def recover(out: Path) -> str | None:
    """Finish or undo an assembly that a crash cut short. Call it under the staging folder's lock.

    ``.old`` exists only once the new dataset is complete and flushed. So: with ``.old`` and no dataset the new one
    takes its place; with both the old one is removed; ``.building`` without ``.old`` is an unfinished build of linked
    files, all of which still lie where they came from, and is removed.

    Returns:
        What was done, in words, or None if there was nothing to do.
    """
    building, old = sibling(out, ".building"), sibling(out, ".old")
    if old.exists() and not out.exists():
        rename(building if building.exists() else old, out)
        remove_tree(old)
        return "an assembly was cut short between its two renames; the new dataset was put in place"
    if old.exists():
        remove_tree(old)
        return "an assembly was cut short after the new dataset was in place; the old one was removed"
    if building.exists():
        remove_tree(building)
        return "an assembly was cut short while it was building; what it had built was removed"
    return None


def quarantine(out: Path, paths: Sequence[Path], reason: str, name: str) -> Path:
    """Move files or folders of the dataset ``out`` out of the way, durably, with the reason; nothing is deleted.

    Args:
        out: The dataset.
        paths: What to move; under ``out`` they keep their place in it, else their name. Missing ones are skipped.
        reason: Written to ``reason.txt`` beside them.
        name: What they are, for the folder's name.

    Returns:
        Where they are now: ``<out>.quarantine/<number>-<name>``.
    """
    folder = sibling(out, ".quarantine")
    make_dirs(folder)
    taken = [int(m[1]) for p in folder.iterdir() if (m := re.match(r"(\d+)-", p.name))]
    place = folder / f"{max(taken, default=0) + 1:04d}-{name}"
    make_dirs(place)
    with told(place):
        (place / "reason.txt").write_text(reason + "\n")
        for path in paths:
            target = place / (path.relative_to(out) if path.is_relative_to(out) and path != out else path.name)
            if path.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                rename(path, target)
        fsync_tree(place)
        fsync_path(folder)
    return place


def saved_walk_indices(out: str | Path) -> set[int]:
    """Walk indices of every episode saved for the dataset ``out``: assembled already, or still in its staging folder.

    Raises:
        DatasetError: The dataset is there but its ``meta/so101walk.json`` is missing or torn.
    """
    staging = Staging(out)
    found = set(staging.saved())
    if staging.out.exists():
        found |= {int(e["walk_index"]) for e in read_json(staging.out / META)["episodes"]}
    return found


def identity_of(out: str | Path) -> dict[str, Any] | None:
    """What walks in the dataset ``out``, from its metadata or its staging folder; None if there is neither.

    Raises:
        DatasetError: The file that should tell it is torn, or the dataset is not one of so101walk.
    """
    staging = Staging(out)
    if staging.out.exists():
        if not (staging.out / META).is_file():
            raise DatasetError(f"{staging.out} was not made by so101walk (no {META}); use another --out")
        return session_of(read_json(staging.out / META))
    return staging.session() if staging.exists else None


def compare_identity(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Differences that forbid to add episodes of ``new`` to a dataset of ``old``, one line each; none if they agree.

    Only the keys of :data:`IDENTITY` count; both sides are compared as the JSON that they become.
    """
    before, now = ({k: v for k, v in _as_json(s).items() if k in IDENTITY} for s in (old, new))
    return list(_differences("", before, now))


def _as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json_bytes(value))


def _differences(where: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            name = f"{where}.{key}" if where else key
            if key not in new:
                yield f"{name} is {_short(old[key])} in the dataset, not set now"
            elif key not in old:
                yield f"{name} is not set in the dataset, {_short(new[key])} now"
            else:
                yield from _differences(name, old[key], new[key])
    elif old != new:
        yield f"{where} is {_short(old)} in the dataset, {_short(new)} now"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
