"""The ledger of a run as its driver sees it: opened before the first worker starts, tidied up after the last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.ledger.collector import LedgerOrders
from penstock.ledger.fragment import ARROW, METADATA, PARQUET, describe, read_arrow, write_table
from penstock.ledger.rules import Rules, rules_of, write_rules
from penstock.plan.plan import Plan
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, open_input

FOLDER_NAME = "ledger"
ID_FIELDS = ("id", "url", "_curator_dedup_id", "doc_id", "document_id", "uuid")
_DEFAULT_TEXT_FIELD = "text"

# Small pieces are put together until there is that much: a million small tasks leave no million files.
_ENOUGH_BYTES = 1 << 24
_MOST_PIECES = 4000


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
        """Put small pieces together, in the order of their names; a crash on the way leaves every document there."""
        filesystem, folder = filesystem_of(self.folder, self._options)
        for group in _groups(_small_pieces(self.folder, self._options)):
            tables = []
            for name in group:
                with open_input(f"{self.folder}/{name}", self._options) as stream:
                    tables.append(read_arrow(stream))
            for number, alike in enumerate(_alike(tables)):
                target = f"{self.folder}/{group[0].removesuffix(ARROW)}-{number}{PARQUET}"
                with atomic_write(target, self._options, durable=False) as stream:
                    write_table(_merged(alike), stream, PARQUET)
            for name in group:
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


def _small_pieces(folder: str, storage_options: dict[str, Any] | None) -> list[tuple[str, int]]:
    """Return names and sizes of what has to be put together, in order."""
    filesystem, name = filesystem_of(folder, storage_options)
    found = [(entry["name"].rpartition("/")[2], int(entry["size"])) for entry in filesystem.ls(name, detail=True)]
    return sorted((piece, size) for piece, size in found if piece.endswith(ARROW))


def _groups(pieces: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Group pieces until there is enough of them."""
    group: list[str] = []
    total = 0
    for piece, size in pieces:
        group.append(piece)
        total += size
        if total >= _ENOUGH_BYTES or len(group) >= _MOST_PIECES:
            yield group
            group, total = [], 0
    if group:
        yield group


def _alike(tables: Sequence[pa.Table]) -> list[list[pa.Table]]:
    """Sort tables by pool and rules: bits mean the same only where those are the same."""
    kinds: dict[tuple[Any, ...], list[pa.Table]] = {}
    for table in tables:
        described = describe(table.schema)
        pool = max(about["pool"] for about in described["blocks"].values())
        kinds.setdefault((pool, *described["rules"]), []).append(table)
    return list(kinds.values())


def _merged(tables: Sequence[pa.Table]) -> pa.Table:
    described = [describe(table.schema) for table in tables]
    blocks = {name: about for one in described for name, about in one["blocks"].items()}
    whole = pa.concat_tables([table.replace_schema_metadata(None) for table in tables], promote_options="permissive")
    body = json.dumps({"rules": described[0]["rules"], "blocks": blocks}, ensure_ascii=False)
    return whole.replace_schema_metadata({METADATA: body})
