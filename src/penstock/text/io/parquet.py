"""Read and write Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.json_column import agree_on_json
from penstock.core.rejection import MAX_EXCERPT
from penstock.core.sizes import parse_bytes
from penstock.errors import InputError, MissingColumnError
from penstock.storage.filesystem import filesystem_of, is_local, open_stored, reading, refuse_special_file
from penstock.storage.formats import PARQUET
from penstock.text.io.arrow_types import unified, without_views
from penstock.text.io.reader import DocumentReader, DocumentReaderStage, ReadBatch, places
from penstock.text.io.writer import DocumentWriter
from penstock.text.text_column import is_text

MAX_ROW_BYTES = 256_000_000
# Options of ParquetFile, not of its read method.
_FILE_OPTIONS = ("memory_map", "buffer_size", "pre_buffer", "coerce_int96_timestamp_unit", "decryption_properties")
# A block is assembled from this many batches, so that its size stays close to the limit.
_BATCHES_PER_BLOCK = 8
_MAX_BATCH_ROWS = 1024
# Columns with a longer average value are not dictionary-encoded: long values hardly ever repeat.
_MAX_DICTIONARY_VALUE_BYTES = 256
# The largest row group written: a reader takes one row group at a time.
_ROW_GROUP_BYTES = 128 << 20
# Arrow checks after this many bytes whether a page is full (1 MB); its default is 1,024 rows of any size.
_PAGE_BYTES = 256 << 10


class _Rows(NamedTuple):
    """Rows of one file of a task."""

    file: int
    numbers: npt.NDArray[np.int64]
    batch: pa.RecordBatch


class _Look(NamedTuple):
    """The metadata of a file before it is read: the row groups of the task, and their decompressed size."""

    metadata: Any
    groups: list[int]
    size: int


class ParquetReaderStage(DocumentReaderStage):
    """Read a group of Parquet files, or some row groups of one file.

    A row of more than ``max_row_bytes`` goes to the dead-letter file with file and row number, and the rest is read.
    With ``text_field`` every file must have that column.

    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> from penstock.core.files import FileGroupTask
    >>> from penstock.testing import run_stage
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     pq.write_table(pa.table({"id": [1, 2], "text": ["one", "two"]}), file.name)
    ...     [batch] = run_stage(ParquetReaderStage(fields=["text"]), FileGroupTask("demo", [file.name]))
    >>> batch.to_pyarrow().to_pylist()
    [{'text': 'one'}, {'text': 'two'}]
    """

    name = "parquet_reader_stage"
    known_read_kwargs: ClassVar[tuple[str, ...] | None] = None
    reusable_process = True
    preload = ("penstock.text.io.parquet", "penstock.text.io.row_groups")

    def __init__(
        self,
        fields: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        text_field: str | None = None,
        *,
        max_row_bytes: int | str = MAX_ROW_BYTES,
        rows_are_places: bool = False,
    ) -> None:
        super().__init__(fields, read_kwargs, rows_are_places=rows_are_places)
        self.text_field = text_field
        self.max_row_bytes = parse_bytes(max_row_bytes)

    def read_pieces(self, task: FileGroupTask, blocksize: int) -> Iterator[ReadBatch]:
        """Read the rows of a task: in one piece if that fits into a block, otherwise in several."""
        looks = [self._look(path, task.reader_config.get("part")) for path in task.data]
        in_one = sum(look.size for look in looks) <= blocksize
        # With repeated values the data is larger than the metadata says; slightly more is acceptable.
        limit = 2 * blocksize if in_one else blocksize
        held: list[_Rows] = []
        held_bytes, is_last = 0, True
        schema: pa.Schema | None = None
        for rows in self._rows(task, looks, blocksize):
            if not held or held[-1].file != rows.file:
                schema = unified(schema, rows.batch.schema) if held and in_one else None
            if held and (held_bytes + rows.batch.nbytes > limit or schema is None):
                held_bytes, is_last = 0, False
                yield _piece(held, is_last)
            schema = schema or rows.batch.schema
            held.append(rows)
            held_bytes += rows.batch.nbytes
        if held:
            yield _piece(held, is_last)

    def _look(self, path: str, part: tuple[int, int] | None) -> _Look:
        """Read the metadata of a file and close it again: a task may have thousands of files."""
        with self._opened(path) as file:
            for field, parameter in [*((field, None) for field in self.fields or ()), (self.text_field, "text_field")]:
                if field is not None and field not in file.schema_arrow.names:
                    raise MissingColumnError(self.name, field, file.schema_arrow.names, parameter)
            groups = list(range(*(part or (0, file.num_row_groups))))
            return _Look(file.metadata, groups, _bytes_of(file, groups, self.fields))

    def _rows(self, task: FileGroupTask, looks: list[_Look], blocksize: int) -> Iterator[_Rows]:
        """Read the files of a task in turn, in small batches: their size is known only once they are read."""
        for number, (path, (metadata, groups, size)) in enumerate(zip(task.data, looks, strict=True)):
            with self._opened(path, metadata) as file, _naming(path):
                where, given = _rows_of(file, groups), 0
                fitting = len(where) * blocksize // (_BATCHES_PER_BLOCK * max(size, 1))
                for batch in file.iter_batches(
                    batch_size=max(1, min(fitting, _MAX_BATCH_ROWS)), row_groups=groups, **self._read_options()
                ):
                    numbers = where[given : given + batch.num_rows]
                    given += batch.num_rows
                    numbers, batch = self._without_large_rows(path, numbers, without_views(batch))
                    if batch.num_rows:
                        yield _Rows(number, numbers, batch)

    def _without_large_rows(
        self, path: str, numbers: npt.NDArray[np.int64], batch: pa.RecordBatch
    ) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """Reject rows that are larger than allowed."""
        if batch.nbytes <= self.max_row_bytes:
            return numbers, batch
        sizes = np.array([batch.slice(row, 1).nbytes for row in range(batch.num_rows)])
        for row in np.flatnonzero(sizes > self.max_row_bytes).tolist():
            reason = f"the row has {sizes[row]:,} bytes, more than max_row_bytes={self.max_row_bytes:,}"
            excerpt = _beginning(batch.slice(row, 1), self.text_field)
            self.reject(reason, source=path, position=int(numbers[row]) + 1, excerpt=excerpt)
        small = np.flatnonzero(sizes <= self.max_row_bytes)
        return numbers[small], batch.take(pa.array(small))

    @contextmanager
    def _opened(self, path: str, metadata: Any = None) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
        import pyarrow.parquet as pq

        options = {key: self.read_kwargs[key] for key in _FILE_OPTIONS if key in self.read_kwargs}
        with _stored(path, self.storage_options) as stream:
            with _naming(path):
                # Without pre_buffer, which would fetch every row group before the first is read.
                file = pq.ParquetFile(stream, metadata=metadata, **{"pre_buffer": False, **options})
            yield file

    def _read_options(self) -> dict[str, Any]:
        other = {
            key: value for key, value in self.read_kwargs.items() if key not in ("storage_options", *_FILE_OPTIONS)
        }
        return {"columns": self.fields, **other}


@contextmanager
def _stored(path: str, storage_options: dict[str, Any] | None) -> Iterator[Any]:
    """Open a file; a local file with Arrow's own reader, which does not go through Python."""
    filesystem, name = filesystem_of(path, storage_options)
    if not is_local(filesystem):
        with open_stored(path, storage_options) as stream:
            yield stream
        return
    refuse_special_file(name)
    with reading(path), pa.OSFile(name) as file:
        yield file


