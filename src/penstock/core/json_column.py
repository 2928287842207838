"""Columns that hold JSON as it was written.

A value that Arrow has no exact type for (a nested object, a number of forty digits, a field that is now a string and
now a list) is kept as its JSON text, in a string column whose field is marked. Writers write the text back as it is;
pandas users see Python objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_MARK = {b"penstock.json": b"1"}


def json_field(name: str) -> pa.Field:
    """Return the field of a column that holds JSON text."""
    import pyarrow as pa

    return pa.field(name, pa.large_string(), metadata=_MARK)


def is_json(field: pa.Field) -> bool:
    """Tell whether a column holds JSON text."""
    return bool(field.metadata and b"penstock.json" in field.metadata)


def decode_json_columns(table: pa.Table, frame: pd.DataFrame) -> pd.DataFrame:
    """Put Python objects in place of JSON text, for people who work in pandas."""
    import pandas as pd

    for field in table.schema:
        if is_json(field):
            values = [None if text is None else msgspec.json.decode(text) for text in table[field.name].to_pylist()]
            frame[field.name] = pd.Series(values, index=frame.index, dtype=object)
    return frame


def encode_json_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Put JSON text in place of objects and lists, and return which columns were changed.

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
    return bool(kinds & {dict, list}) or (len(plain) > 1 and plain == kinds)


def _absent(value: Any) -> bool:  # noqa: ANN401
    return value is None or (isinstance(value, float) and value != value)  # NaN is how pandas says "nothing here"


def _encode(value: Any) -> str:  # noqa: ANN401 - whatever a user put into a frame
    return msgspec.json.encode(value).decode()
