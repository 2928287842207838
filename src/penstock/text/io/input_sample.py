"""Some documents from across a whole input: as many places as asked for, spread evenly over its bytes.

The input is cut into stretches of equal size, and the first documents of each are taken. So the same input gives the
same documents, every large file gives several, and no more is read than is taken. What cannot be entered in the middle
(a compressed file) gives its documents from the beginning on.
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

# Nobody's documents are larger than that, and if they are, a few of them are enough.
_MOST_BYTES_PER_PLACE = 8_000_000
# A longer line is left out of the sample, and is not held while it is read past.
_MOST_BYTES_PER_LINE = 16_000_000


@dataclass
class SampleSpot:
    """Documents that were found side by side."""

    file: str
    # Lines of a JSONL file, or one table of a Parquet file.
    lines: list[bytes] = field(default_factory=list)
    table: pa.Table | None = None
    # Of a Parquet file, what its rows take in it on average, times how many there are here.
    file_bytes: float = 0.0

    @property
    def count(self) -> int:
        """How many documents, or lines that should be some."""
        return len(self.lines) if self.table is None else int(self.table.num_rows)

    @property
    def bytes(self) -> int:
        """How large they are once they are read."""
        return sum(map(len, self.lines)) if self.table is None else int(self.table.nbytes)

    @property
    def bytes_in_file(self) -> float:
        """How much of the file they take, as far as that can be told: compressed ones about what zlib makes of them."""
        if compression_of(self.file):
            return len(zlib.compress(b"".join(self.lines)))
        return self.file_bytes if self.table is not None else self.bytes


def sample_jsonl(files: Sequence[SizedFile], documents: int, places: int) -> Iterator[SampleSpot]:
    """Yield lines from across some JSONL files."""
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
    """Yield rows from across some Parquet files."""
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
    """Cut files, one behind the other, into stretches; of each, yield the files it covers, and which bytes of them.

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
    """Yield the lines that begin within some bytes of a file."""
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
    """Return the next line and its size; of a line that is too long, only its size."""
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
    """Read some rows, and of their row groups no more than it takes to get there."""
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
