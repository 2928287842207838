"""A batch of documents: an Arrow table that also speaks pandas."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.core.json_column import decode_json_columns, encode_json_columns, is_json, json_field
from penstock.core.task import Task
from penstock.extras import require

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa

_LONGEST_EXCERPT = 500


@dataclass(repr=False)
class DocumentBatch(Task[Any]):
    """Documents as rows of a table.

    The table may be Arrow or pandas; stages ask for the one they like, and the other is made when asked for.

    >>> import pyarrow as pa
    >>> batch = DocumentBatch("demo", pa.table({"id": [1, 2], "text": ["a", "b"]}))
    >>> batch.num_items, batch.get_columns()
    (2, ['id', 'text'])
    """

    noun: ClassVar[str] = "documents"

    # Which document of the source task each row is, counted as they were read; None where nobody can tell.
    source_rows: npt.NDArray[np.int64] | None = field(init=False, default=None)

    def validate(self) -> bool:
        """Accept an Arrow table or a pandas frame only."""
        if not (_is_arrow(self.data) or _is_pandas(self.data)):
            raise TypeError(
                f"DocumentBatch: data must be a pyarrow.Table or a pandas.DataFrame, got {type(self.data).__name__}."
            )
        return True

    def to_pyarrow(self) -> pa.Table:
        """Return the documents as an Arrow table; a pandas index is not part of the data and is left behind."""
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

    @property
    def num_items(self) -> int:
        """How many documents."""
        return len(self.data)

    @property
    def num_bytes(self) -> int:
        """How many bytes the rows take; of a slice, only its own rows."""
        if _is_arrow(self.data):
            return int(self.data.nbytes)
        return int(self.data.memory_usage(index=False, deep=True).sum())

    def select(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> DocumentBatch:
        """Return a batch of only these documents, under the same name."""
        if _is_arrow(self.data):
            import pyarrow as pa

            data = self.data.take(pa.array(rows, pa.int64()))
        else:
            data = self.data.iloc[list(rows)]
        chosen = copy.copy(self)
        chosen.data = data
        chosen.source_rows = None if self.source_rows is None else self.source_rows[list(rows)]
        return chosen

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column as Arrow, without making any other."""
        return self.to_pyarrow()[name]

    def holds_json(self, name: str) -> bool:
        """Tell whether a column holds the JSON text of values that Arrow has no one type for."""
        return is_json(self.to_pyarrow().schema.field(name))

    def with_columns(self, columns: Mapping[str, pa.Array]) -> DocumentBatch:
        """Return a batch of the same documents with some columns added or replaced."""
        table = self.to_pyarrow()
        for name, column in columns.items():
            position = table.schema.get_field_index(name)
            table = table.append_column(name, column) if position < 0 else table.set_column(position, name, column)
        changed = copy.copy(self)
        changed.data = table
        return changed

    def excerpt(self, row: int) -> str:
        """Return one document as JSON, long values cut."""
        document = self.select([row]).to_pyarrow().to_pylist()[0]
        return json.dumps({key: _shortened(value) for key, value in document.items()}, ensure_ascii=False, default=str)

    def compacted(self) -> DocumentBatch:
        """Return the batch without the rest of a table it is a slice of."""
        if not _is_arrow(self.data) or self.data.get_total_buffer_size() <= 1.5 * self.data.nbytes + 65536:
            return self
        return self.select(range(self.num_items))

    def get_columns(self) -> list[str]:
        """Return the names of the columns, in order."""
        names = self.data.column_names if _is_arrow(self.data) else self.data.columns
        return [str(name) for name in names]


def _shortened(value: Any) -> Any:  # noqa: ANN401 - a cell of a table
    return value[:_LONGEST_EXCERPT] + "…" if isinstance(value, str) and len(value) > _LONGEST_EXCERPT else value


# Both look at the class's home instead of importing it: a batch of Arrow data must not cost an import of pandas.
def _is_arrow(data: Any) -> bool:  # noqa: ANN401 - any object may be asked
    return type(data).__name__ == "Table" and type(data).__module__.startswith("pyarrow")


def _is_pandas(data: Any) -> bool:  # noqa: ANN401
    return any(c.__name__ == "DataFrame" and c.__module__.startswith("pandas") for c in type(data).__mro__)
