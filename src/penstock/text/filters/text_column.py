"""The column of a batch that holds text, whatever type it came in."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.json_column import is_json


def text_column(batch: DocumentBatch, name: str) -> pa.ChunkedArray:
    """Return the documents of a column as strings; where something else stands among them, that is its JSON."""
    texts = batch.column(name)
    if is_json(_field(batch, name)):
        return pa.chunked_array([pa.array([_text_of(text) for text in texts.to_pylist()], pa.large_string())])
    if pa.types.is_null(texts.type):
        return texts.cast(pa.large_string())
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise TypeError(f"column '{name}' holds {texts.type}, not text")
    return texts


def text_sizes(batch: DocumentBatch, texts: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return what each document takes in bytes: its text, and an even part of what lies beside it."""
    lengths: npt.NDArray[np.float64] = pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.float64)
    beside = float(batch.num_bytes - lengths.sum()) / max(len(lengths), 1)
    return lengths + beside


def _field(batch: DocumentBatch, name: str) -> pa.Field:
    schema: Any = getattr(batch.data, "schema", None)
    return (batch.to_pyarrow().schema if schema is None else schema).field(name)


def _text_of(json_text: str | None) -> str | None:
    return msgspec.json.decode(json_text) if json_text and json_text.startswith('"') else json_text
