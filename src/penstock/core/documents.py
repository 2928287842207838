"""A batch of documents: an Arrow table or pandas frame, converted and parsed only when needed."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from penstock.core.alignment import align
from penstock.core.json_column import decode_json_columns, encode_json_columns, is_json, json_field
from penstock.core.lazy_rows import LazyRows
from penstock.core.small_tables import Packed, packed, unpacked
from penstock.core.task import Task
from penstock.extras import require

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa

    from penstock.core.lazy_rows import Rows

_MAX_EXCERPT_CHARACTERS = 500
# A slice may keep at most this many unused bytes of the table it was cut from.
_MAX_UNUSED_BYTES = 65536


@dataclass(repr=False)
class DocumentBatch(Task[Any]):
    """Documents as rows of a table.

    The table may be Arrow or pandas; ``to_pyarrow`` and ``to_pandas`` convert it where needed. A batch that comes from
    a reader may hold the documents unparsed, as they were read: ``column``, ``select`` and ``with_columns`` keep that
    form, and a writer of the same format copies unchanged values.

    >>> import pyarrow as pa
    >>> batch = DocumentBatch("demo", pa.table({"id": [1, 2], "text": ["a", "b"]}))
    >>> batch.num_items, batch.get_columns()
    (2, ['id', 'text'])
    """

    noun: ClassVar[str] = "documents"

    # The documents as they were read, row by row. If the batch has no `data` of its own, these are its documents;
    # otherwise `data` was made from them.
    _lazy: ClassVar[LazyRows | None] = None
    _source_rows: ClassVar[npt.NDArray[np.int64] | None] = None
    # The index of a frame when its rows were last known. pandas replaces the index object when it reorders rows.
    _index: ClassVar[Any] = None

    def __setattr__(self, name: str, value: object) -> None:
        """Keep the origin of each row when the table is replaced."""
        if name != "data":
            super().__setattr__(name, value)
        elif isinstance(value, LazyRows):
            self.__dict__.pop("data", None)
            self.__dict__["_lazy"] = value
        elif self._lazy is None and self.source_rows is None:
            self.__dict__["data"] = value
        else:
            before = copy.copy(self)
            self.__dict__.update(data=value, _lazy=None, _source_rows=None)
            self.descend_from(before)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the table, in whatever form it is
        """Make the table at the first access."""
        lazy = self.__dict__.get("_lazy")
        if name == "data" and lazy is not None:
            return lazy.to_table()
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def __copy__(self) -> Self:
        """Copy the batch; if the origin of its rows is unknown, it is unknown in the copy too."""
        twin = super().__copy__()
        if self._index is not None:
            twin.__setstate__(self.__getstate__())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the index object, which is compared by identity and valid in this process only."""
        state = {key: value for key, value in self.__dict__.items() if key != "_index"}
        if self._rows_were_moved:
            return {**state, "_lazy": None, "_source_rows": None}
        if self._source_rows is not None:
            state["_source_rows"] = _shortened_rows(self._source_rows)
        if _is_arrow(state.get("data")) and (small := packed(state["data"])) is not None:
            state["data"] = small
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the batch and the origin of its rows."""
        self.__dict__.update(state)
        if isinstance(small := state.get("data"), Packed):
            self.__dict__["data"] = unpacked(small)
        if isinstance(self._source_rows, range):
            import numpy as np

            self.__dict__["_source_rows"] = np.arange(self._source_rows.start, self._source_rows.stop, dtype=np.int64)
        self._remember_rows()

    @property
    def source_rows(self) -> npt.NDArray[np.int64] | None:
        """For each row, the number of its document in the source task, as the reader counts them; None if unknown."""
        return None if self._rows_were_moved else self._source_rows

    @source_rows.setter
    def source_rows(self, rows: npt.NDArray[np.int64] | None) -> None:
        self.__dict__["_source_rows"] = rows
        self._remember_rows()

    def validate(self) -> bool:
        """Accept an Arrow table or a pandas frame only."""
        if not (self._is_lazy or _is_arrow(self.data) or _is_pandas(self.data)):
            raise TypeError(
                f"DocumentBatch: data must be a pyarrow.Table or a pandas.DataFrame, got {type(self.data).__name__}."
            )
        return True

    def to_pyarrow(self) -> pa.Table:
        """Return the documents as an Arrow table. A pandas index is not part of the data and is dropped."""
        if _is_arrow(self.data):
            table: pa.Table = self.data
            return table
        import pyarrow as pa

        frame, json_columns = encode_json_columns(self.data)
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            for name in json_columns:
                position = table.schema.get_field_index(name)
                table = table.set_column(position, json_field(name), table[name].cast(pa.large_string()))
            return table.replace_schema_metadata(None)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TypeError(
                f"task '{self.task_id}': the pandas frame does not fit into Arrow: {error}. "
                "A column must hold one type; convert the one named here, or drop it."
            ) from error

    def to_pandas(self) -> pd.DataFrame:
        """Return the documents as a pandas frame."""
        if _is_pandas(self.data):
            frame: pd.DataFrame = self.data
            return frame
        require("pandas", "pandas", "DocumentBatch.to_pandas()")
        return decode_json_columns(self.data, self.data.to_pandas(integer_object_nulls=True))

    def to_lazy(self) -> LazyRows | None:
        """Return the documents in the format they were read in, with the changes of the stages; None if unknown."""
        if self._lazy is None or self._is_lazy:
            return self._lazy
        if self._rows_were_moved:
            return None
        return self._lazy.revised(self.to_pyarrow())

    @property
    def num_items(self) -> int:
        """The number of documents."""
        return len(self._lazy) if self._is_lazy and self._lazy is not None else len(self.data)

    @property
    def num_bytes(self) -> int:
        """The size of the rows in bytes; of a slice, only its own rows."""
        origin = self._lazy.num_bytes if self._lazy is not None else 0
        if self._is_lazy:
            return origin
        if _is_arrow(self.data):
            return origin + int(self.data.nbytes)
        return origin + int(self.data.memory_usage(index=False, deep=True).sum())

    def select(self, rows: Rows) -> DocumentBatch:
        """Return a batch of only these documents, with the same task id."""
        import numpy as np

        wanted = np.asarray(rows, dtype=np.int64)
        chosen = copy.copy(self)
        if not self._is_lazy:
            chosen.__dict__["data"] = _chosen(self.data, wanted) if _is_arrow(self.data) else self.data.iloc[wanted]
        # From the copy: it has no `_lazy` if the origin of the rows is unknown.
        chosen.__dict__["_lazy"] = None if chosen._lazy is None else chosen._lazy.select(wanted)
        chosen.source_rows = None if self.source_rows is None else self.source_rows[wanted]
        return chosen

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column as Arrow, without parsing the others."""
        if self._is_lazy and self._lazy is not None:
            return self._lazy.column(name)
        return self.to_pyarrow()[name]

    def prepare(self, names: Sequence[str]) -> None:
        """Parse several columns in one pass, which is cheaper than one after the other."""
        if self._is_lazy and self._lazy is not None:
            self._lazy.prepare(names)

    def holds_json(self, name: str) -> bool:
        """Tell whether a column holds JSON text, because its values have no common Arrow type."""
        if self._is_lazy and self._lazy is not None:
            return is_json(self._lazy.field(name))
        return is_json(self.to_pyarrow().schema.field(name))

    def with_columns(self, columns: Mapping[str, pa.Array]) -> DocumentBatch:
        """Return a batch of the same documents with some columns added or replaced."""
        changed = copy.copy(self)
        if self._is_lazy and self._lazy is not None:
            changed.__dict__["_lazy"] = self._lazy.with_columns(columns)
            return changed
        table = self.to_pyarrow()
        for name, column in columns.items():
            position = table.schema.get_field_index(name)
            table = table.append_column(name, column) if position < 0 else table.set_column(position, name, column)
        changed.__dict__["data"] = table
        return changed

    def descend_from(self, parent: Task[Any]) -> None:
        """Match the rows to those of the parent, if the stage that made this batch did not say which they are."""
        if not isinstance(parent, DocumentBatch) or self._source_rows is not None or self._lazy is not None:
            return
        if parent._lazy is None and parent.source_rows is None:
            return
        found = align(parent, self)
        if found is None:
            return
        if parent._lazy is not None:
            self.__dict__["_lazy"] = parent._lazy.select(found.rows)
        if parent.source_rows is not None and found.is_certain:
            self.source_rows = parent.source_rows[found.rows]
        self._remember_rows()

    def excerpt(self, row: int) -> str:
        """Return one document as JSON, with long values cut."""
        document = self.select([row]).to_pyarrow().to_pylist()[0]
        return json.dumps({key: _shortened(value) for key, value in document.items()}, ensure_ascii=False, default=str)

    def compacted(self) -> DocumentBatch:
        """Return the batch without the memory of the larger table or file that it is a part of."""
        if self._lazy is not None:
            compact = copy.copy(self)
            compact.__dict__["_lazy"] = self._lazy.compacted()
            return compact
        whole = self.data.get_total_buffer_size() if _is_arrow(self.data) else 0
        if whole <= _MAX_UNUSED_BYTES or whole <= 1.5 * self.data.nbytes + _MAX_UNUSED_BYTES:
            return self
        compact = copy.copy(self)
        compact.__dict__["data"] = self.data.take(list(range(len(self.data))))
        return compact

    def get_columns(self) -> list[str]:
        """Return the names of the columns, in order."""
        if self._is_lazy and self._lazy is not None:
            return self._lazy.names
        names = self.data.column_names if _is_arrow(self.data) else self.data.columns
        return [str(name) for name in names]

    @property
    def _is_lazy(self) -> bool:
        return "data" not in self.__dict__

    @property
    def _rows_were_moved(self) -> bool:
        """Whether a stage sorted or cut the frame in place, so that the origin of its rows is unknown."""
        return self._index is not None and _is_pandas(self.data) and self.data.index is not self._index

    def _remember_rows(self) -> None:
        self.__dict__["_index"] = self.data.index if not self._is_lazy and _is_pandas(self.data) else None


