"""Parquet and JSON files of any LeRobot dataset, read with pyarrow; every failure is one line that names the file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import DatasetError

__all__ = ["parquet_names", "read_json", "read_parquet", "to_numpy"]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a dataset.

    Raises:
        DatasetError: It can't be read, or isn't a JSON object.
    """
    try:
        value = json.loads(path.read_text())
    except OSError as e:
        raise DatasetError(f"{path}: can't be read ({e.strerror})") from e
    except ValueError as e:
        raise DatasetError(f"{path}: not valid JSON, probably torn ({e})") from e
    if not isinstance(value, dict):
        raise DatasetError(f"{path}: holds a {type(value).__name__} where a JSON object must stand")
    return value


def read_parquet(path: Path, names: list[str] | None = None, hint: str = "", episode: int | None = None) -> pa.Table:
    """A table from a Parquet file of a dataset, read in the calling thread.

    (Arrow's thread pool is left alone: in a process that ends soon after it was used, its threads can abort the exit.)

    Args:
        path: The file.
        names: Columns to read, None for all.
        hint: Added to the message of an error.
        episode: Only the rows of this episode, from the row groups that hold it.

    Raises:
        DatasetError: It is missing, torn, or has no such column.
    """
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            present = file.schema_arrow.names
            lacking = [n for n in names or () if n not in present]
            if lacking:
                raise DatasetError(f"{path}: lacks column {lacking[0]!r}, which the metadata promises{hint}")
            if episode is None:
                return file.read(columns=names, use_threads=False)
            wanted = None if names is None else [*dict.fromkeys([*names, "episode_index"])]
            groups = _groups_of(file.metadata, episode)
            table = file.read_row_groups(groups, columns=wanted, use_threads=False)
            return _only(table, to_numpy(table["episode_index"]) == episode)
    except FileNotFoundError as e:
        raise DatasetError(f"{path}: the file is missing{hint}") from e
    except (pa.ArrowException, OSError) as e:
        reason = str(e).splitlines()[0].rstrip(".")[:90]
        raise DatasetError(f"{path}: can't be read, torn or truncated ({reason}){hint}") from e


def _groups_of(metadata: pq.FileMetaData, episode: int) -> list[int]:
    """Row groups that may hold rows of an episode, by the statistics of ``episode_index`` where there are any."""
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    if "episode_index" not in paths:
        return list(range(metadata.num_row_groups))
    at, found = paths.index("episode_index"), []
    for group in range(metadata.num_row_groups):
        stats = metadata.row_group(group).column(at).statistics
        if stats is None or not stats.has_min_max or stats.min <= episode <= stats.max:
            found.append(group)
    return found


def _only(table: pa.Table, wanted: NDArray[np.bool_]) -> pa.Table:
    """The wanted rows, by slices; an episode's rows lie together."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    slices = [table.slice(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return pa.concat_tables(slices) if slices else table.slice(0, 0)


def parquet_names(path: Path, hint: str = "") -> list[str]:
    """Names of the columns of a Parquet file. Raises as :func:`read_parquet`."""
    try:
        return list(pq.read_schema(path, memory_map=True).names)
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path}: can't be read, torn or truncated{hint}") from e


def to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column as an array: (n,) for scalars, (n, d) for lists of d, (n, d, e) for lists of lists."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    n, shape = len(array), []
    while pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type) or pa.types.is_large_list(array.type):
        inner = array.flatten()
        width = len(inner) // max(len(array), 1)
        if width * len(array) != len(inner):
            return np.array(column.to_pylist(), dtype=object)
        shape.append(width)
        array = inner
    return _flat(array).reshape(n, *shape)


def _flat(array: pa.Array) -> NDArray[Any]:
    """A plain array; numbers go by DLPack, since Arrow's own ``to_numpy`` first imports pandas, half a second of it."""
    plain = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if plain and array.null_count == 0 and len(array):
        return np.from_dlpack(array)
    return array.to_numpy(zero_copy_only=False)
