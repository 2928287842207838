"""Read a column of a batch as Arrow text or Python values, however it is stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.json_column import decode_json


def text_column(batch: DocumentBatch, name: str) -> pa.Array | None:
    """Return a column as one array of large strings; None if it does not hold text.

    In a column of mixed values, a value that is not text is represented by its JSON.

    >>> text_column(DocumentBatch("demo", pa.table({"text": ["a", None]})), "text").to_pylist()
    ['a', None]
    """
    column = batch.column(name)
    if batch.holds_json(name):
        texts = [_text_of(text) for text in column.to_pylist()]
        return pa.array(texts, pa.large_string())
    if not is_text(column.type):
        return None
    column = column.cast(pa.large_string())
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def values_of(batch: DocumentBatch, name: str) -> list[Any]:
    """Return a column as Python values; JSON is decoded.

    >>> values_of(DocumentBatch("demo", pa.table({"n": [1, None]})), "n")
    [1, None]
    """
    values: list[Any] = batch.column(name).to_pylist()
    if batch.holds_json(name):
        return [None if text is None else decode_json(text) for text in values]
    return values


def is_text(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is text; a column of only nulls counts as text."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )


def _text_of(json_text: str | None) -> str | None:
    if json_text is None or not json_text.startswith('"'):
        return json_text
    text: str = msgspec.json.decode(json_text)
    return text
