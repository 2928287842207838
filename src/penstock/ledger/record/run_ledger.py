"""The ledger of a run as its driver sees it: opened before the first worker starts, tidied up after the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.ledger.record.collector import LedgerOrders
from penstock.ledger.store.block_reader import Note, alike, find_notes, grouped, read_note, write_notes
from penstock.ledger.store.block_writer import NOTES
from penstock.ledger.store.fragment import PARQUET, to_table, write_table
from penstock.ledger.store.rules import Rules, rules_of, write_rules
from penstock.plan.plan import Plan
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of

FOLDER_NAME = "ledger"
ID_FIELDS = ("id", "url", "_curator_dedup_id", "doc_id", "document_id", "uuid")
_DEFAULT_TEXT_FIELD = "text"

# Notes of that many bytes on average, a few hundred documents, are read as fast as a table.
_LARGE_NOTE = 1 << 14
_MERGED_BYTES = 1 << 28
# Small notes are put together until there is that much: a million small tasks leave no million files.
_CONVERTED_BYTES = 1 << 22

_Parameters = Mapping[str, Mapping[str, Any]]


class KeptLedger:
    """Where the workers of a run keep their ledger."""

    def __init__(
        self, folder: str, rules: Rules, output: str = "", storage_options: dict[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self._options = storage_options
        self._output = output
        self._rules = rules

    def orders(self, pool: int) -> LedgerOrders:
        """Return what the workers of a pool have to know."""
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
        """Put together what workers wrote, in the order of names; a crash on the way leaves every document there."""
        filesystem, folder = filesystem_of(self.folder, self._options)
        notes, parameters, files = find_notes(self.folder, self._options)
        if not notes:
            written = set()
        elif sum(note.size for note in notes) >= _LARGE_NOTE * len(notes):
            written = {self._merge(group, parameters) for group in grouped(notes, _MERGED_BYTES)}
        else:
            written = set(self._convert(grouped(notes, _CONVERTED_BYTES), parameters))
        for name in set(files) - written:
            filesystem.rm(f"{folder}/{name}")

    def _merge(self, group: list[Note], parameters: _Parameters) -> str:
        """Put large notes into one file as they are: to write them in another way takes as long as to write them."""
        name = f"{group[0].name}{NOTES}"
        with atomic_write(f"{self.folder}/{name}", self._options, durable=False) as stream:
            write_notes(group, parameters, stream)
        return name

    def _convert(self, groups: Iterable[list[Note]], parameters: _Parameters) -> Iterator[str]:
        """Make tables of small notes, which are slow to read one by one."""
        for group in groups:
            for number, fragments in enumerate(alike(map(read_note, group))):
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
    """Begin a ledger: what an earlier run left is removed, unless this one goes on where that one stopped."""
    folder = f"{run_folder}/{FOLDER_NAME}"
    if not resuming:
        clear_ledger(run_folder, storage_options)
    rules = rules_of(plan, id_fields)
    write_rules(folder, rules, storage_options)
    beside = f"{output.rstrip('/')}/" if output is not None and run_folder.startswith(output.rstrip("/")) else ""
    return KeptLedger(folder, rules, beside, storage_options)


def clear_ledger(run_folder: str, storage_options: dict[str, Any] | None = None) -> None:
    """Remove the ledger of an earlier run, so that nothing old is taken for new."""
    filesystem, name = filesystem_of(f"{run_folder}/{FOLDER_NAME}", storage_options)
    if filesystem.exists(name):
        filesystem.rm(name, recursive=True)
