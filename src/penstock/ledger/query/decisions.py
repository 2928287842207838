"""Decisions in memory: one row per document, merged from what each pool of workers recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.ledger.store.fragment import (
    ASKED,
    BLOCK,
    BYTES,
    DROPPED_BY,
    FAILED,
    ID,
    ROW,
    RULES_PER_WORD,
    SCORE,
    restored_scores,
)

if TYPE_CHECKING:
    from penstock.ledger.store.ledger_part import LedgerPart

Flags = npt.NDArray[np.bool_]
KEPT = -1


class LedgerPosition(NamedTuple):
    """The position of a document in a ledger."""

    block: str
    row: int


@dataclass
class Decisions:
    """The decisions about some documents, as columns."""

    # Every rule with verdicts; for each document, whether the rule was asked and whether the document fails it.
    rules: list[str]
    asked: dict[str, Flags]
    fails: dict[str, Flags]
    # Every stage in order; for each document the number of the stage that dropped it, or KEPT.
    labels: list[str]
    dropped: npt.NDArray[np.int16]
    # The blocks; for each document the number of its block and its row in the block.
    blocks: list[str]
    about: list[dict[str, Any]]
    block: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    # Size of the text in bytes; 0 if it was not measured.
    sizes: npt.NDArray[np.int64]
    # Each part of the ledger with the positions of its documents here.
    places: list[tuple[LedgerPart, npt.NDArray[np.int64]]]

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.row)

    def scores(self, label: str) -> npt.NDArray[np.float64]:
        """Return the score of each document under a rule; NaN where it has no score."""
        found = np.full(len(self), np.nan)
        for part, places in self.places:
            if SCORE + label in part.names:
                stored = part.read([SCORE + label])[SCORE + label]
                values = restored_scores(stored.to_numpy())
                known = stored.is_valid().to_numpy()
                found[places[known]] = values[known]
        return found

    def ids(self) -> pa.Array:
        """Return the id of each document; null where it has none."""
        found = np.full(len(self), None, object)
        for part, places in self.places:
            ids = part.read([ID])[ID]
            if ids.null_count == 0 and len(self.places) == 1:
                return ids.combine_chunks()
            known = ids.is_valid().to_numpy()
            found[places[known]] = ids.filter(ids.is_valid()).to_pylist()
        return pa.array(found, pa.string())

    def locate(self, document: int) -> tuple[LedgerPart, int]:
        """Return the first part that holds a document, and its position in that part."""
        for part, places in self.places:
            [found] = np.nonzero(places == document)
            if len(found):
                return part, int(found[0])
        raise IndexError(f"document {document} of {len(self)}")

    def remade(self) -> Flags:
        """Return which documents a stage turned into new ones, which continue in other blocks."""
        by_block = np.array(["remade_by" in about for about in self.about], bool)
        return by_block[self.block] & (self.dropped == KEPT) if len(self) else np.zeros(0, bool)


def assemble(parts: Sequence[LedgerPart], labels: Sequence[str]) -> Decisions:
    """Merge parts of a ledger, so that each document has the decisions of all pools."""
    tables = [part.read_facts() for part in parts]
    blocks: dict[str, int] = {}
    about: list[dict[str, Any]] = []
    starts: list[int] = []
    rows: list[npt.NDArray[np.int64]] = []
    places: list[npt.NDArray[np.int64]] = []
    total = 0
    for part, table in zip(parts, tables, strict=True):
        here = []
        of_table = table[ROW].to_numpy()
        for name, start, stop in _runs(table[BLOCK]):
            if name not in blocks:
                blocks[name] = len(blocks)
                about.append(dict(part.blocks[name]))
                starts.append(total)
                rows.append(of_table[start:stop])
                total += stop - start
            else:
                about[blocks[name]].update(part.blocks[name])
            number = blocks[name]
            here.append(starts[number] + _find(rows[number], of_table[start:stop]))
        places.append(np.concatenate(here) if here else np.empty(0, np.int64))
    lengths = np.array([len(part) for part in rows], np.int64)
    rules = list(dict.fromkeys(label for part in parts for label in part.rules))
    made = Decisions(
        rules=rules,
        asked={label: np.zeros(total, bool) for label in rules},
        fails={label: np.zeros(total, bool) for label in rules},
        labels=list(labels),
        dropped=np.full(total, KEPT, np.int16),
        blocks=list(blocks),
        about=about,
        block=np.repeat(np.arange(len(rows), dtype=np.int32), lengths),
        row=np.concatenate(rows) if rows else np.empty(0, np.int64),
        sizes=np.zeros(total, np.int64),
        places=list(zip(parts, places, strict=True)),
    )
    for part, table, where in zip(parts, tables, places, strict=True):
        _fill(made, part, table, where)
    return made


def _fill(made: Decisions, part: LedgerPart, table: pa.Table, where: npt.NDArray[np.int64]) -> None:
    for number, label in enumerate(part.rules):
        word, bit = divmod(number, RULES_PER_WORD)
        for name, flags in ((ASKED, made.asked[label]), (FAILED, made.fails[label])):
            flags[where] |= (table[f"{name}{word}"].to_numpy() >> bit) & 1 == 1
    sizes = pc.fill_null(table[BYTES], 0).to_numpy()
    made.sizes[where] = np.maximum(made.sizes[where], sizes)
    codes = pc.fill_null(pc.index_in(table[DROPPED_BY], value_set=pa.array(made.labels)), KEPT).to_numpy()
    made.dropped[where] = np.maximum(made.dropped[where], codes)


def _runs(names: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """Yield each block of a table with its first row and the one after its last."""
    if not len(names):
        return
    runs = pc.run_end_encode(names.combine_chunks())
    start = 0
    for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield name, start, end
        start = end


def _find(rows: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if rows is wanted or np.array_equal(rows, wanted):
        return np.arange(len(rows))
    order = np.argsort(rows, kind="stable")
    found: npt.NDArray[np.int64] = order[np.searchsorted(rows, wanted, sorter=order)]
    return found
