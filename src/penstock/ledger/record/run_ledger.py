"""The ledger of a run in the driver: open it before the first worker starts, merge its files after the last ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.ledger.record.collector import LedgerOrders
from penstock.ledger.store.block_reader import (
    BlockRecord,
    copy_blocks,
    find_blocks,
    group_by_rules,
    group_by_size,
    read_block,
)
from penstock.ledger.store.block_writer import BLOCK_SUFFIX
from penstock.ledger.store.fragment import PARQUET, to_table, write_table
from penstock.ledger.store.rules import FOLDER_NAME, Rules, rules_of, write_rules
from penstock.plan.plan import Plan
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of

ID_FIELDS = ("id", "url", "_curator_dedup_id", "doc_id", "document_id", "uuid")
_DEFAULT_TEXT_FIELD = "text"

# Blocks of at least this many bytes on average (a few hundred documents) are read as fast as a table.
_MIN_MEAN_BLOCK_BYTES = 1 << 14
# Size of a merged block file.
_MERGED_FILE_BYTES = 1 << 28
# Small blocks are collected up to this size and become one Parquet file, so that many small tasks leave few files.
_CONVERTED_GROUP_BYTES = 1 << 22

_Parameters = Mapping[str, Mapping[str, Any]]


class KeptLedger:
    """The ledger folder of a run, and how its workers write to it."""

    def __init__(
        self, folder: str, rules: Rules, output: str = "", storage_options: dict[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self._options = storage_options
        self._output = output
        self._rules = rules

    def orders(self, pool: int) -> LedgerOrders:
        """Return the settings with which the workers of a pool write the ledger."""
        text_field = next((stage.text_field for stage in self._rules.stages if stage.text_field), _DEFAULT_TEXT_FIELD)
        return LedgerOrders(
            self.folder,
            pool,
            self._output,
            self._rules.steps[pool],
            self._rules.id_fields,
            text_field,
            self._options,
        )

    def tidy(self) -> None:
        """Merge the files that workers wrote, sorted by block name. A crash in between loses no decision."""
        filesystem, folder = filesystem_of(self.folder, self._options)
        records, parameters, files = find_blocks(self.folder, self._options)
        if not records:
            written = set()
        elif sum(record.size for record in records) >= _MIN_MEAN_BLOCK_BYTES * len(records):
            written = {self._merge(group, parameters) for group in group_by_size(records, _MERGED_FILE_BYTES)}
        else:
            written = set(self._convert(group_by_size(records, _CONVERTED_GROUP_BYTES), parameters))
        for name in set(files) - written:
            filesystem.rm(f"{folder}/{name}")

    def _merge(self, group: list[BlockRecord], parameters: _Parameters) -> str:
        """Copy large blocks into one block file. Converting them to Parquet would double the time spent on writing."""
        name = f"{group[0].name}{BLOCK_SUFFIX}"
        with atomic_write(f"{self.folder}/{name}", self._options, durable=False) as stream:
            copy_blocks(group, parameters, stream)
        return name

    def _convert(self, groups: Iterable[list[BlockRecord]], parameters: _Parameters) -> Iterator[str]:
        """Convert small blocks to Parquet files; small blocks are slow to read one by one."""
        for group in groups:
            for number, fragments in enumerate(group_by_rules(map(read_block, group))):
                labels = self._rules.labels_of(fragments[0].about["pool"])
                name = f"{group[0].name}-{number}{PARQUET}"
                with atomic_write(f"{self.folder}/{name}", self._options, durable=False) as stream:
                    write_table(to_table(fragments, labels, parameters), stream)
                yield name


def open_ledger(
    run_folder: str,
    plan: Plan,
    output: str | None,
    *,
    resuming: bool,
    storage_options: dict[str, Any] | None = None,
    id_fields: Sequence[str] = ID_FIELDS,
) -> KeptLedger:
    """Open the ledger of a run. Remove the ledger of an earlier run, unless this run resumes it."""
    folder = f"{run_folder}/{FOLDER_NAME}"
    if not resuming:
        clear_ledger(run_folder, storage_options)
    rules = rules_of(plan, id_fields)
    write_rules(folder, rules, storage_options)
    beside = f"{output.rstrip('/')}/" if output is not None and run_folder.startswith(output.rstrip("/")) else ""
    return KeptLedger(folder, rules, beside, storage_options)


def clear_ledger(run_folder: str, storage_options: dict[str, Any] | None = None) -> None:
    """Remove the ledger of an earlier run, so that its decisions are not mistaken for those of this run."""
    filesystem, name = filesystem_of(f"{run_folder}/{FOLDER_NAME}", storage_options)
    if filesystem.exists(name):
        filesystem.rm(name, recursive=True)
