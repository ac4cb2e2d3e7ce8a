"""Latents that come from outside: a Python callable of the user's, or a file that another program wrote."""

import hashlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .encoders import EncoderOptions, Views

__all__ = ["PythonEncoder", "StoredLatents", "load_latents", "load_python"]

ARRAYS = ("latents", "episode_index", "frame_index")


@dataclass(frozen=True)
class PythonEncoder:
    """A callable: frames uint8 (n, cameras, H, W, 3) in, latents (n, d) out.

    Its latents are cached only when it has an attribute ``fingerprint`` (a text that changes with its weights): a
    file of weights that it reads can't be seen from here, and a stale latent would be a wrong measurement.
    """

    spec: str
    function: Callable[[NDArray[np.uint8]], Any]
    fingerprint: str | None

    def encode(self, views: Views) -> NDArray[Any]:
        """Call it with the views stacked; views of another size than the first camera's are resized to that."""
        return np.asarray(self.function(np.stack(_same_size(views), axis=1)))


def _same_size(views: Views) -> list[NDArray[np.uint8]]:
    import cv2

    height, width = views[0].shape[1:3]
    fitted = [views[0]]
    for view in views[1:]:
        if view.shape[1:3] != (height, width):
            resized = [cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA) for image in view]
            view = np.stack(resized).astype(np.uint8)
        fitted.append(view)
    return fitted


def load_python(argument: str, options: EncoderOptions) -> PythonEncoder:
    """``python:MODULE:CALLABLE``; the module may lie in the working folder."""
    module_name, _, name = argument.partition(":")
    if not module_name or not name:
        raise UsageError(f"encoder python:{argument} must be python:MODULE:CALLABLE")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as e:
        raise UsageError(f"encoder python:{argument}: module {module_name!r} can't be imported ({e})") from e
    finally:
        sys.path.pop(0)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"encoder python:{argument}: {module_name!r} has no callable {name!r}")
    own = getattr(function, "fingerprint", None)
    source = Path(module.__file__).read_bytes() if module.__file__ else b""
    fingerprint = None if own is None else f"{argument} {own} {hashlib.sha256(source).hexdigest()}"
    return PythonEncoder(f"python:{argument}", function, fingerprint)


@dataclass(frozen=True)
class StoredLatents:
    """Latents (n, d) in a file, by episode and frame number."""

    spec: str
    path: Path
    latents: NDArray[np.floating]
    episode_index: NDArray[np.int64]
    frame_index: NDArray[np.int64]
    made_s: float

    def read(self, episode: NDArray[np.int64], frame: NDArray[np.int64]) -> NDArray[np.floating]:
        """The rows of the frames asked for.

        Raises:
            UsageError: Some frame isn't in the file, is there twice, or isn't finite.
        """
        place = {(int(e), int(f)): i for i, (e, f) in enumerate(zip(self.episode_index, self.frame_index, strict=True))}
        if len(place) != len(self.latents):
            raise UsageError(f"{self.path}: {len(self.latents) - len(place)} frames are in it more than once")
        rows = [place.get((int(e), int(f))) for e, f in zip(episode, frame, strict=True)]
        missing = [i for i, row in enumerate(rows) if row is None]
        if missing:
            first = missing[0]
            raise UsageError(
                f"{self.path} misses {len(missing)} of {len(rows)} frames, the first of them episode {episode[first]} "
                f"frame {frame[first]}; encode every frame, or probe with the --stride it was made with"
            )
        return self.latents[np.array(rows, dtype=np.int64)]


def load_latents(argument: str, options: EncoderOptions) -> StoredLatents:
    """``latents:FILE``: .npz or .h5 with the arrays ``latents``, ``episode_index``, ``frame_index``, or .parquet with
    such columns."""
    path = Path(argument)
    if not path.is_file():
        raise UsageError(f"encoder latents:{argument}: there is no such file")
    readers = {".npz": _read_npz, ".h5": _read_h5, ".hdf5": _read_h5, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise UsageError(f"{path}: latents are read from .npz, .h5 or .parquet")
    try:
        found = readers[path.suffix](path)
    except (OSError, ValueError, KeyError) as e:
        raise UsageError(f"{path}: can't be read ({e}); it must hold {', '.join(ARRAYS)}") from e
    latents, episode, frame = (np.asarray(found[name]) for name in ARRAYS)
    if latents.ndim != 2 or latents.dtype.kind != "f":
        raise UsageError(f"{path}: latents are {latents.dtype} {latents.shape}; they must be floats (n, d)")
    for name, array in (("episode_index", episode), ("frame_index", frame)):
        if array.shape != (len(latents),) or array.dtype.kind not in "iu":
            raise UsageError(f"{path}: {name} is {array.dtype} {array.shape}; it must be integers ({len(latents)},)")
    return StoredLatents(f"latents:{argument}", path, latents, episode, frame, path.stat().st_mtime)


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in ARRAYS}


def _read_h5(path: Path) -> dict[str, Any]:
    import h5py

    with h5py.File(path, "r") as file:
        return {name: file[name][...] for name in ARRAYS}


def _read_parquet(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=list(ARRAYS), use_threads=False)
    except pa.ArrowException as e:
        raise ValueError(str(e).splitlines()[0]) from e
    missing = [name for name in ARRAYS if name not in table.column_names]
    if missing:
        raise KeyError(missing[0])
    return {name: np.asarray(table[name].to_pylist()) for name in ARRAYS}
