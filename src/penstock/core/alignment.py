"""Which rows of a parent the rows of its child are, where the stage in between did not say.

A stage that turns a batch into a table and the table into a new batch has forgotten which document is which. Candidates
for an answer: the labels of a pandas index, the same position, a column whose values are all different, the order of
the rows that are left. The one that most of the data bears out is taken. Where nothing does, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Rows = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 1000


class Alignment(NamedTuple):
    """For every row of the child, the row of the parent it was made from."""

    rows: Rows
    # False where twins among the parent's rows leave it open which of them was meant.
    is_certain: bool = True


class RowsLike(Protocol):
    """What has to be known of a batch to compare its rows with another's."""

    @property
    def num_items(self) -> int:
        """How many rows."""

    def get_columns(self) -> list[str]:
        """Return the names of the columns."""

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column."""

    def to_pyarrow(self) -> pa.Table:
        """Return all columns."""


def align(parent: RowsLike, child: RowsLike) -> Alignment | None:
    """Return which rows of the parent the child's are, or None if that cannot be told."""
    import numpy as np

    if child.num_items == 0:
        return Alignment(np.empty(0, dtype=np.int64))
    # Small ones first: they are as good a key as a text, and cheaper.
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
    """Return the labels of a pandas index, if they can be positions in the frame the stage was given."""
    import numpy as np

    index = getattr(getattr(child, "data", None), "index", None)
    if index is None or getattr(index, "dtype", None) != np.int64 or not index.is_unique:
        return None
    labels: Rows = index.to_numpy().astype(np.int64)
    return labels if labels.min() >= 0 and labels.max() < count else None


def _by_value(mine: pa.ChunkedArray, theirs: pa.ChunkedArray) -> Rows | None:
    """Return where each value is found, if the parent has each only once."""
    import numpy as np
    import pyarrow.compute as pc

    if mine.null_count or pc.count_distinct(mine).as_py() < len(mine):
        return None
    found = pc.index_in(theirs, value_set=mine)
    return None if found.null_count else found.to_numpy().astype(np.int64)


def _as_subsequence(columns: list[tuple[pa.ChunkedArray, pa.ChunkedArray]]) -> Alignment | None:
    """Return where the rows that are left stood, looking at all columns that could be unchanged together."""
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
    """Return a number for each row of both sides, the same where all these columns are the same."""
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
    # Some at a time: neither a copy of the whole column, nor much work where the first rows tell.
    return all(
        theirs.slice(first, _ROWS_AT_ONCE).equals(mine.take(rows[first : first + _ROWS_AT_ONCE]))
        for first in range(0, len(rows), _ROWS_AT_ONCE)
    )


def _is_constant(column: pa.ChunkedArray) -> bool:
    return bool(column.slice(1).equals(column.slice(0, len(column) - 1)))
