"""The ledger of a run as its driver sees it: opened before the first worker starts, tidied up after the last."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.ledger.collector import LedgerOrders
from penstock.ledger.fragment import PARQUET, to_table, write_table
from penstock.ledger.notes import Note, alike, find_notes, read_note
from penstock.ledger.rules import Rules, rules_of, write_rules
from penstock.plan.plan import Plan
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of

FOLDER_NAME = "ledger"
ID_FIELDS = ("id", "url", "_curator_dedup_id", "doc_id", "document_id", "uuid")
_DEFAULT_TEXT_FIELD = "text"

# Small blocks are put together until there is that much: a million small tasks leave no million files.
_ENOUGH_BYTES = 1 << 24
_MOST_BLOCKS = 4000
_MOST_THREADS = 8
_GROUPS_PER_THREAD = 4


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
        """Put small blocks together, in the order of their names; a crash on the way leaves every document there."""
        filesystem, folder = filesystem_of(self.folder, self._options)
        notes, parameters, files = find_notes(self.folder, self._options)

        def write(group: list[Note]) -> None:
            for number, fragments in enumerate(alike(map(read_note, group))):
                labels = self._rules.labels_of(fragments[0].about["pool"])
                target = f"{self.folder}/{group[0].name}-{number}{PARQUET}"
                with atomic_write(target, self._options, durable=False) as stream:
                    write_table(to_table(fragments, labels, parameters), stream)

        groups = list(_groups(notes))
        # A thread has to touch memory of its own first: for less than that, one is done sooner than two.
        threads = min(_MOST_THREADS, os.cpu_count() or 1, len(groups) // _GROUPS_PER_THREAD)
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(write, groups))
        else:
            list(map(write, groups))
        for name in files:
            filesystem.rm(f"{folder}/{name}")


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


def _groups(notes: Sequence[Note]) -> Iterator[list[Note]]:
    """Group notes until there is enough of them."""
    group: list[Note] = []
    total = 0
    for note in notes:
        group.append(note)
        total += note.size
        if total >= _ENOUGH_BYTES or len(group) >= _MOST_BLOCKS:
            yield group
            group, total = [], 0
    if group:
        yield group
