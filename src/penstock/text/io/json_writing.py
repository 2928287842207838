"""Documents to lines of JSON: a line that nobody changed is copied, one that was changed is patched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

import msgspec
import numpy as np
import pyarrow as pa

from penstock.text.io.json_rows import Beside, JsonRows, token_getter
from penstock.text.io.json_tokens import tokens_of

_ROWS_AT_ONCE = 1000
_BYTES_AT_ONCE = 1 << 20
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode

# For each column beside the lines: its name, and per row its JSON or None where the line has it already.
Patches = list[tuple[str, list[bytes | None]]]


def write_table(table: pa.Table, stream: IO[bytes]) -> None:
    """Write one JSON object a line; JSON text goes out as it came in."""
    keys = [_encode(name) + b":" for name in table.column_names]
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        columns = [
            [key + token for token in tokens_of(field, values)]
            for key, field, values in zip(keys, batch.schema, batch.columns, strict=True)
        ]
        stream.write(b"".join(b"{" + b",".join(row) + b"}\n" for row in zip(*columns, strict=True)))


def write_rows(rows: JsonRows, stream: IO[bytes]) -> None:
    """Write lines, copied where that is possible."""
    if not rows.beside and rows.shows_all and rows.order is None:
        _copy(rows, stream)
        return
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows.select(np.arange(first, min(first + _ROWS_AT_ONCE, len(rows))))
        patches: Patches = [(name, _new_tokens(column)) for name, column in part.beside.items()]
        lines = _patched(part, patches) if part.shows_all and part.order is None else _rebuilt(part, patches)
        stream.write(b"".join(lines))


def _copy(rows: JsonRows, stream: IO[bytes]) -> None:
    """Copy the lines; neighbours in the block go out in one piece."""
    view = memoryview(rows.block)
    # Where only one byte lies between two lines it is the line end.
    breaks = np.flatnonzero(rows.starts[1:] != rows.ends[:-1] + 1)
    firsts = rows.starts[np.concatenate([[0], breaks + 1])] if len(rows) else rows.starts
    lasts = rows.ends[np.concatenate([breaks, [len(rows) - 1]])] if len(rows) else rows.ends
    pending: list[bytes | memoryview] = []
    size = 0
    for start, end in zip(firsts.tolist(), lasts.tolist(), strict=True):
        pending += [view[start:end], b"\n"]
        size += end - start + 1
        if size >= _BYTES_AT_ONCE:
            stream.write(b"".join(pending))
            pending, size = [], 0
    stream.write(b"".join(pending))


def _new_tokens(column: Beside) -> list[bytes | None]:
    tokens: list[bytes | None] = list(tokens_of(column.field, column.values))
    if column.as_in_line is not None:
        for row in np.flatnonzero(column.as_in_line).tolist():
            tokens[row] = None
    return tokens


def _patched(rows: JsonRows, patches: Patches) -> Iterator[bytes]:
    """Put new values into the lines, in place of old ones or at the end, and leave every other byte as it is."""
    view = memoryview(rows.block)
    replaced = [(_finder(name), _encode(name), tokens) for name, tokens in patches if name in rows.line_names]
    added = [(b"," + _encode(name) + b":", tokens) for name, tokens in patches if name not in rows.line_names]
    for row, (start, end) in enumerate(rows.places()):
        line = view[start:end]
        changes: list[tuple[int, int, bytes]] = []
        behind: list[bytes] = []
        for find, key, tokens in replaced:
            token = tokens[row]
            if token is None:
                continue
            place = find(line)
            if place is None:
                behind += [b",", key, b":", token]
            else:
                changes.append((*place, token))
        for key, tokens in added:
            token = tokens[row]
            if token is not None:
                behind += [key, token]
        pieces: list[bytes | memoryview] = []
        position = 0
        for first, last, token in sorted(changes):
            pieces += [line[position:first], token]
            position = last
        yield b"".join([*pieces, line[position:-1], *behind, b"}\n"])


def _finder(name: str) -> Callable[[memoryview], tuple[int, int] | None]:
    """Return a function that says where in a line the value of a field stands."""
    get = token_getter(name)

    def find(line: memoryview) -> tuple[int, int] | None:
        token = memoryview(get(line))
        if not len(token):
            return None
        start = _address(token) - _address(line)
        return start, start + len(token)

    return find


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def _rebuilt(rows: JsonRows, patches: Patches) -> Iterator[bytes]:
    """Make new lines of some of the fields, each value as it is spelled; what a line lacks it goes on lacking."""
    view = memoryview(rows.block)
    visible = set(rows.line_names)
    named = dict(patches)
    keys = {name: _encode(name) + b":" for name in rows.names}
    for row, (start, end) in enumerate(rows.places()):
        document = _decode_object(view[start:end])
        order = rows.order or [*(name for name in document if name in visible), *named]
        parts = []
        for name in dict.fromkeys(order):
            token = named[name][row] if name in named else None
            if token is None and name in visible and name in document:
                token = bytes(document[name])
            if token is not None:
                parts.append(keys[name] + token)
        if not parts:  # an object without any field would be taken for a broken line
            parts = [keys[name] + b"null" for name in order]
        yield b"{" + b",".join(parts) + b"}\n"
