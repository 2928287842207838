"""Export all receipts as Parquet, for questions that no command answers."""

from __future__ import annotations

from penstock.errors import OutputError
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.store.fragment import PARQUET, write_table
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of


def export_parquet(ledger: Ledger, folder: str) -> tuple[int, int]:
    """Write a Parquet file for each part of a ledger; return the number of documents and of files.

    A document that several pools of workers decided about has one row for each pool. The folder must be new or empty,
    because a reader of the folder reads every file in it.
    """
    filesystem, name = filesystem_of(folder)
    if filesystem.exists(name) and filesystem.ls(name, detail=False):
        raise OutputError(f"{folder}: the folder is not empty. Choose a new folder, or empty this one.")
    documents: set[str] = set()
    count = 0
    for number, part in enumerate(ledger.parts):
        with atomic_write(f"{folder.rstrip('/')}/{number:05}-pool-{part.pool}{PARQUET}") as stream:
            write_table(part.table(), stream)
        new = part.blocks.keys() - documents
        documents |= new
        count += sum(int(about.get("count", 0)) for block, about in part.blocks.items() if block in new)
    return count, len(ledger.parts)
