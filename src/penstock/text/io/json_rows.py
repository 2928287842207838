"""Documents that are still the lines they were read from: taken apart only as far as somebody asks.

A row is a place in a block of bytes. Columns that a stage adds or replaces lie beside; everything else stays as it is
spelled, so that a writer can copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.json_column import is_json
from penstock.text.io.json_lines import scan_lines
from penstock.text.io.json_tokens import column_of, python_values

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# So many bytes of lines are taken apart at a time: what Python holds of them in between stays small.
_STEP_BYTES = 1 << 20
_FIELDS_AT_ONCE = 64
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Beside(NamedTuple):
    """A column that lies beside the lines."""

    field: pa.Field
    values: pa.ChunkedArray
    # Rows where the line says the same, in its own spelling; None: nowhere.
    as_in_line: Mask | None = None


@dataclass(frozen=True)
class JsonRows:
    """Rows that are lines of JSON. See ``core.lazy_rows.LazyRows`` for what each method promises."""

    block: pa.Buffer
    starts: Positions
    ends: Positions
    # The fields of the lines that can be seen, and whether these are all there are.
    line_names: tuple[str, ...]
    shows_all: bool = True
    beside: dict[str, Beside] = field(default_factory=dict)
    # Where somebody put the columns into another order than the lines have them.
    order: tuple[str, ...] | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return how many rows."""
        return len(self.starts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave behind what can be made again."""
        state = (self.block, self.starts, self.ends, self.line_names, self.shows_all, self.beside, self.order)
        return JsonRows, state

    @property
    def num_bytes(self) -> int:
        """How many bytes the lines take, and the columns beside them."""
        beside = sum(int(column.values.nbytes) for column in self.beside.values())
        return int((self.ends - self.starts).sum()) + beside

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        if self.order is not None:
            return list(self.order)
        return [*self.line_names, *(name for name in self.beside if name not in self.line_names)]

    def field(self, name: str) -> pa.Field:
        """Return the type and marks of one column."""
        return self._column(name)[0]

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column, without making any other."""
        return self._column(name)[1]

    def to_table(self) -> pa.Table:
        """Return all columns; made once."""
        if "table" not in self._made:
            wanted = [name for name in self.line_names if name not in self.beside and name not in self._made]
            for first in range(0, len(wanted), _FIELDS_AT_ONCE):
                self._decode_together(wanted[first : first + _FIELDS_AT_ONCE])
            columns = [self._column(name) for name in self.names]
            schema = pa.schema([field for field, _ in columns])
            table = pa.Table.from_arrays([values for _, values in columns], schema=schema)
            self._made.clear()
            self._made["table"] = table
        return self._made["table"]

    def select(self, rows: Sequence[int] | Positions) -> JsonRows:
        """Return only these rows, of the same block."""
        wanted = np.asarray(rows, np.int64)
        beside = {name: _take(column, wanted) for name, column in self.beside.items()}
        return replace(self, starts=self.starts[wanted], ends=self.ends[wanted], beside=beside, _made={})

    def slice(self, first: int, count: int) -> JsonRows:
        """Return some rows that follow one another."""
        stop = first + count
        beside = {
            name: Beside(
                c.field, c.values.slice(first, count), None if c.as_in_line is None else c.as_in_line[first:stop]
            )
            for name, c in self.beside.items()
        }
        return replace(self, starts=self.starts[first:stop], ends=self.ends[first:stop], beside=beside, _made={})

    def with_columns(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> JsonRows:
        """Return the same rows with some columns beside them."""
        added = {name: Beside(pa.field(name, values.type), _chunked(values)) for name, values in columns.items()}
        for name, column in added.items():
            if len(column.values) != len(self):
                raise ValueError(f"column '{name}' has {len(column.values)} values for {len(self)} documents")
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
        """Return rows that say what this table says, in the words of the lines wherever they still hold."""
        rows = self
        if table.column_names[: len(self.names)] != self.names:
            kept = [name for name in self.names if name in table.column_names]
            follows = table.column_names[: len(kept)] == kept
            rows = self.only(kept if follows else [name for name in table.column_names if name in kept])
            # A column left out is no reason to change the order of what stays.
            rows = replace(rows, order=None if follows and self.order is None else tuple(table.column_names))
        beside: dict[str, Beside] = {}
        for new, values in zip(table.schema, table.columns, strict=True):
            name = new.name
            if name not in self.names:
                beside[name] = Beside(new, values)
                continue
            same = _same(*self._column(name), new, values)
            if same.all():
                if name in self.beside:
                    beside[name] = self.beside[name]
                continue
            in_line = same if name not in self.beside else None
            beside[name] = Beside(new, values, in_line)
        return replace(rows, beside=beside, _made={})

    def compacted(self) -> JsonRows:
        """Return the rows in a block of their own, if most of the block is not theirs."""
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
        return zip(self.starts.tolist(), self.ends.tolist(), strict=True)

    def _column(self, name: str) -> tuple[pa.Field, pa.ChunkedArray]:
        if "table" in self._made:
            table = self._made["table"]
            return table.schema.field(name), table[name]
        if name in self.beside:
            return self.beside[name].field, self.beside[name].values
        if name not in self.line_names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._decode(name)
        made: tuple[pa.Field, pa.ChunkedArray] = self._made[name]
        return made

    def _decode(self, name: str) -> tuple[pa.Field, pa.ChunkedArray]:
        """Take one field out of every line."""
        try:
            texts = _gathered(self._steps(_text_getter(name)), len(self), int((self.ends - self.starts).sum()))
            return pa.field(name, pa.large_string()), pa.chunked_array([texts])
        except msgspec.ValidationError:  # not all of them are text
            get = _token_getter(name)
            tokens = [bytes(token) or b"null" for step in self._steps(get) for token in step]
            column, values = column_of(name, tokens)
            return column, pa.chunked_array([values])

    def _decode_together(self, names: Sequence[str]) -> None:
        """Take several fields out of every line in one go; where that does not work they are left for later."""
        text = {name for name in names if self._begins_with_text(name)}
        keys = [f"f{position}" for position in range(len(names))]
        kinds = [(str | None, None) if name in text else (msgspec.Raw, msgspec.Raw()) for name in names]
        found: dict[str, list[Any]] = {name: [] for name in names}
        try:
            fields = [(key, *kind) for key, kind in zip(keys, kinds, strict=True)]
            shape = msgspec.defstruct("Lines", fields, rename=dict(zip(keys, names, strict=True)), gc=False)
            for step in self._steps(msgspec.json.Decoder(shape).decode):
                for key, name in zip(keys, names, strict=True):
                    values = map(attrgetter(key), step)
                    if name in text:
                        found[name].append(pa.array(list(values), pa.large_string()))
                    else:
                        found[name] += [bytes(value) or b"null" for value in values]
        except (msgspec.ValidationError, ValueError):  # not all of them are text; a name that no shape can have
            return
        for name in names:
            if name in text:
                self._made[name] = (pa.field(name, pa.large_string()), pa.chunked_array(found[name], pa.large_string()))
            else:
                column, array = column_of(name, found[name])
                self._made[name] = (column, pa.chunked_array([array]))

    def _begins_with_text(self, name: str) -> bool:
        """Guess from the first documents whether a field holds text."""
        view, get = memoryview(self.block), _token_getter(name)
        tokens = [bytes(get(view[start:end])) for start, end in islice(self.places(), 20)]
        return not {token[:1] for token in tokens} - {b"", b"n", b'"'}

    def _steps(self, get: Callable[[memoryview], Any]) -> Iterator[list[Any]]:
        view = memoryview(self.block)
        step: list[Any] = []
        taken = 0
        for start, end in self.places():
            step.append(get(view[start:end]))
            taken += end - start
            if taken >= _STEP_BYTES:
                yield step
                step, taken = [], 0
        if step:
            yield step


def _gathered(steps: Iterator[list[str | None]], rows: int, most_bytes: int) -> pa.Array:
    """Return texts as one array that was never copied as a whole: a text is no longer than the line it is in."""
    data = pa.allocate_buffer(most_bytes)
    target = np.frombuffer(data, np.uint8)
    offsets = np.zeros(rows + 1, np.int64)
    known = np.ones(rows, np.bool_)
    row = filled = 0
    for step in steps:
        # Not pa.array(step): that takes longer, and imports pandas to see whether the list is something of its own.
        encoded = [b"" if text is None else text.encode() for text in step]
        last = row + len(step)
        if None in step:
            known[row:last] = [text is not None for text in step]
        offsets[row + 1 : last + 1] = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(step))) + filled
        row = last
        joined = b"".join(encoded)
        target[filled : filled + len(joined)] = np.frombuffer(joined, np.uint8)
        filled += len(joined)
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), data.slice(0, filled)]
    return pa.Array.from_buffers(pa.large_string(), rows, buffers)


