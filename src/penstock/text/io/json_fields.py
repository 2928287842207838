"""Fields out of lines of JSON: one, or several in one go, as Arrow columns. The lines are known to be good."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.text.io.json_tokens import column_of

Positions = npt.NDArray[np.int64]
Column = tuple[pa.Field, pa.ChunkedArray]

# So many bytes of lines are taken apart at a time: what Python holds of them in between stays small.
_STEP_BYTES = 1 << 20
_FIELDS_AT_ONCE = 64
_GUESS_FROM = 20
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Lines(NamedTuple):
    """A block of bytes, and where in it each line begins and ends."""

    block: pa.Buffer
    starts: Positions
    ends: Positions

    def places(self) -> Iterator[tuple[int, int]]:
        """Return where each line begins and ends."""
        return zip(self.starts.tolist(), self.ends.tolist(), strict=True)

    def steps(self, get: Callable[[memoryview], Any]) -> Iterator[list[Any]]:
        """Return what a function gives for each line, some lines at a time."""
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


def decode_field(lines: Lines, name: str) -> Column:
    """Take one field out of every line."""
    try:
        texts = _gathered(lines.steps(_text_getter(name)), len(lines.starts), int((lines.ends - lines.starts).sum()))
        return pa.field(name, pa.large_string()), pa.chunked_array([texts])
    except msgspec.ValidationError:  # not all of them are text
        tokens = [bytes(token) or b"null" for step in lines.steps(token_getter(name)) for token in step]
        column, values = column_of(name, tokens)
        return column, pa.chunked_array([values])


def decode_fields(lines: Lines, names: Sequence[str]) -> dict[str, Column]:
    """Take several fields out of every line."""
    columns: dict[str, Column] = {}
    for first in range(0, len(names), _FIELDS_AT_ONCE):
        some = names[first : first + _FIELDS_AT_ONCE]
        try:
            columns |= _decode_together(lines, some)
        except (msgspec.ValidationError, ValueError):  # not all text after all; a name that no shape can have
            columns |= {name: decode_field(lines, name) for name in some}
    return columns


def _decode_together(lines: Lines, names: Sequence[str]) -> dict[str, Column]:
    """Take fields out of every line in one go, those that begin with text as text."""
    text = {name for name in names if _begins_with_text(lines, name)}
    keys = {name: f"f{position}" for position, name in enumerate(names)}
    found: dict[str, list[Any]] = {name: [] for name in names}
    kinds = [(key, str | None, None) if n in text else (key, msgspec.Raw, msgspec.Raw()) for n, key in keys.items()]
    shape = msgspec.defstruct("Lines", kinds, rename={key: name for name, key in keys.items()}, gc=False)
    for step in lines.steps(msgspec.json.Decoder(shape).decode):
        for name, key in keys.items():
            values = map(attrgetter(key), step)
            if name in text:
                found[name].append(pa.array(list(values), pa.large_string()))
            else:
                found[name] += [bytes(value) or b"null" for value in values]
    columns: dict[str, Column] = {}
    for name, made in found.items():
        if name in text:
            columns[name] = pa.field(name, pa.large_string()), pa.chunked_array(made, pa.large_string())
        else:
            column, array = column_of(name, made)
            columns[name] = column, pa.chunked_array([array])
    return columns


def _begins_with_text(lines: Lines, name: str) -> bool:
    """Guess from the first documents whether a field holds text."""
    view, get = memoryview(lines.block), token_getter(name)
    tokens = [bytes(get(view[start:end])) for start, end in islice(lines.places(), _GUESS_FROM)]
    return not {token[:1] for token in tokens} - {b"", b"n", b'"'}


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


@lru_cache(maxsize=256)
def _text_getter(name: str) -> Callable[[memoryview], str | None]:
    return _getter(name, str | None, None)


@lru_cache(maxsize=256)
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
