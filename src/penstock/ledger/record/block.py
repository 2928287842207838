"""The documents of one batch as it came from its reader, and what has been said of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.verdicts import Verdicts
from penstock.ledger.record.document_rows import Rows, id_column, rows_of
from penstock.ledger.store.fragment import Fragment, RuleColumn, pack
from penstock.ledger.store.rules import plain_parameters

_ALIVE = -1


@dataclass
class Block:
    """Documents that are known by their row; a verdict finds its document by it."""

    id: str
    # Where they come from and where they went, as plain data.
    about: dict[str, Any]
    rows: Rows
    # What the rules were made with: the same for all blocks, so they share it.
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    # For each document the number of the label that dropped it, and whether it has left the chain of this worker.
    dropped: npt.NDArray[np.int16] = field(init=False)
    left: npt.NDArray[np.bool_] = field(init=False)
    rules: dict[str, RuleColumn] = field(default_factory=dict)
    ids: pa.Array | None = None
    sizes: npt.NDArray[np.int64] | None = None
    # Whether sizes, and whether ids, need no more be taken: an earlier pool has them.
    measured: bool = False
    identified: bool = False
    # Whether no earlier pool has written of it.
    is_new: bool = True
    _asked: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        """Begin with every document on its way."""
        self.dropped = np.full(len(self.rows), _ALIVE, np.int16)
        self.left = np.zeros(len(self.rows), bool)

    def extend(self, rows: Rows) -> None:
        """Take in documents of the same block that come in another task."""
        new = np.setdiff1d(rows, self.rows)
        count = len(new)
        if not count:
            return
        self.rows = np.concatenate([self.rows, new])
        self.dropped = np.concatenate([self.dropped, np.full(count, _ALIVE, np.int16)])
        self.left = np.concatenate([self.left, np.zeros(count, bool)])
        for rule in self.rules.values():
            rule.extend(count)
        if self.ids is not None:
            self.ids = pa.concat_arrays([self.ids, pa.nulls(count, self.ids.type)])

    @property
    def is_complete(self) -> bool:
        """Whether no document is on its way any more."""
        return bool((self.left | (self.dropped != _ALIVE)).all())

    @property
    def alive(self) -> int:
        """How many documents nobody has dropped."""
        return int((self.dropped == _ALIVE).sum())

    def positions(self, rows: Rows) -> Rows:
        """Return where in this block some rows are."""
        if len(self.rows) and self.rows[-1] - self.rows[0] + 1 == len(self.rows):
            offset: np.int64 = self.rows[0]
            return rows - offset
        order = np.argsort(self.rows, kind="stable")
        found: Rows = order[np.searchsorted(self.rows, rows, sorter=order)]
        return found

    def note(self, label: str, verdicts: Verdicts) -> None:
        """Note what a rule said."""
        count = len(self.rows)
        column = self.rules.get(label)
        if label not in self.parameters:
            self.parameters[label] = plain_parameters(verdicts.parameters)
        if column is None and (verdicts.rows is self.rows or np.array_equal(verdicts.rows, self.rows)):
            # All of them at once, which is what a scan over a whole batch says.
            self.rules[label] = RuleColumn(self._everyone(), verdicts.kept.copy(), verdicts.scores)
            return
        if column is None:
            column = self.rules[label] = RuleColumn(np.zeros(count, bool), np.ones(count, bool))
        where = self.positions(verdicts.rows)
        column.asked[where] = True
        column.kept[where] = verdicts.kept
        if verdicts.scores is not None:
            if column.scores is None:
                column.scores = np.full(count, np.nan)
            column.scores[where] = verdicts.scores

    def _everyone(self) -> npt.NDArray[np.bool_]:
        """Return that all were asked: one array for all rules of which it is true, for none is ever unasked."""
        if self._asked is None or len(self._asked) < len(self.rows):
            self._asked = np.ones(len(self.rows), bool)
        return self._asked

    def drop(self, rows: Rows, survivors: Sequence[Rows], labels: Sequence[tuple[int, str]]) -> None:
        """Note that all but the survivors are gone: by the first of these rules that failed them, or else the first."""
        gone = np.zeros(len(self.rows), bool)
        gone[self.positions(rows)] = True
        for rest in survivors:
            gone[self.positions(rest)] = False
        gone &= self.dropped == _ALIVE
        for number, label in labels:
            if label in self.rules:
                kept = self.rules[label].kept
                self.dropped[gone > kept] = number
                gone &= kept
        self.dropped[gone] = labels[0][0]  # it gave no reasons

    def leave(self, rows: Rows) -> None:
        """Note that some documents have gone through all that this worker does."""
        self.left[self.positions(rows)] = True

    def measure(self, batch: DocumentBatch, id_fields: Sequence[str], text_field: str) -> None:
        """Take ids and sizes, once."""
        if not self.measured and batch.num_items == len(self.rows):
            self.measured = True
            self.take_ids(batch, id_fields)
            self.sizes = _sizes(batch, text_field)

    def take_ids(self, batch: DocumentBatch, id_fields: Sequence[str]) -> None:
        """Take the ids of documents that had none so far, if this batch has some."""
        name = id_column(batch, id_fields) if self.ids is None and not self.identified else None
        if name is None or not batch.num_items:
            return
        column = batch.column(name)
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        ids = (column if is_text else column.cast(pa.string())).combine_chunks()
        if batch.num_items == len(self.rows) and rows_of(batch) is self.rows:
            self.ids = ids
            return
        where = np.full(len(self.rows), -1, np.int64)
        where[self.positions(rows_of(batch))] = np.arange(batch.num_items)
        self.ids = ids.take(pa.array(where, mask=where < 0))

    @property
    def says_nothing(self) -> bool:
        """Whether all of it is known from an earlier pool."""
        return not (self.is_new or self.rules or self.ids is not None or self.about.keys() - {"task", "pool"}) and bool(
            (self.dropped == _ALIVE).all()
        )

    def to_fragment(self) -> Fragment:
        """Return all of it in the form in which it is written."""
        asked, fails, scores = pack(self.rules, len(self.rows))
        return Fragment(
            self.id, self.about, self.rows, self.dropped, tuple(self.rules), asked, fails, scores, self.ids, self.sizes
        )


def _sizes(batch: DocumentBatch, text_field: str) -> npt.NDArray[np.int64] | None:
    if text_field not in batch.get_columns():
        return None
    texts = batch.column(text_field)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return None
    lengths = pc.binary_length(texts)
    lengths = pc.fill_null(lengths, 0) if lengths.null_count else lengths
    sizes: npt.NDArray[np.int64] = lengths.to_numpy().astype(np.int64)
    return sizes
