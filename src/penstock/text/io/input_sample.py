"""Sample documents from a whole input, at places spread evenly over its bytes.

The input is divided into ranges of equal size, and the first documents of each are taken. So the same input yields the
same documents, every large file yields several, and no more is read than is taken. A file that cannot be read from the
middle (a compressed one) yields its documents from the beginning.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import IO, Any

import pyarrow as pa

from penstock.core.files import SizedFile
from penstock.storage.compression import compression_of
from penstock.storage.filesystem import open_input, open_stored

# Documents are rarely larger than this; if they are, a few of them are enough.
_MOST_BYTES_PER_PLACE = 8_000_000
# A longer line is left out of the sample and is skipped without being held in memory.
_MOST_BYTES_PER_LINE = 16_000_000


@dataclass
class SampleSpot:
    """Documents found next to each other."""

    file: str
    # Lines of a JSONL file, or one table of a Parquet file.
    lines: list[bytes] = field(default_factory=list)
    table: pa.Table | None = None
    # For Parquet: the average size of a row in the file, times the number of rows here.
    file_bytes: float = 0.0

    @property
    def count(self) -> int:
        """The number of documents, or of lines that should be documents."""
        return len(self.lines) if self.table is None else int(self.table.num_rows)

    @property
    def bytes(self) -> int:
        """The size of the documents once they are read."""
        return sum(map(len, self.lines)) if self.table is None else int(self.table.nbytes)

    @property
    def bytes_in_file(self) -> float:
        """The size of the documents in the file; for a compressed file, estimated with zlib."""
        if compression_of(self.file):
            return len(zlib.compress(b"".join(self.lines)))
        return self.file_bytes if self.table is not None else self.bytes


def sample_jsonl(files: Sequence[SizedFile], documents: int, places: int) -> Iterator[SampleSpot]:
    """Yield lines from all parts of some JSONL files."""
    streams: dict[str, Iterator[bytes]] = {}
    for stretch in _stretches(files, places):
        missing = -(-documents // places)
        for file, start, end in stretch:
            if compression_of(file.path):
                lines = streams.setdefault(file.path, _all_lines(file.path))
            else:
                lines = _lines_between(file.path, start, end)
            found = SampleSpot(file.path, list(_until_enough(lines, missing)))
            if found.lines:
                yield found
            missing -= found.count
            if missing <= 0 or found.bytes >= _MOST_BYTES_PER_PLACE:
                break


def sample_parquet(files: Sequence[SizedFile], documents: int, places: int) -> Iterator[SampleSpot]:
    """Yield rows from all parts of some Parquet files."""
    import pyarrow.parquet as pq

    for stretch in _stretches(files, places):
        missing = -(-documents // places)
        for file, start, end in stretch:
            with open_stored(file.path) as stream:
                parquet = pq.ParquetFile(stream)
                rows = parquet.metadata.num_rows
                first, stop = rows * start // file.size, rows * end // file.size
                table = _rows(parquet, first, min(stop, first + missing))
            if table is not None and table.num_rows:
                yield SampleSpot(file.path, table=table, file_bytes=file.size * table.num_rows / rows)
                missing -= table.num_rows
            if missing <= 0:
                break


def _stretches(files: Sequence[SizedFile], places: int) -> Iterator[Iterator[tuple[SizedFile, int, int]]]:
    """Divide the concatenated files into ranges; for each, yield the files it covers and their byte ranges.

    >>> stretches = _stretches([SizedFile("a", 6), SizedFile("b", 2)], 2)
    >>> [[(file.path, start, end) for file, start, end in stretch] for stretch in stretches]
    [[('a', 0, 4)], [('a', 4, 6), ('b', 0, 2)]]
    """
    ends = list(accumulate(file.size for file in files))
    total = ends[-1] if ends else 0
    for place in range(places):
        yield _covered(files, ends, total * place // places, total * (place + 1) // places)


def _covered(
    files: Sequence[SizedFile], ends: Sequence[int], begin: int, end: int
) -> Iterator[tuple[SizedFile, int, int]]:
    for number in range(bisect_right(ends, begin), len(files)):
        offset = ends[number] - files[number].size
        if offset >= end:
            return
        if files[number].size:
            yield files[number], max(begin - offset, 0), min(end - offset, files[number].size)


def _lines_between(path: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines that begin in a byte range of a file."""
    with open_stored(path) as stream:
        position = 0
        if start > 0:
            stream.seek(start - 1)
            position = start - 1 + _read_line(stream)[1]
        while position < end:
            line, size = _read_line(stream)
            if not size:
                return
            position += size
            if line:
                yield line


def _all_lines(path: str) -> Iterator[bytes]:
    with open_input(path) as stream:
        while (found := _read_line(stream))[1]:
            if found[0]:
                yield found[0]


def _read_line(stream: IO[bytes]) -> tuple[bytes, int]:
    """Return the next line and its size; for a line that is too long, b"" and its size."""
    line = stream.readline(_MOST_BYTES_PER_LINE)
    size = len(line)
    if size < _MOST_BYTES_PER_LINE or line.endswith(b"\n"):
        return line, size
    while rest := stream.readline(_MOST_BYTES_PER_PLACE):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    return b"", size


def _until_enough(lines: Iterator[bytes], count: int) -> Iterator[bytes]:
    size = 0
    for line in islice(lines, count):
        yield line if line.endswith(b"\n") else line + b"\n"
        size += len(line)
        if size >= _MOST_BYTES_PER_PLACE:
            return


def _rows(parquet: Any, first: int, stop: int) -> pa.Table | None:  # noqa: ANN401 - pyarrow has no types
    """Read some rows, and no more of their row groups than necessary."""
    position = 0
    for group in range(parquet.metadata.num_row_groups):
        count = parquet.metadata.row_group(group).num_rows
        if first < position + count:
            wanted = min(stop, position + count) - first
            skip = first - position
            batches = []
            for batch in parquet.iter_batches(batch_size=max(wanted, 1), row_groups=[group]):
                begin = max(skip, 0)
                if begin < batch.num_rows:
                    batches.append(batch.slice(begin, wanted))
                    wanted -= batches[-1].num_rows
                skip -= batch.num_rows
                if wanted <= 0 or sum(one.nbytes for one in batches) >= _MOST_BYTES_PER_PLACE:
                    break
            return pa.Table.from_batches(batches) if batches else None
        position += count
    return None
