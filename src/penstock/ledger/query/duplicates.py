"""Who a duplicate went for: looked up in the table of removed documents that the deduplication has written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.files import PLACE_BITS
from penstock.core.paths import shown
from penstock.ledger.query.decisions import LedgerPosition
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.store.fragment import BLOCK, ID, ROW
from penstock.storage.filesystem import filesystem_of

# The parameter of a stage that names the table.
TABLE = "duplicates"
_COLUMNS = ["_curator_dedup_id", "kept_id", "similarity", "estimated", "file", "kept_file"]
_IN_FILE = (1 << PLACE_BITS) - 1


@dataclass(frozen=True)
class Twin:
    """The document that stays for one that goes."""

    # As its id column says; None where it has none, or belongs to an earlier run.
    id: str | None
    file: str
    # The byte of its line, or the number of its row.
    place: int
    similarity: float
    estimated: bool

    def __str__(self) -> str:
        """Say which it is, and how similar."""
        name = f"'{self.id}' in {self.file}" if self.id is not None else f"the document at {self.place} of {self.file}"
        return f"{name}, similarity {'about ' * self.estimated}{self.similarity:.4g}"


def find_twin(ledger: Ledger, stage: str, about: dict[str, Any], place: LedgerPosition) -> Twin | None:
    """Return for whom a stage dropped a document; None if it was for another reason, or the table is gone."""
    table = ledger.rules[stage].parameters.get(TABLE) if stage in ledger.rules else None
    names = about.get("read", {}).get("metadata", {}).get("source_names")
    if table is None or names is None:
        return None
    file = _whole(names[place.row >> PLACE_BITS])
    for rows in _tables(ledger, table):
        here = pc.equal(pc.bit_wise_and(rows["_curator_dedup_id"], _IN_FILE), place.row & _IN_FILE)
        found = rows.filter(pc.and_(here, pc.equal(rows["file"].cast(pa.string()), file))).to_pylist()
        if found:
            kept = found[0]["kept_id"] & _IN_FILE
            is_known = found[0]["kept_id"] >= 0
            twin = _id_of(ledger, found[0]["kept_file"], kept) if is_known else None
            return Twin(twin, found[0]["kept_file"], kept, found[0]["similarity"], found[0]["estimated"])
    return None


def _tables(ledger: Ledger, folder: str) -> Iterator[pa.Table]:
    """Read the parts of the table, where it was or, if all of the output was moved, beside the output."""
    output = ledger.run_folder.rpartition("/")[0].rpartition("/")[0]
    for candidate in (folder, f"{output}/{folder.rpartition('/')[2]}"):
        filesystem, name = filesystem_of(candidate)
        if filesystem.exists(name):
            for path in sorted(filesystem.glob(f"{name}/*.parquet")):
                with filesystem.open(path, "rb") as stream:
                    yield pq.ParquetFile(stream).read(columns=_COLUMNS)
            return


def _id_of(ledger: Ledger, file: str, place: int) -> str | None:
    """Return the id of the document at a place, as far as the ledger knows it."""
    for piece in ledger.pieces:
        for block, about in piece.blocks.items():
            names = about.get("read", {}).get("metadata", {}).get("source_names", [])
            number = next((n for n, name in enumerate(names) if _whole(name) == file), None)
            if number is None or ID not in piece.names:
                continue
            rows = piece.read([BLOCK, ROW, ID])
            here = pc.and_(pc.equal(rows[BLOCK], block), pc.equal(rows[ROW], (number << PLACE_BITS) | place))
            for found in rows.filter(here)[ID].to_pylist():
                if found is not None:
                    return str(found)
    return None


def _whole(name: str) -> str:
    """Return the name of a file as the table has it, given that of a part of it, which has its borders behind.

    >>> _whole("crawl/a[1].jsonl[0:4096]"), _whole("crawl/a[1].jsonl")
    ('crawl/a[1].jsonl', 'crawl/a[1].jsonl')
    """
    return shown(re.sub(r"\[\d+:\d+\]$", "", name))