def _beginning(row: pa.RecordBatch, text_field: str | None) -> str:
    """Return the beginning of a row's text, or of its first text column."""
    texts = [name for name, column in zip(row.schema.names, row.columns, strict=True) if is_text(column.type)]
    wanted = text_field if text_field in texts else next(iter(texts), None)
    return "" if wanted is None else pc.utf8_slice_codeunits(row[wanted], 0, MAX_EXCERPT)[0].as_py() or ""


def _piece(held: list[_Rows], is_last: bool) -> ReadBatch:
    """Concatenate rows and clear ``held``: no reference to an emitted block may remain here."""
    where = np.concatenate([places(rows.file, rows.numbers) for rows in held])
    tables = [
        pa.Table.from_batches([rows.batch for rows in of_file])
        for _, of_file in groupby(held, key=lambda rows: rows.file)
    ]
    piece = ReadBatch(pa.concat_tables(agree_on_json(tables), promote_options="default"), where, is_last)
    held.clear()
    return piece


class _naming:  # noqa: N801 - reads as a word in a with statement
    """Add the name of the file to an error."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, pa.ArrowInvalid):
            raise InputError(f"{self._path}: not a complete Parquet file: {error}") from error
        if isinstance(error, OSError):
            with reading(self._path):
                raise error


def _may_repeat(table: pa.Table) -> list[str] | bool:
    """Return the columns for which a dictionary is tried: not texts, where it only costs time."""
    if any(pa.types.is_nested(field.type) for field in table.schema):
        return True
    return [
        name for name in table.column_names if table[name].nbytes < _MAX_DICTIONARY_VALUE_BYTES * max(table.num_rows, 1)
    ]


def _rows_of(file: Any, groups: list[int]) -> npt.NDArray[np.int64]:  # noqa: ANN401
    """Return the row numbers, within the file, of some row groups."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    first = [0, *accumulate(sizes)]
    rows = [np.arange(first[group], first[group] + sizes[group]) for group in groups]
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def _bytes_of(file: Any, groups: list[int], fields: list[str] | None) -> int:  # noqa: ANN401
    """Return the decompressed size of the columns to be read of some row groups."""
    total = 0
    for group in (file.metadata.row_group(number) for number in groups):
        columns = (group.column(at) for at in range(group.num_columns))
        wanted = (c for c in columns if fields is None or c.path_in_schema.split(".")[0] in fields)
        total += sum(column.total_uncompressed_size for column in wanted)
    return total


