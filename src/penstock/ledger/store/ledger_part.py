"""Read one part of a ledger: a Parquet file, or a group of blocks from the files that workers wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.ledger.store.block_reader import BlockSummary, read_block
from penstock.ledger.store.fragment import ID, SCORE, Fragment, column_names, columns_of, describe, to_table
from penstock.storage.filesystem import filesystem_of


class LedgerPart(ABC):
    """A part of a ledger: some blocks, written by one pool, judged by the same rules."""

    # The columns of the part.
    names: list[str]
    # Rule label to parameters, in the order of the rules' bits; block name to origin and destination.
    rules: dict[str, dict[str, Any]]
    blocks: dict[str, dict[str, Any]]
    num_rows: int

    @property
    def pool(self) -> int:
        """Return the number of the pool whose workers wrote this part."""
        return min((int(about["pool"]) for about in self.blocks.values()), default=0)

    @abstractmethod
    def read(self, columns: list[str]) -> pa.Table:
        """Read these columns; skip those that the part does not have."""

    @abstractmethod
    def table(self) -> pa.Table:
        """Return the whole part as a table whose metadata holds its rules and blocks."""

    def read_facts(self) -> pa.Table:
        """Read all columns except ids and scores, which are read on demand."""
        return self.read([name for name in self.names if not name.startswith(SCORE) and name != ID])


class StoredLedgerPart(LedgerPart):
    """A part of a ledger in a Parquet file."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        filesystem, name = filesystem_of(path)
        self._file = pq.ParquetFile(name, filesystem=filesystem)
        schema = self._file.schema_arrow
        self.names = schema.names
        self.num_rows = int(self._file.metadata.num_rows)
        described = describe(schema)
        self.rules, self.blocks = described["rules"], described["blocks"]

    def read(self, columns: list[str]) -> pa.Table:
        """Read these columns; skip those that the part does not have."""
        return self._file.read(columns=[name for name in columns if name in self.names])

    def table(self) -> pa.Table:
        """Return the whole part as a table whose metadata holds its rules and blocks."""
        return self._file.read()


class RecordLedgerPart(LedgerPart):
    """A part of a ledger in block files: blocks of one pool with the same rules."""

    def __init__(
        self, summaries: Sequence[BlockSummary], labels: Sequence[str], parameters: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._records = [summary.record for summary in summaries]
        self._labels = labels
        self._parameters = parameters
        scored = {label for summary in summaries for label in summary.scored}
        rules, words = summaries[0].rules, summaries[0].words
        self.names = column_names(rules, words, scored)
        self.num_rows = sum(summary.documents for summary in summaries)
        self.rules = {label: dict(parameters.get(label, {})) for label in rules}
        self.blocks = {summary.block: summary.about for summary in summaries}

    def read(self, columns: list[str]) -> pa.Table:
        """Read these columns; skip those that the part does not have."""
        present = [name for name in columns if name in self.names]
        return pa.table(columns_of(_fragments_of(self), self._labels, present))

    def table(self) -> pa.Table:
        """Return the whole part as a table whose metadata holds its rules and blocks."""
        return to_table(_fragments_of(self), self._labels, self._parameters)

    def fragments(self) -> list[Fragment]:
        """Read the blocks of this part."""
        return [read_block(record) for record in self._records]


@lru_cache(maxsize=2)
def _fragments_of(part: RecordLedgerPart) -> list[Fragment]:
    """Read a part and cache it: callers read several columns of one part in a row."""
    return part.fragments()