def parse_rows(lines: bytes) -> JsonRows:
    """Return the documents in some lines; what is no document is left out.

    >>> parse_rows(b'{"id": 1}\\n{"id": 2, "text": "x"}').to_table().to_pylist()
    [{'id': 1, 'text': None}, {'id': 2, 'text': 'x'}]
    """
    block = pa.py_buffer(lines)
    scan = scan_lines(block)
    return JsonRows(block, scan.starts, scan.ends, tuple(scan.names))


def join_rows(parts: Sequence[JsonRows]) -> JsonRows:
    """Put rows of several blocks, as they were read, into one block."""
    if len(parts) == 1:
        return parts[0]
    views = [memoryview(part.block) for part in parts]
    pieces = [view[start:end] for part, view in zip(parts, views, strict=True) for start, end in part.places()]
    lengths = np.concatenate([part.ends - part.starts for part in parts])
    ends = np.cumsum(lengths + 1) - 1
    names = tuple(dict.fromkeys(name for part in parts for name in part.line_names))
    return JsonRows(pa.py_buffer(b"\n".join(pieces)), ends - lengths, ends, names)


@lru_cache(maxsize=256)
def _text_getter(name: str) -> Callable[[memoryview], str | None]:
    return _getter(name, str | None, None)


@lru_cache(maxsize=256)
def _token_getter(name: str) -> Callable[[memoryview], msgspec.Raw]:
    return token_getter(name)


