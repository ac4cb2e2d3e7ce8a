"""Files that are whole or not there: write beside, fsync, rename; and what a full disk is told as."""

import errno
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DatasetError

__all__ = [
    "disk_trouble",
    "fsync_path",
    "fsync_tree",
    "json_bytes",
    "link_or_copy",
    "make_dirs",
    "plain",
    "read_json",
    "remove_tree",
    "rename",
    "replace_bytes",
    "told",
    "write_bytes",
]

AT_ONCE = 16
"""Calls that wait for the disk at the same time: the kernel commits them together, 16 fsyncs in the time of one (ext4:
3.9 ms a file one by one, 0.2 ms with 16)."""

FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than this user may write",
}


def fsync_path(path: Path) -> None:
    """Make what was written to a file, or the names in a folder, last through a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_tree(folder: Path) -> None:
    """:func:`fsync_path` for every file in ``folder`` and then for every folder, itself included."""
    files: list[Path] = []
    folders: list[Path] = []
    for parent, _, names in os.walk(folder):
        folders.append(Path(parent))
        files += [Path(parent, name) for name in names]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for paths in (files, folders):
            list(pool.map(fsync_path, paths))


def remove_tree(folder: Path) -> None:
    """Delete a folder and what is in it; nothing happens if there is none."""
    if not folder.is_dir():
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(shutil.rmtree, [path for path in folder.iterdir() if path.is_dir()]))
    shutil.rmtree(folder)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file into a folder that is still being built; :func:`fsync_tree` makes it last.

    Raises:
        DatasetError: The disk is full or the folder can't be written to.
    """
    with told(path, needed=len(data)):
        path.write_bytes(data)


def replace_bytes(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, and lasts: a temporary name, fsync, rename.

    Raises:
        DatasetError: The disk is full or the folder can't be written to; what was there is as it was.
    """
    temporary = path.with_name(path.name + ".tmp")
    with told(path, needed=len(data)):
        try:
            with temporary.open("wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.rename(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        fsync_path(path.parent)


def json_bytes(value: Any) -> bytes:
    """``value`` as JSON text with two-space indent, keys in the order given; see :func:`plain`."""
    return (json.dumps(plain(value), indent=2, allow_nan=False) + "\n").encode()


def plain(value: Any) -> Any:
    """``value`` in JSON's own types: arrays and tuples become lists, paths text, NaN and infinities null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        DatasetError: It is missing, can't be read, or isn't JSON; the message names the file.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as e:
        raise DatasetError(f"{path} is missing") from e
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as e:
        raise DatasetError(f"{path} can't be read ({e})") from e


def rename(source: Path, target: Path) -> None:
    """Move a finished file or folder to its name, durably; both lie on one file system."""
    os.rename(source, target)
    fsync_path(target.parent)
    if source.parent != target.parent:
        fsync_path(source.parent)


def link_or_copy(source: Path, target: Path) -> None:
    """The same bytes under a second name: a hard link, or a copy where the file system has none."""
    try:
        os.link(source, target)
    except OSError as e:
        if e.errno in FULL:
            raise
        shutil.copyfile(source, target)


def make_dirs(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        DatasetError: It can't be made there; the message says why.
    """
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def told(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into a :class:`DatasetError` about ``path``; see :func:`disk_trouble`."""
    try:
        yield
    except OSError as e:
        raise disk_trouble(e, path, needed) from e


def disk_trouble(error: OSError, path: Path, needed: int | None = None) -> DatasetError:
    """What to tell about a file that could not be written: which, why, how much is needed and free, and the mend.

    Args:
        error: As the system raised it.
        path: The file or folder at stake.
        needed: Bytes that were to be written there, if known.
    """
    if error.errno not in FULL:
        return DatasetError(
            f"{path} can't be written: {error.strerror or error}. Use another --out, or mend its rights."
        )
    need = f", about {_megabytes(needed)} more needed" if needed else ""
    return DatasetError(
        f"{path}: {FULL[error.errno]} ({_megabytes(_free_bytes(path))} free{need}). "
        "Free some space and go on with --resume; saved episodes are whole."
    )


def _free_bytes(path: Path) -> int:
    for folder in (path, *path.parents):
        if folder.exists():
            return shutil.disk_usage(folder).free
    return 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
