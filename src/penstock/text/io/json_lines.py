"""JSON lines to Arrow columns and back, exactly: no value is guessed into another type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import msgspec
import pyarrow as pa

from penstock.core.json_column import is_json, json_field

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INT64 = range(-(2**63), 2**63)
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_checked = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode
_decode_strings = msgspec.json.Decoder(list[str | None]).decode
_decode_values = msgspec.json.Decoder(list[Any]).decode


@dataclass
class BadLine:
    """A line that is no JSON object, and why."""

    number: int
    reason: str
    line: bytes


@dataclass
class Records:
    """Parsed lines: for each an object whose values are still JSON text."""

    objects: list[dict[str, msgspec.Raw]] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)


def parse_lines(stream: Iterable[bytes]) -> Records:
    """Parse a file line by line; what is no object is set aside, blank lines are no documents."""
    records = Records()
    for number, raw_line in enumerate(stream, start=1):
        line = (raw_line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw_line).strip()
        if not line:
            continue
        try:
            parsed = _decode_object(line)
            if not line.isascii():
                line.decode("utf-8")
            if b"\\u" in line:
                _decode_checked(line)  # an escape may name half a character
        except UnicodeDecodeError as error:
            records.bad_lines.append(BadLine(number, f"invalid UTF-8 at byte {error.start}", line))
        except RecursionError:
            records.bad_lines.append(BadLine(number, "not JSON: nested too deeply", line))
        except msgspec.DecodeError as error:
            records.bad_lines.append(BadLine(number, _reason(line, error), line))
        else:
            if parsed:
                records.objects.append(parsed)
            else:
                records.bad_lines.append(BadLine(number, "an object without any field", line))
    return records


def _reason(line: bytes, error: msgspec.DecodeError) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"expected a JSON object, got {_kind(line)}"
    return f"not JSON: {error}"


def _kind(line: bytes) -> str:
    first = line[:1]
    return {b"[": "an array", b'"': "a string", b"t": "true", b"f": "false", b"n": "null"}.get(first, "a number")


def to_table(objects: Sequence[dict[str, msgspec.Raw]], fields: Sequence[str] | None = None) -> pa.Table:
    """Make a column of each field, in the order in which fields first appear, or of the fields asked for."""
    names = list(fields) if fields is not None else list(dict.fromkeys(name for row in objects for name in row))
    columns = [_column(name, [row.get(name) for row in objects]) for name in names]
    return pa.Table.from_arrays([array for _, array in columns], schema=pa.schema([field for field, _ in columns]))


def _column(name: str, values: Sequence[msgspec.Raw | None]) -> tuple[pa.Field, pa.Array]:
    tokens = [b"null" if value is None else bytes(value) for value in values]
    kinds = {token[:1] for token in tokens} - {b"n"}
    joined = b"[" + b",".join(tokens) + b"]"
    if kinds <= {b'"'}:
        return pa.field(name, pa.large_string()), pa.array(_decode_strings(joined), pa.large_string())
    if not kinds & {b'"', b"{", b"["}:
        array = _plain_values(joined)
        if array is not None:
            return pa.field(name, array.type), array
    texts = [None if token == b"null" else token.decode("utf-8") for token in tokens]
    return json_field(name), pa.array(texts, pa.large_string())


def _plain_values(joined: bytes) -> pa.Array | None:
    """Return numbers or booleans as a typed array, if writing that array gives the very same text."""
    try:
        values = _decode_values(joined)
    except msgspec.DecodeError:
        return None
    if msgspec.json.encode(values) != joined:
        return None
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {float}:
        return pa.array(values, pa.float64())
    if kinds == {int} and all(value is None or value in _INT64 for value in values):
        return pa.array(values, pa.int64())
    return None


def write_lines(table: pa.Table, stream: IO[bytes]) -> None:
    """Write one JSON object a line; JSON text goes out as it came in."""
    encoder = msgspec.json.Encoder(enc_hook=_plain)
    names = table.column_names
    for batch in table.to_batches(max_chunksize=1000):
        columns = [_python_values(batch.schema.field(i), batch.column(i)) for i in range(batch.num_columns)]
        rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True)
        stream.write(b"".join(encoder.encode(dict(zip(names, row, strict=True))) + b"\n" for row in rows))


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow gives for a type msgspec does not know
    if hasattr(value, "isoformat"):  # a pandas timestamp, for times in nanoseconds
        return value.isoformat()
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def _python_values(column: pa.Field, array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    if is_json(column):
        return [None if text is None else msgspec.Raw(text.encode()) for text in values]
    return values
