"""Columns that hold JSON text unchanged.

A value that Arrow has no exact type for (a nested object, a number of forty digits, a field that is a string in one row
and a list in another) is kept as its JSON text, in a string column whose field is marked. Writers write the text
unchanged; pandas users see Python objects.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_INT64 = range(-(2**63), 2**63)
_INFINITE = {math.inf: msgspec.Raw(b"1e999"), -math.inf: msgspec.Raw(b"-1e999")}
_MARK = {b"penstock.json": b"1"}


def json_field(name: str) -> pa.Field:
    """Return the field of a column that holds JSON text."""
    import pyarrow as pa

    return pa.field(name, pa.large_string(), metadata=_MARK)


def is_json(field: pa.Field) -> bool:
    """Tell whether a column holds JSON text."""
    return bool(field.metadata and b"penstock.json" in field.metadata)


def agree_on_json(tables: list[pa.Table]) -> list[pa.Table]:
    """Make a column JSON in all tables if it is JSON in one, so that tables with equal schemas can be joined."""
    import pyarrow as pa

    marked = {field.name for table in tables for field in table.schema if is_json(field)}
    agreed = []
    for table in tables:
        for position, field in enumerate(table.schema):
            if field.name in marked and not is_json(field):
                values = table[field.name].to_pylist()
                texts = [None if value is None else _encode(value) for value in values]
                table = table.set_column(position, json_field(field.name), pa.array(texts, pa.large_string()))
        agreed.append(table)
    return agreed


def decode_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Parse JSON text to a Python value; a number too large for every type becomes infinite.

    >>> decode_json('{"a": [1.5, 1e400]}')
    {'a': [1.5, inf]}
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        return float(digits)


def decode_json_columns(table: pa.Table, frame: pd.DataFrame) -> pd.DataFrame:
    """Replace JSON text by Python objects, for use in pandas."""
    import pandas as pd

    for field in table.schema:
        if is_json(field):
            values = [None if text is None else decode_json(text) for text in table[field.name].to_pylist()]
            frame[field.name] = pd.Series(values, index=frame.index, dtype=object)
    return frame


def encode_json_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Replace objects and lists by JSON text, and return the frame and the names of the changed columns.

    >>> import pandas as pd
    >>> encoded, names = encode_json_columns(pd.DataFrame({"meta": [{"a": 1}, None], "n": [1, 2]}))
    >>> names, encoded["meta"].tolist()
    (['meta'], ['{"a":1}', None])
    """
    import pandas as pd

    encoded: dict[str, Any] = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype == object and _needs_json(column.tolist()):
            texts = [None if _absent(value) else _encode(value) for value in column.tolist()]
            encoded[str(name)] = pd.Series(texts, index=frame.index, dtype=object)
    return frame.assign(**encoded) if encoded else frame, list(encoded)


def _needs_json(values: list[Any]) -> bool:
    kinds = {type(value) for value in values if not _absent(value)}
    plain = kinds & {str, int, float, bool}
    too_large = kinds == {int} and any(value is not None and value not in _INT64 for value in values)
    infinite = kinds == {float} and any(value in _INFINITE for value in values)
    return bool(kinds & {dict, list}) or (len(plain) > 1 and plain == kinds) or too_large or infinite


def _absent(value: Any) -> bool:  # noqa: ANN401
    return value is None or (isinstance(value, float) and value != value)  # pandas writes a missing value as NaN


def _encode(value: Any) -> str:  # noqa: ANN401 - whatever a user put into a frame
    """Return a value as JSON text.

    An infinite number stands for one that is too large for every type. It is written as 1e999, which is read back as
    infinite; msgspec would write null.

    >>> _encode({"a": [1.5, float("-inf")]})
    '{"a":[1.5,-1e999]}'
    """
    text = msgspec.json.encode(value, enc_hook=_from_numpy)
    if b"null" in text:
        text = msgspec.json.encode(_with_infinities(value), enc_hook=_from_numpy)
    return text.decode()


def _with_infinities(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return _INFINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _with_infinities(item) for key, item in value.items()}
    return [_with_infinities(item) for item in value] if isinstance(value, list | tuple) else value


def _from_numpy(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "tolist"):
        return value.tolist()
    raise NotImplementedError
