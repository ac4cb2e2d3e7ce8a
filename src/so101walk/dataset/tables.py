"""The parquet files of a LeRobot v3 dataset, made with pyarrow alone: rows, the table of episodes, the tasks.

Importing LeRobot's own writer takes about 10 s and brings torch; the format is columns and a few names. That what is
written here equals what stock LeRobot writes, column by column and type by type, is tested in ``tests/clients``.
"""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import DatasetError
from . import stats as statistics
from .schema import CHUNK, IMAGE

__all__ = [
    "aggregate_stats",
    "column",
    "column_stats",
    "data_table",
    "episode_row",
    "episodes_table",
    "parquet_bytes",
    "read_parquet",
    "reindexed",
    "reindexed_row",
    "stacked_stats",
    "tasks_table",
]

Features = Mapping[str, Mapping[str, Any]]


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as the bytes of a parquet file; the same table gives the same bytes."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="snappy", use_dictionary=True)
    return sink.getvalue()


def read_parquet(path: Path) -> pa.Table:
    """A parquet file as a table.

    Raises:
        DatasetError: It is missing or torn; the message names the file.
    """
    try:
        return pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)
    except FileNotFoundError as e:
        raise DatasetError(f"{path} is missing") from e
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path} is torn ({str(e).splitlines()[0]})") from e


def data_table(features: Features, columns: Mapping[str, NDArray[Any]], fps: int) -> pa.Table:
    """The rows of one episode as LeRobot stores them, numbered as the only episode of a dataset.

    Args:
        features: See :func:`~so101walk.dataset.schema.features`.
        columns: Our own columns by name: (n, d) for vectors, (n,) for scalars.
        fps: Frames a second; ``timestamp`` is ``frame_index / fps``.
    """
    n = len(next(iter(columns.values())))
    frame = np.arange(n, dtype=np.int64)
    zero = np.zeros(n, dtype=np.int64)
    rows = {**columns, "frame_index": frame, "timestamp": frame / fps}
    rows |= {"episode_index": zero, "index": frame, "task_index": zero}
    names = [name for name, f in features.items() if f["dtype"] != "video"]
    arrays = [_array(features[name], rows[name]) for name in names]
    schema = pa.schema([pa.field(name, a.type) for name, a in zip(names, arrays, strict=True)])
    hub = {"info": {"features": {name: _hub_type(features[name]) for name in names}}}
    return pa.Table.from_arrays(arrays, schema=schema.with_metadata({"huggingface": json.dumps(hub)}))


def _array(feature: Mapping[str, Any], values: NDArray[Any]) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values, dtype=feature["dtype"]).ravel())
    width = int(feature["shape"][0])
    return flat if width == 1 else pa.FixedSizeListArray.from_arrays(flat, width)


def _hub_type(feature: Mapping[str, Any]) -> dict[str, Any]:
    value = {"dtype": feature["dtype"], "_type": "Value"}
    width = int(feature["shape"][0])
    return value if width == 1 else {"feature": value, "length": width, "_type": "List"}


def column(table: pa.Table, name: str) -> NDArray[Any]:
    """A column as numpy: (n, d) for a column of lists, else (n,)."""
    chunk = table.column(name).combine_chunks()
    if pa.types.is_fixed_size_list(chunk.type):
        return chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), -1)
    return chunk.to_numpy(zero_copy_only=False)


def reindexed(table: pa.Table, episode: int, start: int, task: int) -> pa.Table:
    """Rows numbered as episode ``episode`` of a dataset in which they begin at row ``start``."""
    n = len(table)
    numbers = {
        "episode_index": np.full(n, episode, dtype=np.int64),
        "index": np.arange(start, start + n, dtype=np.int64),
        "task_index": np.full(n, task, dtype=np.int64),
    }
    for name, values in numbers.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values))
    return table


def column_stats(table: pa.Table) -> dict[str, statistics.Stats]:
    """Statistics of every column of an episode's rows, by name."""
    return {name: statistics.of_column(column(table, name)) for name in table.column_names}


