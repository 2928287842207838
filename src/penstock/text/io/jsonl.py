"""Read and write JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import numpy.typing as npt

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.sizes import parse_bytes
from penstock.errors import InputError, MissingColumnError
from penstock.storage.compression import Decompressed, compressing, compression_of, ending_of
from penstock.storage.filesystem import open_stored
from penstock.storage.formats import JSONL
from penstock.text.io.blocks import LineBlock, read_blocks, read_part
from penstock.text.io.json_lines import BadLine, Scan, long_line, scan_lines
from penstock.text.io.json_rows import JsonRows, join_rows
from penstock.text.io.json_writing import write_rows, write_table
from penstock.text.io.reader import DocumentReader, DocumentReaderStage, ReadBatch, places
from penstock.text.io.writer import DocumentWriter

_ON_BAD_LINE = ("skip", "fail")
MAX_LINE_BYTES = 256_000_000
# After this many lines without a single document the file is not JSON Lines.
_ENOUGH_BAD_LINES = 1000
# First characters of other file types, as an excerpt shows them, and what the file is.
_OTHER_BEGINNINGS = {
    "\x1f\\x8b": "compressed with gzip; its name must end in .gz",
    "(\\xb5/\\xfd": "compressed with zstd; its name must end in .zst",
    "\\xfd7zXZ": "compressed with xz; its name must end in .xz",
    "BZh": "compressed with bzip2; its name must end in .bz2",
    "PAR1": "a Parquet file; use ParquetReader",
    "PK\x03\x04": "a ZIP archive; unpack it",
}


@dataclass
class _File:
    """How far a file has been read."""

    path: str
    start: int
    # True if the task covers the whole file.
    is_whole: bool
    lines: int = 0
    good: int = 0
    # Lines that are not documents. Lines that are too long are not counted.
    bad: int = 0
    # The first line that is not a document: its number, and the line.
    first_bad: tuple[int | None, BadLine] | None = None

    def line_number(self, bad: BadLine) -> int | None:
        """Return the number of a line; None if the lines before it were not counted."""
        return self.lines + bad.number if self.start == 0 else None


class JsonlReaderStage(DocumentReaderStage):
    """Read a group of JSONL files, or a part of one file.

    A line that is not a JSON object goes to the dead-letter file with file, line number, byte and reason, and the rest
    is read; ``on_bad_line="fail"`` stops the run instead. With ``text_field`` a line without text in that field is bad
    too, and so is a line of more than ``max_line_bytes``, which is never held in memory as a whole. A file without a
    single good line is not a JSONL file and stops the run.

    >>> import tempfile
    >>> from penstock.core.files import FileGroupTask
    >>> from penstock.testing import run_stage_with_rejections
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     _ = file.write('{"text": "one"}' + chr(10) + "not JSON")
    ...     file.flush()
    ...     [batch], [rejected] = run_stage_with_rejections(JsonlReaderStage(), FileGroupTask("demo", [file.name]))
    >>> batch.to_pyarrow().to_pylist(), rejected.position
    ([{'text': 'one'}], 2)
    """

    name = "jsonl_reader_stage"
    reusable_process = True
    preload = ("penstock.text.io.preload_json",)

    def __init__(
        self,
        fields: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        on_bad_line: str = "skip",
        text_field: str | None = None,
        *,
        max_line_bytes: int | str = MAX_LINE_BYTES,
        rows_are_places: bool = False,
    ) -> None:
        super().__init__(fields, read_kwargs, rows_are_places=rows_are_places)
        if on_bad_line not in _ON_BAD_LINE:
            raise ValueError(f"JsonlReader: on_bad_line={on_bad_line!r}; it is one of {', '.join(_ON_BAD_LINE)}.")
        self.on_bad_line = on_bad_line
        self.text_field = text_field
        self.max_line_bytes = parse_bytes(max_line_bytes)

    def read_pieces(self, task: FileGroupTask, blocksize: int) -> Iterator[ReadBatch]:
        """Read the lines of a task; small files are read as one piece."""
        held: list[tuple[JsonRows, npt.NDArray[np.int64]]] = []
        held_bytes = 0
        part = task.reader_config.get("part")
        for number, path in enumerate(task.data):
            file = _File(path, part[0] if part else 0, is_whole=part is None)
            with open_stored(path, self.storage_options) as stream:
                for block in _blocks(path, stream, part, blocksize, self.max_line_bytes):
                    if held and held_bytes + block.data.size > blocksize:
                        yield self._piece(held, is_last=False)
                        held, held_bytes = [], 0
                    rows = self._read(file, block)
                    if len(rows):
                        held.append((rows, places(number, block.offset + rows.starts)))
                        held_bytes += block.data.size
                    if held and not block.is_last:
                        yield self._piece(held, is_last=False)
                        held, held_bytes = [], 0
                    del block, rows  # the next one is read now
        if held:
            yield self._piece(held, is_last=True)

    def _piece(self, held: list[tuple[JsonRows, npt.NDArray[np.int64]]], *, is_last: bool) -> ReadBatch:
        rows = join_rows([part for part, _ in held])
        where = np.concatenate([part for _, part in held])
        if self.fields is not None:
            fields = tuple(self.fields)
            rows = replace(rows, line_names=fields, shows_all=False, order=fields)
        return ReadBatch(rows, where, is_last)

    def _read(self, file: _File, block: LineBlock) -> JsonRows:
        """Find the documents in a block, and account for every other line of it."""
        scan = scan_lines(block.data, self.text_field, self.max_line_bytes)
        if block.long_line is not None:
            scan.lines += 1
            length, beginning = block.long_line
            scan.bad_lines.append(long_line(scan.lines, block.data.size, length, beginning, self.max_line_bytes))
        is_first = file.lines == 0 and file.start == 0
        file.good += len(scan.starts)
        broken = [bad for bad in scan.bad_lines if not bad.is_too_long]
        file.bad += len(broken)
        if broken and file.first_bad is None:
            file.first_bad = file.line_number(broken[0]), broken[0]
        if block.trouble:
            self._set_rest_aside(file, block, scan)
        seen_enough = (block.is_last and file.is_whole) or file.bad >= _ENOUGH_BAD_LINES
        if file.bad and not file.good and file.start == 0 and seen_enough:
            if self.text_field is not None and scan.names_without_text:
                raise MissingColumnError(self.name, self.text_field, scan.names_without_text, "text_field")
            raise InputError(_something_else(file))
        for bad in scan.bad_lines:
            self._set_aside(file, bad.reason, file.line_number(bad), bad.excerpt, block.offset + bad.offset)
        if is_first and len(scan.starts):
            for field in self.fields or ():
                if field not in scan.names:
                    raise MissingColumnError(self.name, field, scan.names)
        file.lines += scan.lines
        return JsonRows(block.data, scan.starts, scan.ends, tuple(scan.names))

    def _set_rest_aside(self, file: _File, block: LineBlock, scan: Scan) -> None:
        """Reject the rest of a truncated file, and report how many documents it had."""
        if not file.good:
            raise InputError(f"{file.path}: cannot be read: {block.trouble}")
        end = block.data.size
        rest = scan.bad_lines.pop() if scan.bad_lines and scan.bad_lines[-1].number == scan.lines else None
        file.bad -= rest is not None and not rest.is_too_long
        reason = f"{block.trouble}, after {file.good} documents; the rest is missing"
        self._set_aside(
            file,
            reason,
            file.line_number(rest) if rest else file.lines + scan.lines + 1,
            rest.excerpt if rest else "",
            block.offset + (rest.offset if rest else end),
        )

    def _set_aside(self, file: _File, reason: str, line: int | None, excerpt: str, byte: int) -> None:
        if self.on_bad_line == "fail":
            where = f"line {line}" if line is not None else f"the line at byte {byte}"
            raise InputError(
                f"{file.path}, {where}: {reason}: {excerpt[:60]!r}. With on_bad_line='skip' it is set aside."
            )
        self.reject(reason, source=file.path, position=line, excerpt=excerpt, byte=byte)


def _blocks(
    path: str, stream: IO[bytes], part: tuple[int, int] | None, blocksize: int, max_line_bytes: int
) -> Iterator[LineBlock]:
    if part is not None:
        return read_part(stream, *part, max_line_bytes)
    ending = compression_of(path)
    if ending is not None:
        return read_blocks(Decompressed(stream, ending), blocksize, max_line_bytes)
    size = stream.seek(0, os.SEEK_END)
    if size <= blocksize:
        return read_part(stream, 0, size, max_line_bytes)
    stream.seek(0)
    return read_blocks(stream, blocksize, max_line_bytes)


def _something_else(file: _File) -> str:
    assert file.first_bad is not None
    number, first = file.first_bad
    other = next((kind for begin, kind in _OTHER_BEGINNINGS.items() if first.excerpt.startswith(begin)), None)
    hint = f" It looks like {'a file that is ' if other.startswith('compressed') else ''}{other}." if other else ""
    return (
        f"{file.path}: not a JSON Lines file: none of its {file.bad} lines{' so far' if not file.is_whole else ''} "
        f"is a document. Line {number}: {first.reason}: {first.excerpt[:60]!r}. "
        f"Expected one JSON object per line.{hint}"
    )


class JsonlReader(DocumentReader):
    """Read documents from JSONL files, compressed or not.

    ``blocksize`` ("64MB") or ``files_per_partition`` sets how much is read at a time; a larger file is split at lines.
    Lines that cannot be read go to the dead-letter file, or stop the run with ``on_bad_line="fail"``.

    >>> from penstock.core.composite import expand
    >>> [stage.name for stage in expand([JsonlReader("crawl/*.jsonl.gz", files_per_partition=8)])]
    ['file_partitioning', 'jsonl_reader_stage']
    """

    name = "jsonl_reader"
    default_extensions: ClassVar[tuple[str, ...]] = JSONL
    reader_stage = JsonlReaderStage
    cut: ClassVar[str] = "lines"

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
        on_bad_line: str = "skip",
        text_field: str | None = None,
        max_line_bytes: int | str = MAX_LINE_BYTES,
    ) -> None:
        super().__init__(file_paths, files_per_partition, blocksize, fields, read_kwargs, task_type, file_extensions)
        self._reading = JsonlReaderStage(fields, read_kwargs, on_bad_line, text_field, max_line_bytes=max_line_bytes)


class JsonlWriter(DocumentWriter):
    """Write each batch as a JSONL file, one object per line.

    A line that was read from JSONL and that no stage changed is copied byte for byte; in a changed line only the
    changed values are written anew. ``compression`` is "gzip", "zstd", "bz2" or "xz"; a ``file_extension`` such as
    ".jsonl.gz" has the same effect.

    >>> JsonlWriter("clean/", compression="zstd").file_extension
    'jsonl.zst'
    """

    name = "jsonl_writer"
    default_extension: ClassVar[str] = "jsonl"
    file_format: ClassVar[str] = "jsonl"
    reusable_process = True
    preload = ("penstock.text.io.preload_json",)

    def __init__(
        self,
        path: str | Path,
        write_kwargs: dict[str, Any] | None = None,
        fields: Sequence[str] | None = None,
        mode: str = "ignore",
        file_extension: str | None = None,
        *,
        compression: str | None = None,
        target_file_size: int | str | None = None,
    ) -> None:
        super().__init__(
            path,
            write_kwargs,
            fields,
            mode,
            file_extension,
            compression=compression,
            target_file_size=target_file_size,
        )
        ending = ending_of(compression)
        if ending is not None and not self.file_extension.endswith(ending):
            self.file_extension += ending

    def write_documents(self, task: DocumentBatch, stream: IO[bytes]) -> None:
        """Write the documents; unchanged lines of JSONL input are copied."""
        rows = task.to_lazy()
        with compressing(stream, compression_of(f".{self.file_extension}")) as compressed:
            if isinstance(rows, JsonRows):
                write_rows(rows if self.fields is None else rows.only(self.fields), compressed)
            else:
                table = task.to_pyarrow()
                write_table(table if self.fields is None else table.select(self.fields), compressed)
