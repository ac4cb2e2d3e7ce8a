"""Latents of every frame, made in one streaming pass and kept in a cache by content.

The key of an entry is a digest of the dataset's files, the cameras, the stride and the encoder's fingerprint, so a
changed image, weight or preprocessing is another entry. Entries are written beside their place and renamed into it.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from ..errors import So101WalkError, UsageError
from .encoders import Encoder, check_latents
from .samples import Samples
from .stream import Batch, batches

__all__ = ["Latents", "Notes", "cache_dir", "dataset_digest", "extract"]

Progress = Callable[[int, int], None]
"""Called with frames done and frames in all."""


@dataclass(frozen=True)
class Latents:
    """Latents of the encoded rows of a dataset.

    Attributes:
        spec: Who made them.
        array: Memory-mapped where they come from the cache. Shape (n, d).
        made_s: When they were first computed [s since the epoch].
        cached: Whether they were there already.
        notes: Where facts about them may be kept, None if they aren't cached.
    """

    spec: str
    array: NDArray[Any]
    made_s: float
    cached: bool
    notes: "Notes | None" = None

    @property
    def width(self) -> int:
        """Values a frame."""
        return int(self.array.shape[1])


@dataclass(frozen=True)
class Notes:
    """Facts about cached content, kept beside it so that the next probe needn't find them again."""

    path: Path

    @classmethod
    def of_dataset(cls, digest: str) -> "Notes":
        """Facts about the dataset of a digest."""
        return cls(_usable(cache_dir()) / f"dataset-{digest[:32]}.notes.json")

    def get(self, name: str) -> Any:
        """The fact of a name, None if there is none."""
        return _read_json(self.path).get(name)

    def keep(self, name: str, value: Any) -> None:
        """Keep a fact (JSON)."""
        _write_json(self.path, {**_read_json(self.path), name: value})


