"""Get and replace the text column of a batch, whatever its type."""

from __future__ import annotations

import copy

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.json_column import json_field
from penstock.errors import InputError
from penstock.text.text_column import text_column


def texts_of(batch: DocumentBatch, field: str) -> pa.ChunkedArray:
    """Return a column as large strings. Null becomes an empty string; a JSON value that is not text becomes its JSON.

    >>> texts_of(DocumentBatch("demo", pa.table({"text": ["a", None]})), "text").to_pylist()
    ['a', '']
    """
    column = batch.column(field)
    if batch.holds_json(field):
        column = pa.chunked_array([text_column(batch, field)])
    try:
        texts = column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:
        raise InputError(
            f"column '{field}' holds {column.type}, not text. Name the one with the texts (text_field, --text-field)."
        ) from None
    return pc.fill_null(texts, "") if texts.null_count else texts


def with_texts(batch: DocumentBatch, field: str, rows: npt.NDArray[np.int64], texts: pa.Array) -> DocumentBatch:
    """Return a batch with new texts in some rows. The other rows keep their values, also null and non-text values.

    >>> batch = DocumentBatch("demo", pa.table({"text": ["a", "b", None]}))
    >>> with_texts(batch, "text", np.array([1]), pa.array(["c"], pa.large_string())).column("text").to_pylist()
    ['a', 'c', None]
    """
    is_json = batch.holds_json(field)
    if is_json:
        texts = pa.array([msgspec.json.encode(text).decode() for text in texts.to_pylist()], pa.large_string())
    here = np.zeros(batch.num_items, dtype=np.bool_)
    here[rows] = True
    before = batch.column(field).cast(pa.large_string()).combine_chunks()
    column = pc.replace_with_mask(before, pa.array(here), texts)
    if not is_json:
        return batch.with_columns({field: column})
    table, changed = batch.to_pyarrow(), copy.copy(batch)
    changed.data = table.set_column(table.schema.get_field_index(field), json_field(field), column)
    return changed
