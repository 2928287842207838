"""Documents that were read but not yet taken apart: what a batch needs to know of them."""

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
    """The rows of a table that is made only as far as somebody asks for it."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many rows."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """How many bytes the rows take as they are."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns, in order."""

    @abstractmethod
    def field(self, name: str) -> pa.Field:
        """Return the type and marks of one column."""

    @abstractmethod
    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column, without making any other."""

    @abstractmethod
    def prepare(self, names: Sequence[str]) -> None:
        """Make some columns in one go."""

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
        """Return rows that say what this table says, row by row, in the old words wherever they still hold."""

    @abstractmethod
    def compacted(self) -> LazyRows:
        """Return the rows without memory they only drag along."""