def token_getter(name: str) -> Callable[[memoryview], msgspec.Raw]:
    """Return a function that takes the JSON of one field out of a line; nothing where the line lacks it."""
    return _getter(name, msgspec.Raw, msgspec.Raw())


def _getter(name: str, kind: Any, default: Any) -> Callable[[memoryview], Any]:  # noqa: ANN401 - a type and its value
    try:
        shape = msgspec.defstruct("Line", [("value", kind, default)], rename={"value": name})
    except ValueError:  # a name with quotes or control characters in it
        decode_one = msgspec.json.Decoder(kind).decode

        def get(line: memoryview) -> Any:  # noqa: ANN401
            token = _decode_object(line).get(name)
            return default if token is None else decode_one(token)

        return get
    decode = msgspec.json.Decoder(shape).decode
    return lambda line: decode(line).value  # type: ignore[attr-defined]


def _take(column: Beside, rows: Positions) -> Beside:
    mask = None if column.as_in_line is None else column.as_in_line[rows]
    return Beside(column.field, column.values.take(pa.array(rows)), mask)


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def _same(old: pa.Field, before: pa.ChunkedArray, new: pa.Field, now: pa.ChunkedArray) -> Mask:
    """Tell for each row whether its value is still the same: of the same kind, not only equal."""
    same: Mask = np.zeros(len(before), np.bool_)
    if is_json(old) == is_json(new):
        if before.type != now.type and _is_text(before.type) and _is_text(now.type):
            now = now.cast(before.type)
        if before.type == now.type:
            equal = pc.fill_null(pc.equal(before, now), False)
            both_null = pc.and_(pc.is_null(before), pc.is_null(now))
            same = pc.or_(equal, both_null).to_numpy().astype(np.bool_)
            if not is_json(old):
                return same
    differing = np.flatnonzero(~same)
    if len(differing):
        rows = pa.array(differing)
        olds, news = python_values(old, before.take(rows)), python_values(new, now.take(rows))
        same[differing] = [_identical(one, other) for one, other in zip(olds, news, strict=True)]
    return same


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _identical(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON value
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_identical(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_identical, one, other))
    return bool(one == other)
