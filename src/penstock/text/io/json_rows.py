"""Rows that still are the JSON lines they were read from; a field is decoded only when it is used.

A row is a range in a block of bytes. Columns that a stage adds or replaces are stored separately; everything else keeps
its original spelling, so that a writer can copy it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.lazy_rows import LazyRows
from penstock.text.io.json_fields import Column, Lines, decode_field, decode_fields
from penstock.text.io.json_lines import scan_lines
from penstock.text.io.same_values import Mask, same_values

Positions = npt.NDArray[np.int64]


class Beside(NamedTuple):
    """A column that is stored separately from the lines."""

    field: pa.Field
    values: pa.ChunkedArray
    # True for rows whose line holds the same value in its own spelling; None: for no row.
    as_in_line: Mask | None = None


@dataclass(frozen=True)
class JsonRows(LazyRows):
    """Rows that are lines of JSON."""

    block: pa.Buffer
    starts: Positions
    ends: Positions
    # The visible fields of the lines, and whether these are all fields.
    line_names: tuple[str, ...]
    shows_all: bool = True
    beside: dict[str, Beside] = field(default_factory=dict)
    # The order of the columns, if it differs from that of the lines.
    order: tuple[str, ...] | None = None
    _made: dict[str, Column] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the decoded columns, which can be decoded again."""
        state = (self.block, self.starts, self.ends, self.line_names, self.shows_all, self.beside, self.order)
        return JsonRows, state

    @property
    def num_bytes(self) -> int:
        """The size of the lines and of the separate columns in bytes."""
        beside = sum(int(column.values.nbytes) for column in self.beside.values())
        return int((self.ends - self.starts).sum()) + beside

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        if self.order is not None:
            return list(self.order)
        return [*self.line_names, *(name for name in self.beside if name not in self.line_names)]

    def field(self, name: str) -> pa.Field:
        """Return the type and metadata of one column."""
        return self._column(name)[0]

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column without decoding any other."""
        return self._column(name)[1]

    def prepare(self, names: Sequence[str]) -> None:
        """Decode some columns in one pass, which costs little more than decoding one."""
        wanted = [n for n in self.line_names if n in names and n not in self.beside and n not in self._made]
        self._made.update(decode_fields(self._lines, wanted))

    def to_table(self) -> pa.Table:
        """Return all columns; each is decoded once."""
        self.prepare(self.line_names)
        columns = [self._column(name) for name in self.names]
        schema = pa.schema([field for field, _ in columns])
        return pa.Table.from_arrays([values for _, values in columns], schema=schema)

    def select(self, rows: Sequence[int] | Positions) -> JsonRows:
        """Return only these rows; they share the block."""
        wanted = np.asarray(rows, np.int64)
        beside = {name: _take(column, wanted) for name, column in self.beside.items()}
        return replace(self, starts=self.starts[wanted], ends=self.ends[wanted], beside=beside, _made={})

    def slice(self, first: int, count: int) -> JsonRows:
        """Return consecutive rows."""
        stop = first + count
        beside = {
            name: Beside(
                c.field, c.values.slice(first, count), None if c.as_in_line is None else c.as_in_line[first:stop]
            )
            for name, c in self.beside.items()
        }
        return replace(self, starts=self.starts[first:stop], ends=self.ends[first:stop], beside=beside, _made={})

    def with_columns(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> JsonRows:
        """Return the same rows with separate columns added or replaced."""
        for name, values in columns.items():
            if len(values) != len(self):
                raise ValueError(f"column '{name}' has {len(values)} values for {len(self)} documents")
        added = {name: self._beside(name, _chunked(values)) for name, values in columns.items()}
        order = None if self.order is None else tuple(dict.fromkeys([*self.order, *added]))
        return replace(self, beside={**self.beside, **added}, order=order, _made={})

    def only(self, names: Sequence[str]) -> JsonRows:
        """Return the same rows with these columns only, in this order."""
        if list(names) == self.names:
            return self
        beside = {name: self.beside[name] for name in names if name in self.beside}
        kept = tuple(name for name in self.line_names if name in names)
        return replace(self, line_names=kept, shows_all=False, beside=beside, order=tuple(names), _made={})

    def revised(self, table: pa.Table) -> JsonRows:
        """Return rows with the values of this table; unchanged values keep their spelling in the lines."""
        rows = self
        if table.column_names[: len(self.names)] != self.names:
            kept = [name for name in self.names if name in table.column_names]
            follows = table.column_names[: len(kept)] == kept
            rows = self.only(kept if follows else [name for name in table.column_names if name in kept])
            # Removing a column does not change the order of the others.
            rows = replace(rows, order=None if follows and self.order is None else tuple(table.column_names))
        beside: dict[str, Beside] = {}
        for new, values in zip(table.schema, table.columns, strict=True):
            name = new.name
            if name not in self.names:
                beside[name] = Beside(new, values)
                continue
            same = same_values(*self._column(name), new, values)
            if same.all():
                if name in self.beside:
                    beside[name] = self.beside[name]
                continue
            in_line = same if name not in self.beside else None
            beside[name] = Beside(new, values, in_line)
        return replace(rows, beside=beside, _made={})

    def compacted(self) -> JsonRows:
        """Return the rows in a new block, if most of the old block belongs to other rows."""
        lengths = self.ends - self.starts
        if self.block.size <= 1.5 * int(lengths.sum()) + 65536:
            return self
        view = memoryview(self.block)
        pieces = [view[start:end] for start, end in self.places()]
        ends = np.cumsum(lengths + 1) - 1
        block = pa.py_buffer(b"\n".join(pieces))
        return replace(self, block=block, starts=ends - lengths, ends=ends, _made={})

    def places(self) -> Iterator[tuple[int, int]]:
        """Return where each line begins and ends."""
        return self._lines.places()

    def _beside(self, name: str, values: pa.ChunkedArray) -> Beside:
        """Return a separate column; unchanged values remain in the lines."""
        new = pa.field(name, values.type)
        if name not in self.line_names:
            return Beside(new, values)
        in_line = same_values(*self._column(name), new, values)
        if name in self.beside:
            before = self.beside[name].as_in_line
            in_line = in_line & before if before is not None else np.zeros(len(self), np.bool_)
        return Beside(new, values, in_line if in_line.any() else None)

    def _column(self, name: str) -> tuple[pa.Field, pa.ChunkedArray]:
        if name in self.beside:
            return self.beside[name].field, self.beside[name].values
        if name not in self.line_names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = decode_field(self._lines, name)
        return self._made[name]

    @property
    def _lines(self) -> Lines:
        return Lines(self.block, self.starts, self.ends)


def parse_rows(lines: bytes) -> JsonRows:
    """Return the documents in some lines; lines that are not documents are left out.

    >>> parse_rows(b'{"id": 1}\\n{"id": 2, "text": "x"}').to_table().to_pylist()
    [{'id': 1, 'text': None}, {'id': 2, 'text': 'x'}]
    """
    block = pa.py_buffer(lines)
    scan = scan_lines(block)
    return JsonRows(block, scan.starts, scan.ends, tuple(scan.names))


def join_rows(parts: Sequence[JsonRows]) -> JsonRows:
    """Concatenate rows of several blocks, unchanged since they were read, into one block."""
    if len(parts) == 1:
        return parts[0]
    views = [memoryview(part.block) for part in parts]
    pieces = [view[start:end] for part, view in zip(parts, views, strict=True) for start, end in part.places()]
    lengths = np.concatenate([part.ends - part.starts for part in parts])
    ends = np.cumsum(lengths + 1) - 1
    names = tuple(dict.fromkeys(name for part in parts for name in part.line_names))
    return JsonRows(pa.py_buffer(b"\n".join(pieces)), ends - lengths, ends, names)


def _take(column: Beside, rows: Positions) -> Beside:
    mask = None if column.as_in_line is None else column.as_in_line[rows]
    return Beside(column.field, column.values.take(pa.array(rows)), mask)


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