def _chosen(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return some rows of a table; rows in ascending order by a filter, which copies each value once."""
    if not len(rows) or rows[0] < 0 or not bool((rows[1:] > rows[:-1]).all()):
        return table.take(rows)
    import numpy as np
    import pyarrow as pa

    mask = np.zeros(table.num_rows, np.bool_)
    mask[rows] = True
    return table.filter(pa.array(mask))


def _shortened_rows(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | range:
    """Return consecutive rows as a range, which is smaller and faster to send."""
    first, count = (int(rows[0]), len(rows)) if len(rows) else (0, 0)
    follow = count and int(rows[-1]) - first + 1 == count and (count == 1 or bool((rows[1:] > rows[:-1]).all()))
    return range(first, first + count) if follow or not count else rows


def _shortened(value: Any) -> Any:  # noqa: ANN401 - a cell of a table
    is_long = isinstance(value, str) and len(value) > _MAX_EXCERPT_CHARACTERS
    return value[:_MAX_EXCERPT_CHARACTERS] + "…" if is_long else value


# Both check the module of the class instead of importing it: a batch of Arrow data must not import pandas.
def _is_arrow(data: Any) -> bool:  # noqa: ANN401 - any object may be asked
    return type(data).__name__ == "Table" and type(data).__module__.startswith("pyarrow")


def _is_pandas(data: Any) -> bool:  # noqa: ANN401
    return any(c.__name__ == "DataFrame" and c.__module__.startswith("pandas") for c in type(data).__mro__)
