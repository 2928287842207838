"""Convert JSON values to Arrow columns and back without loss: no value is converted to another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.core.json_column import decode_json, is_json, json_field

_INT64 = range(-(2**63), 2**63)
_decode_strings = msgspec.json.Decoder(list[str | None]).decode
_decode_values = msgspec.json.Decoder(list[Any]).decode


def column_of(name: str, tokens: Sequence[bytes]) -> tuple[pa.Field, pa.Array]:
    """Return a column of JSON values, with an Arrow type only if writing it restores the same JSON."""
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
    """Return numbers or booleans as a typed array, if writing that array restores the same text."""
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


def tokens_of(field: pa.Field, values: pa.Array | pa.ChunkedArray) -> list[bytes]:
    """Return each value of a column as JSON."""
    kind = values.type
    if is_json(field):
        return [b"null" if text is None else text.encode() for text in values.to_pylist()]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        # None of these contains a comma, so one call encodes all.
        listed = values.to_pylist() if values.null_count else np.asarray(values).tolist()
        return msgspec.json.encode(listed)[1:-1].split(b",") if listed else []
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    return [encode(value) for value in values.to_pylist()]


def python_values(field: pa.Field, values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return each value of a column as a Python value; JSON is parsed."""
    if is_json(field):
        return [None if text is None else decode_json(text) for text in values.to_pylist()]
    listed: list[Any] = values.to_pylist()
    return listed


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow gives for a type msgspec does not know
    if hasattr(value, "isoformat"):  # a pandas timestamp, for times in nanoseconds
        return value.isoformat()
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")
