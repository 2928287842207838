"""Following documents through a stage that does not say which is which: by id, by pandas index, by equal columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch

Rows = npt.NDArray[np.int64]


def id_column(batch: DocumentBatch, id_fields: Sequence[str]) -> str | None:
    """Return the column that holds the ids of a batch, if it has one."""
    columns = set(batch.get_columns())
    return next((name for name in id_fields if name in columns), None)


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


def follow(before: DocumentBatch, after: DocumentBatch, id_fields: Sequence[str]) -> Rows | None:
    """Return for each document of a batch its position in the batch it was made from; None if that cannot be told.

    Ids decide where there are any and no two are equal. Else a guess (the index of a pandas frame, or the same number
    of rows) counts if a column that both have agrees with it.

    >>> from penstock.testing import make_batch
    >>> before = make_batch(["a", "b", "c"])
    >>> kept = DocumentBatch("test", before.to_pyarrow().take([2, 0]))
    >>> follow(before, kept, ["id"])
    array([2, 0])
    """
    name = id_column(before, id_fields)
    if name is not None and name in after.get_columns():
        return _by_id(before.column(name), after.column(name))
    guess = _pandas_index(after.data, before.num_items)
    by_index = guess is not None
    if guess is None and after.num_items == before.num_items:
        guess = np.arange(before.num_items)
    if guess is None:
        return None
    shared = [column for column in after.get_columns() if column in set(before.get_columns())]
    if any(_agrees(before.column(column), after.column(column), guess) for column in shared):
        return guess
    # A stage that changes every column, such as one that cleans the only text there is, still keeps pandas' index.
    return guess if by_index and after.num_items == before.num_items else None


def _by_id(before: pa.ChunkedArray, after: pa.ChunkedArray) -> Rows | None:
    if before.type != after.type or pc.count_distinct(before, mode="all").as_py() != len(before):
        return None
    found = pc.index_in(after, value_set=before)
    if found.null_count or pc.count_distinct(found).as_py() != len(found):
        return None
    positions: Rows = found.to_numpy().astype(np.int64)
    return positions


def _pandas_index(data: Any, rows: int) -> Rows | None:  # noqa: ANN401 - a table of either kind
    index = getattr(data, "index", None)
    if index is None or callable(index) or getattr(index, "dtype", None) != np.int64:
        return None
    positions: Rows = index.to_numpy()
    inside = len(positions) == 0 or (positions.min() >= 0 and positions.max() < rows)
    return positions if inside and len(np.unique(positions)) == len(positions) else None


def _agrees(before: pa.ChunkedArray, after: pa.ChunkedArray, guess: Rows) -> bool:
    if before.type != after.type:
        return False
    try:
        return bool(before.take(pa.array(guess)).equals(after))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