class ParquetReader(DocumentReader):
    """Read documents from Parquet files; with ``text_field`` every file must have that column.

    ``blocksize`` ("64MB", decompressed) or ``files_per_partition`` sets how much is read at a time; a larger file is
    split between row groups. ``read_kwargs`` are those of ``pyarrow.parquet``.

    >>> from penstock.core.composite import expand
    >>> [stage.name for stage in expand([ParquetReader("crawl/", fields=["url", "text"])])]
    ['file_partitioning', 'parquet_reader_stage']
    """

    name = "parquet_reader"
    default_extensions: ClassVar[tuple[str, ...]] = PARQUET
    reader_stage = ParquetReaderStage
    cut: ClassVar[str] = "row groups"

    def __init__(
        self,
        file_paths: str | Path | Sequence[str | Path],
        files_per_partition: int | None = None,
        blocksize: int | str | None = None,
        fields: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        task_type: str = "document",
        file_extensions: Sequence[str] | None = None,
        *,
        text_field: str | None = None,
        max_row_bytes: int | str = MAX_ROW_BYTES,
    ) -> None:
        super().__init__(file_paths, files_per_partition, blocksize, fields, read_kwargs, task_type, file_extensions)
        self._reading = ParquetReaderStage(fields, read_kwargs, text_field, max_row_bytes=max_row_bytes)


class ParquetWriter(DocumentWriter):
    """Write each batch as a Parquet file; ``write_kwargs`` are those of ``pyarrow.parquet.write_table``.

    ``compression`` is one that Parquet supports; the default is "snappy". A value without an exact Arrow type is
    written as JSON text in a string column whose field is marked. Penstock restores the value when it reads the file.

    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> from penstock.testing import make_batch, run_stage
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [written] = run_stage(ParquetWriter(folder, fields=["text"]), make_batch(["one", "two"]))
    ...     rows = pq.read_table(written.data[0]).to_pylist()
    >>> rows
    [{'text': 'one'}, {'text': 'two'}]
    """

    name = "parquet_writer"
    default_extension: ClassVar[str] = "parquet"
    file_format: ClassVar[str] = "parquet"
    known_write_kwargs: ClassVar[tuple[str, ...] | None] = None
    reusable_process = True
    preload = ("penstock.text.io.parquet", "penstock.text.io.row_groups")

    def write_documents(self, task: DocumentBatch, stream: IO[bytes]) -> None:
        """Write the documents."""
        import pyarrow.parquet as pq

        table = task.to_pyarrow()
        if self.fields is not None:
            table = table.select(self.fields)
        rows_per_byte = table.num_rows / max(table.nbytes, 1)
        options: dict[str, Any] = {
            "row_group_size": max(1, int(_ROW_GROUP_BYTES * rows_per_byte)),
            "write_batch_size": max(1, min(_MAX_BATCH_ROWS, int(_PAGE_BYTES * rows_per_byte))),
            "use_dictionary": _may_repeat(table),
        }
        if self.compression is not None:
            options["compression"] = self.compression
        options |= {key: value for key, value in self.write_kwargs.items() if key != "storage_options"}
        pq.write_table(table, stream, **options)
