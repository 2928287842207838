"""Shuffle records by partition, through files.

Every task writes one file that is divided into partitions. A task of the next phase reads its partition from all files.
No data passes through the driver, and no worker holds more than one partition.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_stored

Records = npt.NDArray[np.void]
_COUNT = struct.Struct("<q")


def write_records(path: str, records: Records, partition: npt.NDArray[np.integer], count: int) -> None:
    """Write records grouped by partition; inside a partition their order is unchanged."""
    order = np.argsort(partition, kind="stable")
    borders = np.searchsorted(partition[order], np.arange(count + 1)).astype(np.int64) * records.itemsize
    with atomic_write(path) as stream:
        stream.write(_COUNT.pack(count))
        stream.write(borders.tobytes())
        stream.write(np.ascontiguousarray(records[order]).tobytes())


def read_records(paths: Iterable[str], partition: int, dtype: np.dtype[np.void]) -> Records:
    """Read one partition from many files."""
    parts = [np.frombuffer(part, dtype=dtype) for part in _parts(paths, partition) if part]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def read_span(paths: Iterable[str], partition: int, partitions: int, dtype: np.dtype[np.void]) -> Records:
    """Read a superset of a partition from files that were divided, by hash range, into another number of partitions."""
    parts = []
    for path in paths:
        with open_stored(path) as stream:
            (count,) = _COUNT.unpack(stream.read(_COUNT.size))
            borders = np.frombuffer(stream.read(8 * (count + 1)), dtype=np.int64)
            start, stop = borders[partition * count // partitions], borders[-(-(partition + 1) * count // partitions)]
            stream.seek(_COUNT.size + 8 * (count + 1) + int(start))
            parts.append(np.frombuffer(stream.read(int(stop - start)), dtype=dtype))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def write_tables(path: str, tables: Sequence[pa.Table]) -> None:
    """Write one table per partition."""
    parts = [_serialised(table) if table.num_rows else pa.py_buffer(b"") for table in tables]
    with atomic_write(path) as stream:
        stream.write(_COUNT.pack(len(parts)))
        stream.write(np.cumsum([0, *(part.size for part in parts)], dtype=np.int64).tobytes())
        for part in parts:
            stream.write(part)


def read_tables(paths: Iterable[str], partition: int) -> Iterator[pa.Table]:
    """Yield the tables of one partition."""
    for part in _parts(paths, partition):
        if part:
            with pa.ipc.open_stream(part) as reader:
                yield reader.read_all()


def _serialised(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _parts(paths: Iterable[str], partition: int) -> Iterator[bytes]:
    for path in paths:
        with open_stored(path) as stream:
            (count,) = _COUNT.unpack(stream.read(_COUNT.size))
            header = _COUNT.size + 8 * (count + 1)
            stream.seek(_COUNT.size + 8 * partition)
            start, stop = struct.unpack("<qq", stream.read(16))
            stream.seek(header + start)
            yield stream.read(stop - start)