def episode_row(rows: int, task: str, fps: int, stats: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One row of the table of episodes, for the only episode of a dataset.

    Args:
        rows: How many it has.
        task: What it does, in words.
        fps: Frames a second.
        stats: Statistics of each column, images too, by the column's name.
    """
    row: dict[str, Any] = {"episode_index": 0, "tasks": [task], "length": rows}
    row |= {"data/chunk_index": 0, "data/file_index": 0, "dataset_from_index": 0, "dataset_to_index": rows}
    for name in stats:
        if name.startswith(IMAGE):
            row |= {f"videos/{name}/chunk_index": 0, f"videos/{name}/file_index": 0}
            row |= {f"videos/{name}/from_timestamp": 0.0, f"videos/{name}/to_timestamp": rows / fps}
    for name, found in stats.items():
        row |= _stats_cells(name, found)
    return {**row, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}


def _stats_cells(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    values = {statistic: found[statistic] for statistic in statistics.STATISTICS}
    return {f"stats/{name}/{s}": v.tolist() if isinstance(v, np.ndarray) else v for s, v in values.items()}


def reindexed_row(row: Mapping[str, Any], episode: int, start: int, task: int) -> dict[str, Any]:
    """A row of the table of episodes renumbered as :func:`reindexed` does the rows of data."""
    n = row["length"]
    moved = dict(row)
    moved |= {"episode_index": episode, "dataset_from_index": start, "dataset_to_index": start + n}
    for name in row:
        if name.endswith("/chunk_index") and not name.startswith("meta/"):
            moved[name] = episode // CHUNK
        elif name.endswith("/file_index") and not name.startswith("meta/"):
            moved[name] = episode % CHUNK
    moved |= _stats_cells("episode_index", statistics.of_column(np.full(n, episode)))
    moved |= _stats_cells("index", statistics.of_column(np.arange(start, start + n)))
    moved |= _stats_cells("task_index", statistics.of_column(np.full(n, task)))
    return moved


def episodes_table(features: Features, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The table of episodes (``meta/episodes``) from its rows, with LeRobot's types."""
    fields = [
        ("episode_index", pa.int64()),
        ("tasks", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("length", "data/chunk_index", "data/file_index")),
        *((name, pa.int64()) for name in ("dataset_from_index", "dataset_to_index")),
    ]
    videos = [name for name in features if name.startswith(IMAGE)]
    for name in videos:
        fields += [(f"videos/{name}/{part}_index", pa.int64()) for part in ("chunk", "file")]
        fields += [(f"videos/{name}/{end}_timestamp", pa.float64()) for end in ("from", "to")]
    vector = pa.list_(pa.float64())
    for name in [*(n for n in features if n not in videos), *videos]:
        kind = pa.list_(pa.list_(vector)) if name in videos else vector
        for statistic in statistics.STATISTICS:
            fields.append((f"stats/{name}/{statistic}", pa.list_(pa.int64()) if statistic == "count" else kind))
    fields += [(f"meta/episodes/{part}_index", pa.int64()) for part in ("chunk", "file")]
    return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields))


def stacked_stats(table: pa.Table, name: str, shape: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    """The statistics of column ``name`` in all episodes: (episodes, *shape) by statistic, ``count`` (episodes, 1)."""
    found = {}
    for statistic in statistics.STATISTICS:
        values = table.column(f"stats/{name}/{statistic}").combine_chunks()
        while pa.types.is_list(values.type):
            values = values.flatten()
        wanted = (1,) if statistic == "count" else shape
        found[statistic] = values.to_numpy(zero_copy_only=False).reshape(len(table), *wanted)
    return found


def aggregate_stats(features: Features, table: pa.Table) -> dict[str, statistics.Stats]:
    """Statistics of every column over all rows of the table of episodes: what ``meta/stats.json`` holds."""
    total = {}
    for name, feature in features.items():
        shape = (3, 1, 1) if name.startswith(IMAGE) else tuple(feature["shape"])
        total[name] = statistics.aggregate(stacked_stats(table, name, shape))
    return total


def tasks_table(tasks: Sequence[str]) -> pa.Table:
    """The table of tasks, which pandas reads back with the task's text as its index, as LeRobot expects."""
    columns = [
        {
            "name": "task_index",
            "field_name": "task_index",
            "pandas_type": "int64",
            "numpy_type": "int64",
            "metadata": None,
        },
        {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": None},
    ]
    index = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [{**index, "metadata": {"encoding": "UTF-8"}}],
        "columns": columns,
        "attributes": {},
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], metadata={"pandas": json.dumps(pandas)})
    return pa.table([pa.array(range(len(tasks)), pa.int64()), pa.array(list(tasks), pa.string())], schema=schema)
