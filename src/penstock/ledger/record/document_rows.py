"""Identify the documents of a batch by their row numbers and ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.task import Task

Rows = npt.NDArray[np.int64]


def id_column(batch: DocumentBatch, id_fields: Sequence[str]) -> str | None:
    """Return the name of the id column of a batch, or None."""
    columns = set(batch.get_columns())
    return next((name for name in id_fields if name in columns), None)


def holds_documents(task: Task[Any]) -> TypeGuard[DocumentBatch]:
    """Return whether a task holds documents: rows with text in some column.

    A table that holds only numbers is not recorded: it has no text to show, and often millions of rows.
    """
    if not isinstance(task, DocumentBatch):
        return False
    if task._is_lazy or not hasattr(task.data, "schema"):
        return True  # JSON lines or a data frame: the column types are not known
    kinds = (field.type for field in task.data.schema)
    return any(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds)


def has_rows(batch: DocumentBatch) -> bool:
    """Return whether a batch has a row number for every document; a stage may have replaced its data."""
    return batch.source_rows is not None and len(batch.source_rows) == batch.num_items


def are_distinct(rows: Rows) -> bool:
    """Return whether no row number occurs twice; a stage that splits documents repeats them."""
    return bool((rows[1:] > rows[:-1]).all()) or len(np.unique(rows)) == len(rows)


def rows_of(batch: DocumentBatch) -> Rows:
    """Return the row numbers of a batch that has them."""
    assert batch.source_rows is not None
    return batch.source_rows
