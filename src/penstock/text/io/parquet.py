"""Reading and writing Parquet."""

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
# What is given to the ParquetFile, not to its read method.
_FILE_OPTIONS = ("memory_map", "buffer_size", "pre_buffer", "coerce_int96_timestamp_unit", "decryption_properties")
# What is taken out of a file at a time: a block is put together from so many, so that none is much too large.
_BATCHES_PER_BLOCK = 8
_LARGEST_BATCH = 1024
# Values longer than this on average hardly ever repeat.
_LONGEST_REPEATED = 256
# A row group is what a reader takes at a time: no larger than this.
_ROW_GROUP_BYTES = 128 << 20
# After so much Arrow looks whether a page is full (1 MB); by default after 1,024 rows, however large they are.
_PAGE_BYTES = 256 << 10


class _Rows(NamedTuple):
    """Rows of one file of a task."""

    file: int
    numbers: npt.NDArray[np.int64]
    batch: pa.RecordBatch


class _Look(NamedTuple):
    """What is known of a file before it is read: the row groups that are meant, and their size when decompressed."""

    metadata: Any
    groups: list[int]
    size: int


class ParquetReaderStage(DocumentReaderStage):
    """Reads a group of Parquet files, or some row groups of one.

    A row of more than ``max_row_bytes`` goes to the dead-letter file with file and row number, and the rest is read.
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
        # Where many rows share a value, what is read is larger than its file says; a little more is no matter.
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
        """Look at what a file holds, without keeping it open: there may be thousands in a task."""
        with self._opened(path) as file:
            for field, parameter in [*((field, None) for field in self.fields or ()), (self.text_field, "text_field")]:
                if field is not None and field not in file.schema_arrow.names:
                    raise MissingColumnError(self.name, field, file.schema_arrow.names, parameter)
            groups = list(range(*(part or (0, file.num_row_groups))))
            return _Look(file.metadata, groups, _bytes_of(file, groups, self.fields))

    def _rows(self, task: FileGroupTask, looks: list[_Look], blocksize: int) -> Iterator[_Rows]:
        """Read the files of a task one after the other, in small batches: their size is known once they are read."""
        for number, (path, (metadata, groups, size)) in enumerate(zip(task.data, looks, strict=True)):
            with self._opened(path, metadata) as file, _naming(path):
                where, given = _rows_of(file, groups), 0
                fitting = len(where) * blocksize // (_BATCHES_PER_BLOCK * max(size, 1))
                for batch in file.iter_batches(
                    batch_size=max(1, min(fitting, _LARGEST_BATCH)), row_groups=groups, **self._read_options()
                ):
                    numbers = where[given : given + batch.num_rows]
                    given += batch.num_rows
                    numbers, batch = self._without_large_rows(path, numbers, without_views(batch))
                    if batch.num_rows:
                        yield _Rows(number, numbers, batch)

    def _without_large_rows(
        self, path: str, numbers: npt.NDArray[np.int64], batch: pa.RecordBatch
    ) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """Set rows aside that are larger than allowed."""
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
                # Without pre_buffer: it would fetch every row group before the first is asked for.
                file = pq.ParquetFile(stream, metadata=metadata, **{"pre_buffer": False, **options})
            yield file

    def _read_options(self) -> dict[str, Any]:
        other = {
            key: value for key, value in self.read_kwargs.items() if key not in ("storage_options", *_FILE_OPTIONS)
        }
        return {"columns": self.fields, **other}


@contextmanager
def _stored(path: str, storage_options: dict[str, Any] | None) -> Iterator[Any]:
    """Open a file; one of this machine's in Arrow's own way, which needs no Python to read it."""
    filesystem, name = filesystem_of(path, storage_options)
    if not is_local(filesystem):
        with open_stored(path, storage_options) as stream:
            yield stream
        return
    refuse_special_file(name)
    with reading(path), pa.OSFile(name) as file:
        yield file


def _beginning(row: pa.RecordBatch, text_field: str | None) -> str:
    """Return the beginning of the text of a row, or of its first column that is text."""
    texts = [name for name, column in zip(row.schema.names, row.columns, strict=True) if is_text(column.type)]
    wanted = text_field if text_field in texts else next(iter(texts), None)
    return "" if wanted is None else pc.utf8_slice_codeunits(row[wanted], 0, MAX_EXCERPT)[0].as_py() or ""


def _piece(held: list[_Rows], is_last: bool) -> ReadBatch:
    """Put rows together and let go of them: nobody here may hold a block that has been given out."""
    where = np.concatenate([places(rows.file, rows.numbers) for rows in held])
    tables = [
        pa.Table.from_batches([rows.batch for rows in of_file])
        for _, of_file in groupby(held, key=lambda rows: rows.file)
    ]
    piece = ReadBatch(pa.concat_tables(agree_on_json(tables), promote_options="default"), where, is_last)
    held.clear()
    return piece


class _naming:  # noqa: N801 - reads as a word in a with statement
    """Say which file is damaged."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, pa.ArrowInvalid):
            raise InputError(f"{self._path}: not a whole Parquet file: {error}") from error
        if isinstance(error, OSError):
            with reading(self._path):
                raise error


def _may_repeat(table: pa.Table) -> list[str] | bool:
    """Return the columns for which a dictionary is tried: not texts, which takes a quarter of the time, for nothing."""
    if any(pa.types.is_nested(field.type) for field in table.schema):
        return True
    return [name for name in table.column_names if table[name].nbytes < _LONGEST_REPEATED * max(table.num_rows, 1)]


def _rows_of(file: Any, groups: list[int]) -> npt.NDArray[np.int64]:  # noqa: ANN401
    """Return the numbers that the rows of some row groups have in their file."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    first = [0, *accumulate(sizes)]
    rows = [np.arange(first[group], first[group] + sizes[group]) for group in groups]
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def _bytes_of(file: Any, groups: list[int], fields: list[str] | None) -> int:  # noqa: ANN401
    """Return how large some row groups are when decompressed, as far as they will be read."""
    total = 0
    for group in (file.metadata.row_group(number) for number in groups):
        columns = (group.column(at) for at in range(group.num_columns))
        wanted = (c for c in columns if fields is None or c.path_in_schema.split(".")[0] in fields)
        total += sum(column.total_uncompressed_size for column in wanted)
    return total


class ParquetReader(DocumentReader):
    """Reads documents from Parquet files; with a ``text_field`` every file must have that column."""

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
    """Writes each batch as a Parquet file; ``write_kwargs`` are those of ``pyarrow.parquet.write_table``.

    ``compression`` is one that Parquet knows ("snappy" unless said otherwise). A value that Arrow has no exact type for
    (see ``core.json_column``) is written as its JSON text, in a string column whose field is marked, and is itself
    again when Penstock reads the file.
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
            "write_batch_size": max(1, min(_LARGEST_BATCH, int(_PAGE_BYTES * rows_per_byte))),
            "use_dictionary": _may_repeat(table),
        }
        if self.compression is not None:
            options["compression"] = self.compression
        options |= {key: value for key, value in self.write_kwargs.items() if key != "storage_options"}
        pq.write_table(table, stream, **options)
