"""Decode one or several fields of validated JSON lines into Arrow columns."""

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

from penstock.text.io.json_blocks import decode_block
from penstock.text.io.json_tokens import column_of

Positions = npt.NDArray[np.int64]
Column = tuple[pa.Field, pa.ChunkedArray]

# The number of bytes decoded at a time, which bounds the number of Python objects held.
_STEP_BYTES = 1 << 20
_FIELDS_PER_PASS = 64
# From this size on a block is decoded by the compiled kernel.
_MIN_KERNEL_BYTES = 1 << 18
_DOCUMENTS_TO_GUESS_FROM = 20
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Lines(NamedTuple):
    """A block of bytes, and where in it each line begins and ends."""

    block: pa.Buffer
    starts: Positions
    ends: Positions

    @property
    def num_bytes(self) -> int:
        """The size of all lines in bytes."""
        return int((self.ends - self.starts).sum())

    def places(self) -> Iterator[tuple[int, int]]:
        """Return where each line begins and ends."""
        return zip(self.starts.tolist(), self.ends.tolist(), strict=True)

    def steps(self, get: Callable[[memoryview], Any]) -> Iterator[list[Any]]:
        """Apply a function to each line, and yield the results in groups of bounded size."""
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
    """Decode one field of every line."""
    if lines.num_bytes >= _MIN_KERNEL_BYTES:
        return decode_block(lines, [name])[name]
    try:
        texts = _Texts(lines)
        for step in lines.steps(_text_getter(name)):
            texts.add(step)
        return texts.column(name)
    except msgspec.ValidationError:  # not all of them are text
        tokens = [bytes(token) or b"null" for step in lines.steps(token_getter(name)) for token in step]
        column, values = column_of(name, tokens)
        return column, pa.chunked_array([values])


def decode_fields(lines: Lines, names: Sequence[str]) -> dict[str, Column]:
    """Decode several fields of every line."""
    if lines.num_bytes >= _MIN_KERNEL_BYTES:
        return decode_block(lines, names)
    columns: dict[str, Column] = {}
    for first in range(0, len(names), _FIELDS_PER_PASS):
        some = names[first : first + _FIELDS_PER_PASS]
        try:
            columns |= _decode_together(lines, some)
        except (msgspec.ValidationError, ValueError):  # not all values are text, or a name that a struct cannot have
            columns |= {name: decode_field(lines, name) for name in some}
    return columns


def _decode_together(lines: Lines, names: Sequence[str]) -> dict[str, Column]:
    """Decode several fields in one pass; fields whose first values are texts are decoded as text."""
    text = {name for name in names if _begins_with_text(lines, name)}
    keys = {name: f"f{position}" for position, name in enumerate(names)}
    texts = {name: _Texts(lines) for name in names if name in text}
    tokens: dict[str, list[bytes]] = {name: [] for name in names if name not in text}
    for step in lines.steps(_decoder(tuple(names), frozenset(text))):
        for name, key in keys.items():
            values = list(map(attrgetter(key), step))
            if name in text:
                texts[name].add(values)
            else:
                tokens[name] += [bytes(value) or b"null" for value in values]
    columns: dict[str, Column] = {}
    for name in names:
        if name in text:
            columns[name] = texts[name].column(name)
        else:
            column, array = column_of(name, tokens[name])
            columns[name] = column, pa.chunked_array([array])
    return columns


@lru_cache(maxsize=256)
def _decoder(names: tuple[str, ...], text: frozenset[str]) -> Callable[[memoryview], Any]:
    """Return a function that decodes some fields of a line into the attributes f0, f1 and so on."""
    keys = {f"f{position}": name for position, name in enumerate(names)}
    kinds = [
        (key, str | None, None) if name in text else (key, msgspec.Raw, msgspec.Raw()) for key, name in keys.items()
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Lines", kinds, rename=keys, gc=False)).decode


def _begins_with_text(lines: Lines, name: str) -> bool:
    """Guess from the first documents whether a field holds text."""
    view, get = memoryview(lines.block), token_getter(name)
    tokens = [bytes(get(view[start:end])) for start, end in islice(lines.places(), _DOCUMENTS_TO_GUESS_FROM)]
    return not {token[:1] for token in tokens} - {b"", b"n", b'"'}


class _Texts:
    """Collect texts into one Arrow array without copying it as a whole: a text is never longer than its line."""

    def __init__(self, lines: Lines) -> None:
        rows = len(lines.starts)
        self._data = pa.allocate_buffer(lines.num_bytes)
        self._target = np.frombuffer(self._data, np.uint8)
        self._offsets = np.zeros(rows + 1, np.int64)
        self._known = np.ones(rows, np.bool_)
        self._rows = self._filled = 0

    def add(self, step: list[str | None]) -> None:
        # Not pa.array(step): that is slower, and imports pandas to check the type of the list.
        encoded = [b"" if text is None else text.encode() for text in step]
        row, last, filled = self._rows, self._rows + len(step), self._filled
        if None in step:
            self._known[row:last] = [text is not None for text in step]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(step)))
        self._offsets[row + 1 : last + 1] = ends + filled
        joined = b"".join(encoded)
        self._target[filled : filled + len(joined)] = np.frombuffer(joined, np.uint8)
        self._rows, self._filled = last, filled + len(joined)

    def column(self, name: str) -> Column:
        validity = None if self._known.all() else pa.py_buffer(np.packbits(self._known, bitorder="little"))
        buffers = [validity, pa.py_buffer(self._offsets), self._data.slice(0, self._filled)]
        array = pa.Array.from_buffers(pa.large_string(), self._rows, buffers)
        return pa.field(name, pa.large_string()), pa.chunked_array([array])


@lru_cache(maxsize=256)
def _text_getter(name: str) -> Callable[[memoryview], str | None]:
    return _getter(name, str | None, None)


@lru_cache(maxsize=256)
def token_getter(name: str) -> Callable[[memoryview], msgspec.Raw]:
    """Return a function that returns the JSON of one field of a line; empty if the line lacks the field."""
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
