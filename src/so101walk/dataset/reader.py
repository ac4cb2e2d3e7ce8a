"""Read any LeRobot v3 dataset from a local folder: columns, images and metadata, as a stream and never from the Hub.

Ours have one data file and one video per camera an episode; other recorders put several episodes into a file. Both
read alike. Only pyarrow and PyAV are needed (no LeRobot, no torch), so opening takes milliseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DatasetError, nearest
from . import decoding
from .columns import read_json, read_parquet, to_numpy
from .episodes import Episode, episode_files, read_episodes, read_info
from .schema import META, STATS, TASKS

__all__ = ["Dataset", "Episode"]

IMAGE_DTYPES = ("video", "image")


@dataclass(frozen=True)
class Dataset:
    """A LeRobot v3 dataset in a local folder.

    Attributes:
        root: The folder.
        info: ``meta/info.json`` as it stands.
        fps: Frames a second.
        features: Name of each column to its ``dtype``, ``shape`` and ``names``.
        episodes: In order of their index.

    Example:
        >>> dataset = Dataset.open("datasets/demo")                     # doctest: +SKIP
        >>> q = dataset.columns(["observation.state"], episode=0)["observation.state"]   # (n, 6)
        >>> for image in dataset.frames("front", episode=0): ...        # (H, W, 3) uint8
    """

    root: Path
    info: dict[str, Any]
    episodes: tuple[Episode, ...]

    @classmethod
    def open(cls, path: str | Path, strict: bool = True) -> "Dataset":
        """Open the dataset in folder ``path``; reads metadata only.

        Args:
            path: The folder that holds ``meta/info.json``.
            strict: Refuse a dataset whose counters disagree with its episodes or that misses files. ``check`` opens
                without, to report what is wrong.

        Raises:
            DatasetError: There is no dataset, it is of another version, or its metadata is torn.
        """
        root = Path(path)
        info = read_info(root)
        dataset = cls(root, info, read_episodes(root, info))
        if strict:
            dataset._refuse_if_incomplete()
        return dataset

    @property
    def fps(self) -> int:
        """Frames a second."""
        return int(self.info["fps"])

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Name of each column to its ``dtype``, ``shape`` and ``names``, as in ``meta/info.json``."""
        return self.info["features"]

    @property
    def robot_type(self) -> str | None:
        """Which robot the recorder says it was."""
        return self.info.get("robot_type")

    @property
    def frame_count(self) -> int:
        """Rows in all episodes together."""
        return sum(e.length for e in self.episodes)

    @property
    def cameras(self) -> tuple[str, ...]:
        """Column names of the colour cameras, for example ``observation.images.front``."""
        return tuple(
            name
            for name, f in self.features.items()
            if f["dtype"] in IMAGE_DTYPES and not (f.get("info") or {}).get("is_depth_map")
        )

    @cached_property
    def meta(self) -> dict[str, Any] | None:
        """What so101walk wrote about its own dataset (``meta/so101walk.json``), None for other recorders' datasets."""
        path = self.root / META
        return read_json(path) if path.is_file() else None

    @cached_property
    def stats(self) -> dict[str, dict[str, NDArray[np.float64]]] | None:
        """Statistics of each column over the dataset (``meta/stats.json``), None where there are none."""
        path = self.root / STATS
        if not path.is_file():
            return None
        return {name: {k: np.asarray(v, dtype=float) for k, v in s.items()} for name, s in read_json(path).items()}

    @cached_property
    def tasks(self) -> dict[int, str]:
        """Task texts by ``task_index``."""
        path = self.root / TASKS
        if not path.is_file():
            return {}
        table = read_parquet(path)
        text = next((n for n in ("task", "__index_level_0__") if n in table.column_names), None)
        texts = table[text].to_pylist() if text else [""] * len(table)
        return dict(zip(table["task_index"].to_pylist(), texts, strict=True))

    def episode_stats(self) -> dict[int, dict[str, dict[str, NDArray[np.float64]]]]:
        """Statistics of each column by episode index, from the metadata; empty where there are none."""
        found: dict[int, dict[str, dict[str, NDArray[np.float64]]]] = {}
        for path in episode_files(self.root):
            table = read_parquet(path)
            keys = [n for n in table.column_names if n.startswith("stats/")]
            for row, index in enumerate(table["episode_index"].to_pylist()):
                stats: dict[str, dict[str, NDArray[np.float64]]] = {}
                for key in keys:
                    name, stat = key.removeprefix("stats/").rsplit("/", 1)
                    value = table[key][row].as_py()
                    if value is not None:
                        stats.setdefault(name, {})[stat] = np.asarray(value, dtype=float)
                found[index] = stats
        return found

    def names(self, feature: str) -> tuple[str, ...]:
        """Names of the elements of a vector column, or ``feature[i]`` where the recorder gave none."""
        spec = self.features[feature]
        given = spec.get("names")
        while isinstance(given, dict):
            given = next(iter(given.values()), None)
        size = int(np.prod(spec["shape"]))
        if isinstance(given, list) and len(given) == size:
            return tuple(str(n) for n in given)
        return tuple(f"{feature}[{i}]" for i in range(size))

    def camera(self, name: str) -> str:
        """The column of a camera called by its column name or by that name's last part (``front``).

        Raises:
            DatasetError: There is no such camera; the known ones are offered.
        """
        if name in self.cameras:
            return name
        short = {c.rsplit(".", 1)[-1]: c for c in self.cameras}
        if name in short:
            return short[name]
        raise DatasetError(f"{self.root} has no camera {name!r}; {nearest(name, short)}")

    def episode(self, index: int) -> Episode:
        """The episode of an index.

        Raises:
            DatasetError: There is none.
        """
        for e in self.episodes:
            if e.index == index:
                return e
        raise DatasetError(f"{self.root} has no episode {index}; it has {len(self.episodes)}, from 0 on")

    def columns(self, names: Iterable[str], episode: int | None = None) -> dict[str, NDArray[Any]]:
        """Columns of the table, of one episode or of all in order.

        Args:
            names: Column names; images are read by :meth:`frames` instead.
            episode: Index of the episode, None for all.

        Returns:
            Name to array: (n,) for scalars, (n, d) for vectors, in the dtype they are stored in.

        Raises:
            DatasetError: A column doesn't exist, or a data file is missing or torn.
        """
        names = list(names)
        for name in names:
            self._refuse_unknown_column(name)
        if episode is not None:
            table = self._rows(self.episode(episode), names)
            return {name: to_numpy(table[name]) for name in names}
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        for path in dict.fromkeys(e.data_file for e in self.episodes):
            table = read_parquet(path, [*names, "index"], self.repair_hint)
            order = np.argsort(to_numpy(table["index"]), kind="stable")
            for name in names:
                parts[name].append(to_numpy(table[name])[order])
        return {name: np.concatenate(arrays) if arrays else np.empty(0) for name, arrays in parts.items()}

    def frames(self, camera: str, episode: int, stride: int = 1) -> Iterator[NDArray[np.uint8]]:
        """Stream the images of an episode in order: every ``stride``-th, beginning with frame 0.

        Args:
            camera: Column name or its last part.
            episode: Index of the episode.
            stride: 1 for every frame.

        Yields:
            RGB images (H, W, 3) uint8.

        Raises:
            DatasetError: No such camera or episode, or an image can't be decoded.
        """
        return self._images(self.camera(camera), self.episode(episode), range(0, self.episode(episode).length, stride))

    def decode_at(self, camera: str, episode: int, frame_indices: Sequence[int]) -> NDArray[np.uint8]:
        """The images of an episode at given frame numbers, in the order given; repeats are allowed.

        Args:
            camera: Column name or its last part.
            episode: Index of the episode.
            frame_indices: Numbers within the episode, n of them.

        Returns:
            RGB images (n, H, W, 3) uint8.

        Raises:
            DatasetError: No such camera, episode or frame, or an image can't be decoded.
        """
        name, e = self.camera(camera), self.episode(episode)
        asked = [int(i) for i in frame_indices]
        for i in asked:
            if not 0 <= i < e.length:
                raise DatasetError(f"episode {e.index} has no frame {i}; it has {e.length}, from 0 on")
        wanted = sorted(set(asked))
        if not wanted:
            height, width = self.features[name]["shape"][:2]
            return np.empty((0, height, width, 3), np.uint8)
        place = {number: k for k, number in enumerate(wanted)}
        images = np.stack(list(self._images(name, e, wanted)))
        return images if asked == wanted else images[[place[i] for i in asked]]

    def _images(self, camera: str, episode: Episode, wanted: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
        if camera in episode.videos:
            try:
                for _, frame in decoding.decode(episode.videos[camera], wanted):
                    yield cast(NDArray[np.uint8], frame.to_ndarray(format="rgb24"))
            except DatasetError as e:
                raise DatasetError(f"{e}{self.repair_hint}") from e
        else:
            yield from self._stored_images(camera, episode, wanted)

    def _stored_images(self, camera: str, episode: Episode, wanted: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
        import io

        from PIL import Image

        cells = self._rows(episode, [camera])[camera]
        for i in wanted:
            cell = cells[i].as_py()
            source = io.BytesIO(cell["bytes"]) if cell.get("bytes") else self.root / (cell.get("path") or "?")
            try:
                with Image.open(source) as image:
                    yield np.asarray(image.convert("RGB"))
            except OSError as e:
                raise DatasetError(
                    f"{self.root}: image {i} of {camera} in episode {episode.index} is torn ({e})"
                ) from e

    def _rows(self, episode: Episode, names: list[str]) -> pa.Table:
        table = read_parquet(episode.data_file, names, self.repair_hint, episode.index)
        if len(table) != episode.length:
            raise DatasetError(
                f"{episode.data_file}: episode {episode.index} has {len(table)} rows where the metadata says "
                f"{episode.length}{self.repair_hint}"
            )
        return table

    def _refuse_unknown_column(self, name: str) -> None:
        if name not in self.features:
            raise DatasetError(f"{self.root} has no column {name!r}; {nearest(name, self.features)}")
        if self.features[name]["dtype"] in IMAGE_DTYPES:
            raise DatasetError(f"column {name!r} of {self.root} holds images; read them with frames() or decode_at()")

    def _refuse_if_incomplete(self) -> None:
        counters = {"total_episodes": len(self.episodes), "total_frames": self.frame_count}
        for key, true in counters.items():
            if self.info.get(key) != true:
                raise DatasetError(
                    f"{self.root}/meta/info.json says {key} {self.info.get(key)}, the episodes' metadata has "
                    f"{true}{self.repair_hint}"
                )
        for e in self.episodes:
            for path in (e.data_file, *(span.path for span in e.videos.values())):
                if not path.is_file():
                    raise DatasetError(f"{path}: missing, though episode {e.index} needs it{self.repair_hint}")

    @property
    def repair_hint(self) -> str:
        """A tail for an error about a torn file: how to mend it, when the dataset is one of ours."""
        return f"; run `so101walk repair {self.root}`" if (self.root / META).is_file() else ""
