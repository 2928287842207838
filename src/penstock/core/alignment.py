"""Match the rows of a child batch to the rows of its parent where the stage does not say which is which.

A stage that makes a new batch from a table loses which document is which. Four kinds of match are tried: the labels of
a pandas index, the same position, a column with unique values, and the order of the remaining rows. The candidate that
agrees with most of the data is taken. If none agrees, the match is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Rows = npt.NDArray[np.int64]

_ROWS_PER_COMPARISON = 1000


class Alignment(NamedTuple):
    """For every row of the child, the row of the parent it was made from."""

    rows: Rows
    # False where equal rows of the parent leave it open which of them was meant.
    is_certain: bool = True


class RowsLike(Protocol):
    """The interface of a batch that ``align`` needs."""

    @property
    def num_items(self) -> int:
        """The number of rows."""

    def get_columns(self) -> list[str]:
        """Return the names of the columns."""

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column."""

    def to_pyarrow(self) -> pa.Table:
        """Return all columns."""


def align(parent: RowsLike, child: RowsLike) -> Alignment | None:
    """Return for each row of the child its row in the parent, or None if that is unknown."""
    import numpy as np

    if child.num_items == 0:
        return Alignment(np.empty(0, dtype=np.int64))
    # Small columns first: they identify a row as well as a text does, and are cheaper to compare.
    columns = sorted(_comparable(parent, child), key=lambda pair: int(pair[0].nbytes))
    informative = [pair for pair in columns if parent.num_items == 1 or not _is_constant(pair[0])]
    best: tuple[int, Alignment] | None = None
    for candidate in _candidates(parent, child, informative):
        agreeing = [mine for mine, theirs in informative if _agrees(mine, theirs, candidate.rows)]
        if len(agreeing) == len(informative) > 0:
            return candidate
        # By bytes: a text says more about which document it is than a number does.
        weight = sum(int(column.nbytes) for column in agreeing)
        if best is None or weight > best[0]:
            best = weight, candidate
    if best is None or (best[0] == 0 and child.num_items != parent.num_items):
        return None
    return best[1]


def _comparable(parent: RowsLike, child: RowsLike) -> Iterator[tuple[pa.ChunkedArray, pa.ChunkedArray]]:
    """Yield the columns that both have, in the same type."""
    import pyarrow as pa

    table = child.to_pyarrow()
    for name in parent.get_columns():
        if name not in table.column_names:
            continue
        mine, theirs = parent.column(name), table[name]
        if pa.types.is_nested(mine.type) or pa.types.is_nested(theirs.type):
            continue
        if mine.type != theirs.type:
            try:
                theirs = theirs.cast(mine.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
        yield mine, theirs


def _candidates(
    parent: RowsLike, child: RowsLike, columns: list[tuple[pa.ChunkedArray, pa.ChunkedArray]]
) -> Iterator[Alignment]:
    import numpy as np

    labels = _labels(child, parent.num_items)
    if labels is not None:
        yield Alignment(labels)
    if child.num_items == parent.num_items:
        yield Alignment(np.arange(parent.num_items, dtype=np.int64))
    for mine, theirs in columns:
        found = _by_value(mine, theirs)
        if found is not None:
            yield Alignment(found)
    if child.num_items < parent.num_items:
        found_in_order = _as_subsequence(columns)
        if found_in_order is not None:
            yield found_in_order


def _labels(child: RowsLike, count: int) -> Rows | None:
    """Return the labels of a pandas index, if they can be positions in the stage's input frame."""
    import numpy as np

    index = getattr(getattr(child, "data", None), "index", None)
    if index is None or getattr(index, "dtype", None) != np.int64 or not index.is_unique:
        return None
    labels: Rows = index.to_numpy().astype(np.int64)
    return labels if labels.min() >= 0 and labels.max() < count else None


def _by_value(mine: pa.ChunkedArray, theirs: pa.ChunkedArray) -> Rows | None:
    """Return the position of each value in the parent's column, if its values are unique."""
    import numpy as np
    import pyarrow.compute as pc

    if mine.null_count or pc.count_distinct(mine).as_py() < len(mine):
        return None
    found = pc.index_in(theirs, value_set=mine)
    return None if found.null_count else found.to_numpy().astype(np.int64)


def _as_subsequence(columns: list[tuple[pa.ChunkedArray, pa.ChunkedArray]]) -> Alignment | None:
    """Return the former positions of the remaining rows, by all columns that may be unchanged."""
    import numpy as np

    unchanged = [pair for pair in columns if _walk(*(_codes([pair]))) is not None]
    if not unchanged:
        return None
    mine, theirs = _codes(unchanged)
    first = _walk(mine, theirs)
    if first is None:
        return None
    last = _walk(mine[::-1], theirs[::-1])
    assert last is not None
    return Alignment(first, is_certain=bool(np.array_equal(first, (len(mine) - 1 - last)[::-1])))


def _codes(columns: list[tuple[pa.ChunkedArray, pa.ChunkedArray]]) -> tuple[Rows, Rows]:
    """Return a code for each row of both sides; rows with equal values in all these columns have equal codes."""
    import numpy as np
    import pyarrow as pa

    count = len(columns[0][0])
    codes = np.zeros(count + len(columns[0][1]), dtype=np.int64)
    for mine, theirs in columns:
        both = pa.chunked_array([*mine.chunks, *theirs.chunks], mine.type).combine_chunks()
        values = both.dictionary_encode(null_encoding="encode").indices
        _, codes = np.unique(codes * (len(codes) + 1) + values.to_numpy(zero_copy_only=False), return_inverse=True)
    return codes[:count], codes[count:]


def _walk(mine: Rows, theirs: Rows) -> Rows | None:
    """Match each child row with the first parent row after the last match."""
    import numpy as np

    found = np.empty(len(theirs), dtype=np.int64)
    position, parent = 0, mine.tolist()
    for row, code in enumerate(theirs.tolist()):
        try:
            position = parent.index(code, position)
        except ValueError:
            return None
        found[row] = position
        position += 1
    return found


def _agrees(mine: pa.ChunkedArray, theirs: pa.ChunkedArray, rows: Rows) -> bool:
    import numpy as np

    if len(rows) == len(mine) and np.array_equal(rows, np.arange(len(mine))):
        return bool(theirs.equals(mine))
    # In slices: no copy of the whole column, and little work where the first rows already differ.
    return all(
        theirs.slice(first, _ROWS_PER_COMPARISON).equals(mine.take(rows[first : first + _ROWS_PER_COMPARISON]))
        for first in range(0, len(rows), _ROWS_PER_COMPARISON)
    )


def _is_constant(column: pa.ChunkedArray) -> bool:
    return bool(column.slice(1).equals(column.slice(0, len(column) - 1)))
