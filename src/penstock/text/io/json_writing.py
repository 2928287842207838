"""Write documents as JSON lines: an unchanged line is copied, a changed line is patched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import msgspec
import numpy as np
import pyarrow as pa

from penstock.text.io.json_fields import token_getter
from penstock.text.io.json_rows import Beside, JsonRows
from penstock.text.io.json_tokens import tokens_of

_ROWS_PER_WRITE = 1000
_BYTES_PER_WRITE = 1 << 20
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode

# For each separate column: its name, and per row its JSON, or None if the line has the value already.
Patches = list[tuple[str, list[bytes | None]]]


def write_table(table: pa.Table, stream: IO[bytes]) -> None:
    """Write one JSON object per line; JSON columns are written unchanged."""
    keys = [_encode(name) + b":" for name in table.column_names]
    for batch in table.to_batches(max_chunksize=_ROWS_PER_WRITE):
        columns = [
            [key + token for token in tokens_of(field, values)]
            for key, field, values in zip(keys, batch.schema, batch.columns, strict=True)
        ]
        stream.write(b"".join(b"{" + b",".join(row) + b"}\n" for row in zip(*columns, strict=True)))


def write_rows(rows: JsonRows, stream: IO[bytes]) -> None:
    """Write rows; lines are copied where possible."""
    if not rows.beside and rows.shows_all and rows.order is None:
        _copy(rows, stream)
        return
    for first in range(0, len(rows), _ROWS_PER_WRITE):
        part = rows.slice(first, _ROWS_PER_WRITE)
        patches: Patches = [(name, _new_tokens(column)) for name, column in part.beside.items()]
        if not part.shows_all or part.order is not None:
            stream.write(b"".join(_rebuilt(part, patches)))
        elif part.beside.keys() & set(part.line_names):
            stream.write(b"".join(_patched(part, patches)))
        else:
            stream.write(b"".join(_lengthened(part, patches)))


def _copy(rows: JsonRows, stream: IO[bytes]) -> None:
    """Copy the lines; adjacent lines of the block are written together."""
    view = memoryview(rows.block)
    # If there is only one byte between two lines, it is the line break.
    breaks = np.flatnonzero(rows.starts[1:] != rows.ends[:-1] + 1)
    firsts = rows.starts[np.concatenate([[0], breaks + 1])] if len(rows) else rows.starts
    lasts = rows.ends[np.concatenate([breaks, [len(rows) - 1]])] if len(rows) else rows.ends
    pending: list[bytes | memoryview] = []
    size = 0
    for start, end in zip(firsts.tolist(), lasts.tolist(), strict=True):
        pending += [view[start:end], b"\n"]
        size += end - start + 1
        if size >= _BYTES_PER_WRITE:
            stream.write(b"".join(pending))
            pending, size = [], 0
    stream.write(b"".join(pending))


def _new_tokens(column: Beside) -> list[bytes | None]:
    tokens: list[bytes | None] = list(tokens_of(column.field, column.values))
    if column.as_in_line is not None:
        for row in np.flatnonzero(column.as_in_line).tolist():
            tokens[row] = None
    return tokens


def _lengthened(rows: JsonRows, patches: Patches) -> Iterator[bytes | memoryview]:
    """Append the values of new fields to the lines."""
    view = memoryview(rows.block)
    columns = [[b"," + _encode(name) + b":" + (token or b"null") for token in tokens] for name, tokens in patches]
    for (start, end), added in zip(rows.places(), zip(*columns, strict=True), strict=True):
        yield view[start : end - 1]
        yield from added
        yield b"}\n"


def _patched(rows: JsonRows, patches: Patches) -> Iterator[bytes | memoryview]:
    """Write new values into the lines, in place of old ones or appended; every other byte is kept."""
    view, base = memoryview(rows.block), rows.block.address
    columns = [(token_getter(name), b"," + _encode(name) + b":", tokens) for name, tokens in patches]
    for row, (start, end) in enumerate(rows.places()):
        changes: list[tuple[int, int, bytes]] = []
        added: list[bytes] = []
        for get, key, tokens in columns:
            token = tokens[row]
            if token is None:
                continue
            old = pa.py_buffer(get(view[start:end]))  # a view of the block: its address is its position
            if old.size:
                changes.append((old.address - base, old.size, token))
            else:
                added += [key, token]
        position = start
        for place, size, token in sorted(changes):
            yield view[position:place]
            yield token
            position = place + size
        yield view[position : end - 1]
        yield from added
        yield b"}\n"


def _rebuilt(rows: JsonRows, patches: Patches) -> Iterator[bytes]:
    """Build new lines from some of the fields, each value in its original spelling; missing fields stay missing."""
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
        if not parts:  # an object without fields would be read as a bad line
            parts = [keys[name] + b"null" for name in order]
        yield b"{" + b",".join(parts) + b"}\n"
