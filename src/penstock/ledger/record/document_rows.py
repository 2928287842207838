"""Which documents a batch holds, as far as it says so."""

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
    """Return the column that holds the ids of a batch, if it has one."""
    columns = set(batch.get_columns())
    return next((name for name in id_fields if name in columns), None)


def holds_documents(task: Task[Any]) -> TypeGuard[DocumentBatch]:
    """Tell whether a task holds something a person could ask about: rows with text in some column.

    A table of numbers only has nothing to show, and often millions of rows.
    """
    if not isinstance(task, DocumentBatch):
        return False
    if task._is_lazy or not hasattr(task.data, "schema"):
        return True  # lines of JSON, or a frame, whose columns may hold anything
    kinds = (field.type for field in task.data.schema)
    return any(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds)


def has_rows(batch: DocumentBatch) -> bool:
    """Tell whether a batch still says which documents it holds; a stage may have changed the data under it."""
    return batch.source_rows is not None and len(batch.source_rows) == batch.num_items


def are_distinct(rows: Rows) -> bool:
    """Tell whether no document is there twice, as it would be where one was split."""
    return bool((rows[1:] > rows[:-1]).all()) or len(np.unique(rows)) == len(rows)


def rows_of(batch: DocumentBatch) -> Rows:
    """Return which documents a batch holds, where that is known."""
    assert batch.source_rows is not None
    return batch.source_rows
