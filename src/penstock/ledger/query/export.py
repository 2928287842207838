"""All receipts as Parquet, for whoever wants to ask something that no command answers."""

from __future__ import annotations

from penstock.errors import OutputError
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.store.fragment import PARQUET, write_table
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of


def export_parquet(ledger: Ledger, folder: str) -> tuple[int, int]:
    """Write a Parquet file for each part of a ledger; return how many documents and files there are.

    A document of which several pools of workers had something to say has a row for each of them. The folder must be
    new or empty: whoever reads it reads all that is there.
    """
    filesystem, name = filesystem_of(folder)
    if filesystem.exists(name) and filesystem.ls(name, detail=False):
        raise OutputError(f"{folder}: there is something in it already. Choose a new folder, or empty this one.")
    documents: set[str] = set()
    count = 0
    for number, part in enumerate(ledger.parts):
        with atomic_write(f"{folder.rstrip('/')}/{number:05}-pool-{part.pool}{PARQUET}") as stream:
            write_table(part.table(), stream)
        new = part.blocks.keys() - documents
        documents |= new
        count += sum(int(about.get("count", 0)) for block, about in part.blocks.items() if block in new)
    return count, len(ledger.parts)
