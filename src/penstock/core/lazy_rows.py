"""The interface of documents that were read but not parsed yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Rows = Sequence[int] | npt.NDArray[np.int64]


class LazyRows(ABC):
    """The rows of a table whose columns are parsed on demand."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """The size of the rows in bytes, unparsed."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns, in order."""

    @abstractmethod
    def field(self, name: str) -> pa.Field:
        """Return the Arrow field of one column: its type and metadata."""

    @abstractmethod
    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column, without parsing the others."""

    @abstractmethod
    def prepare(self, names: Sequence[str]) -> None:
        """Parse some columns in one pass."""

    @abstractmethod
    def to_table(self) -> pa.Table:
        """Return all columns."""

    @abstractmethod
    def select(self, rows: Rows) -> LazyRows:
        """Return only these rows."""

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Any]) -> LazyRows:
        """Return the same rows with some columns added or replaced."""

    @abstractmethod
    def revised(self, table: pa.Table) -> LazyRows:
        """Return rows with the values of this table, keeping the original bytes of every value that did not change."""

    @abstractmethod
    def compacted(self) -> LazyRows:
        """Return the rows without the memory of the larger file or table that they are a part of."""