def cache_dir() -> Path:
    """``$XDG_CACHE_HOME/so101walk/latents``, or ``~/.cache/so101walk/latents``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "so101walk" / "latents"


def dataset_digest(dataset: Dataset, cameras: Sequence[str]) -> str:
    """Digest of a dataset's rows and of the images of some cameras; the same wherever the folder lies."""
    files = {dataset.root / "meta/info.json", *(dataset.root / "meta/episodes").glob("*/*.parquet")}
    for episode in dataset.episodes:
        files.add(episode.data_file)
        files.update(span.path for camera, span in episode.videos.items() if camera in cameras)
    digest = hashlib.blake2b(digest_size=32)
    for path in sorted(files):
        digest.update(str(path.relative_to(dataset.root)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def extract(
    dataset: Dataset,
    digest: str,
    samples: Samples,
    cameras: tuple[str, ...],
    encoders: Sequence[Encoder],
    batch: int,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> list[Latents]:
    """Latents of every encoded row by each encoder; the dataset is decoded once, or not at all if all are cached.

    Args:
        dataset: What to decode.
        digest: Its :func:`dataset_digest` for these cameras.
        samples: Which rows.
        cameras: Column names of the views.
        encoders: Who encodes.
        batch: Frames a batch.
        progress: Told after every batch.
        cache: Folder of the cache, :func:`cache_dir` if None.

    Raises:
        UsageError: An encoder gives a wrong shape or a value that isn't finite, or ``batch`` is below 1.
        So101WalkError: No memory for a batch, or no room for the latents.
        DatasetError: An image can't be decoded.
    """
    if batch < 1:
        raise UsageError(f"--batch is {batch}; it must be at least 1")
    folder = _usable(cache or cache_dir())
    jobs = [_Job(encoder, *_place(folder, digest, samples, cameras, encoder)) for encoder in encoders]
    todo = [job for job in jobs if job.load(len(samples.rows)) is None]
    if todo:
        try:
            for frames in batches(dataset, samples, cameras, batch):
                for job in todo:
                    job.take(frames, samples)
                if progress is not None:
                    progress(frames.part.stop, len(samples.rows))
        except OSError as e:
            raise So101WalkError(
                f"{folder}: no room for the latents ({e.strerror}); set XDG_CACHE_HOME to a larger disk"
            ) from e
        finally:
            for job in todo:
                job.close(len(samples.rows))
    return [job.result() for job in jobs]


@dataclass
class _Job:
    """One encoder's latents on the way into the cache."""

    encoder: Encoder
    path: Path
    keep: bool
    array: NDArray[Any] | None = None
    partial: Path | None = None
    made_s: float = 0.0
    cached: bool = False
    done: int = field(default=0)

    def load(self, rows: int) -> NDArray[Any] | None:
        if not self.keep:
            return None
        facts = _read_json(self.path.with_suffix(".json"))
        try:
            array = np.load(self.path, mmap_mode="r") if facts.get("rows") == rows else None
        except (OSError, ValueError, EOFError):
            return None
        if array is not None and len(array) == rows:
            self.array, self.made_s, self.cached = array, float(facts["made_s"]), True
            return array
        return None

    def take(self, frames: Batch, samples: Samples) -> None:
        latents = _encode(self.encoder, frames)
        check_latents(self.encoder.spec, latents, len(frames), lambda i: samples.where(frames.start + i))
        if self.array is None:
            self.made_s = time.time()
            descriptor, name = tempfile.mkstemp(suffix=".partial", dir=self.path.parent)
            os.close(descriptor)
            self.partial = Path(name)
            kind = np.uint8 if latents.dtype == np.uint8 else np.float32
            shape = (len(samples.rows), latents.shape[1])
            _refuse_full_disk(self.path.parent, shape[0] * shape[1] * np.dtype(kind).itemsize)
            self.array = np.lib.format.open_memmap(self.partial, mode="w+", dtype=kind, shape=shape)
        if latents.shape[1] != self.array.shape[1]:
            raise UsageError(
                f"encoder {self.encoder.spec} gave {latents.shape[1]} values a frame from "
                f"{samples.where(frames.start)} on, {self.array.shape[1]} before"
            )
        self.array[frames.part] = latents
        self.done = frames.part.stop

    def close(self, rows: int) -> None:
        """Rename a whole set of latents into place; remove a part of one."""
        if self.partial is None:
            return
        if self.done == rows and self.array is not None and self.keep:
            self.array.flush()  # type: ignore[attr-defined]
            os.replace(self.partial, self.path)
            _write_json(
                self.path.with_suffix(".json"), {"spec": self.encoder.spec, "rows": rows, "made_s": self.made_s}
            )
        else:
            self.partial.unlink()  # the mapping stays readable for as long as this process needs it

    def result(self) -> Latents:
        assert self.array is not None
        notes = Notes(self.path.with_suffix(".notes.json")) if self.keep else None
        return Latents(self.encoder.spec, self.array, self.made_s, self.cached, notes)


def _encode(encoder: Encoder, frames: Batch) -> NDArray[Any]:
    try:
        return np.asarray(encoder.encode(frames.views))
    except (MemoryError, RuntimeError) as e:
        text = str(e).lower()
        if not isinstance(e, MemoryError) and "memory" not in text:
            raise
        sizes = ", ".join(f"{v.shape[2]}x{v.shape[1]}" for v in frames.views)
        raise So101WalkError(
            f"no memory to encode a batch of {len(frames)} frames ({sizes} px) with {encoder.spec}; lower --batch"
        ) from e


def _place(
    folder: Path, digest: str, samples: Samples, cameras: tuple[str, ...], encoder: Encoder
) -> tuple[Path, bool]:
    if encoder.fingerprint is None:
        return folder / "uncached.npy", False
    text = json.dumps([digest, list(cameras), samples.stride, encoder.fingerprint])
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npy", True


def _usable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as e:
        raise So101WalkError(
            f"{folder} can't be written ({e.strerror}); set XDG_CACHE_HOME to a folder that can"
        ) from e


def _refuse_full_disk(folder: Path, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if need > free:
        raise So101WalkError(
            f"{folder}: the latents need {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; "
            "raise --stride or set XDG_CACHE_HOME to a larger disk"
        )


def _read_json(path: Path | None) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".partial", delete=False) as file:
        json.dump(value, file)
    os.replace(file.name, path)
