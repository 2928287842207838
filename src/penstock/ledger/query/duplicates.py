"""Find the document that was kept instead of a duplicate, in the table that deduplication wrote."""

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

# The stage parameter that holds the folder of the table.
TABLE_PARAMETER = "duplicates"
_COLUMNS = ["_curator_dedup_id", "kept_id", "similarity", "estimated", "file", "kept_file"]
# A row number holds the file number in its high bits and the position in the file in these bits.
_POSITION_MASK = (1 << PLACE_BITS) - 1


@dataclass(frozen=True)
class KeptDuplicate:
    """The document that was kept instead of a duplicate."""

    # The value of its id column; None if it has none, or if the document belongs to an earlier run.
    id: str | None
    file: str
    # The byte offset of its line (JSONL) or its row number (Parquet).
    place: int
    similarity: float
    estimated: bool

    def __str__(self) -> str:
        """Describe the document and its similarity to the duplicate."""
        name = f"'{self.id}' in {self.file}" if self.id is not None else f"the document at {self.place} of {self.file}"
        return f"{name}, similarity {'about ' * self.estimated}{self.similarity:.4g}"


def find_kept_duplicate(
    ledger: Ledger, stage: str, about: dict[str, Any], place: LedgerPosition
) -> KeptDuplicate | None:
    """Return the document that was kept instead of this one.

    Return None if the stage dropped the document for another reason, or if the table of duplicates no longer exists.
    """
    table = ledger.rules[stage].parameters.get(TABLE_PARAMETER) if stage in ledger.rules else None
    names = about.get("read", {}).get("metadata", {}).get("source_names")
    if table is None or names is None:
        return None
    file = _without_range(names[place.row >> PLACE_BITS])
    for rows in _tables(ledger, table):
        here = pc.equal(pc.bit_wise_and(rows["_curator_dedup_id"], _POSITION_MASK), place.row & _POSITION_MASK)
        found = rows.filter(pc.and_(here, pc.equal(rows["file"].cast(pa.string()), file))).to_pylist()
        if found:
            kept = found[0]["kept_id"] & _POSITION_MASK
            is_known = found[0]["kept_id"] >= 0
            kept_id = _id_of(ledger, found[0]["kept_file"], kept) if is_known else None
            return KeptDuplicate(kept_id, found[0]["kept_file"], kept, found[0]["similarity"], found[0]["estimated"])
    return None


def _tables(ledger: Ledger, folder: str) -> Iterator[pa.Table]:
    """Read the files of the table from its folder or, if the output was moved, from the folder next to the output."""
    output = ledger.run_folder.rpartition("/")[0].rpartition("/")[0]
    for candidate in (folder, f"{output}/{folder.rpartition('/')[2]}"):
        filesystem, name = filesystem_of(candidate)
        if filesystem.exists(name):
            for path in sorted(filesystem.glob(f"{name}/*.parquet")):
                with filesystem.open(path, "rb") as stream:
                    yield pq.ParquetFile(stream).read(columns=_COLUMNS)
            return


def _id_of(ledger: Ledger, file: str, place: int) -> str | None:
    """Return the id of the document at a position in a file, or None if the ledger has no id for it."""
    for part in ledger.parts:
        for block, about in part.blocks.items():
            names = about.get("read", {}).get("metadata", {}).get("source_names", [])
            number = next((n for n, name in enumerate(names) if _without_range(name) == file), None)
            if number is None or ID not in part.names:
                continue
            rows = part.read([BLOCK, ROW, ID])
            here = pc.and_(pc.equal(rows[BLOCK], block), pc.equal(rows[ROW], (number << PLACE_BITS) | place))
            for found in rows.filter(here)[ID].to_pylist():
                if found is not None:
                    return str(found)
    return None


def _without_range(name: str) -> str:
    """Remove the byte range from the name of a part of a file.

    >>> _without_range("crawl/a[1].jsonl[0:4096]"), _without_range("crawl/a[1].jsonl")
    ('crawl/a[1].jsonl', 'crawl/a[1].jsonl')
    """
    return shown(re.sub(r"\[\d+:\d+\]$", "", name))
