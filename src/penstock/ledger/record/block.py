"""The documents of one batch as its reader returned it, with the verdicts on each of them."""

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
    """Documents identified by row number, with the verdict and score of every rule."""

    id: str
    # Origin and destination of the documents, as plain data.
    about: dict[str, Any]
    rows: Rows
    # Parameters by rule label, shared by all blocks.
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    # For each document the number of the label that dropped it, and whether it has passed all steps of this worker.
    dropped: npt.NDArray[np.int16] = field(init=False)
    left: npt.NDArray[np.bool_] = field(init=False)
    rules: dict[str, RuleColumn] = field(default_factory=dict)
    ids: pa.Array | None = None
    sizes: npt.NDArray[np.int64] | None = None
    # Whether sizes, and whether ids, are already recorded, here or by an earlier pool.
    measured: bool = False
    identified: bool = False
    # Whether no earlier pool has recorded this block.
    is_new: bool = True
    # Shared by all rules that were asked about every document.
    _all_asked: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        """Start with every document in flight."""
        self.dropped = np.full(len(self.rows), _ALIVE, np.int16)
        self.left = np.zeros(len(self.rows), bool)

    def extend(self, rows: Rows) -> None:
        """Add documents of the same block that arrive in another task."""
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
        """Return whether every document was dropped or has passed all steps of this worker."""
        return bool((self.left | (self.dropped != _ALIVE)).all())

    @property
    def alive(self) -> int:
        """Return the number of documents that have not been dropped."""
        return int((self.dropped == _ALIVE).sum())

    def positions(self, rows: Rows) -> Rows:
        """Return the positions of these rows in the block."""
        if len(self.rows) and self.rows[-1] - self.rows[0] + 1 == len(self.rows):
            offset: np.int64 = self.rows[0]
            return rows - offset
        order = np.argsort(self.rows, kind="stable")
        found: Rows = order[np.searchsorted(self.rows, rows, sorter=order)]
        return found

    def add_verdicts(self, label: str, verdicts: Verdicts) -> None:
        """Record the verdicts of a rule."""
        count = len(self.rows)
        column = self.rules.get(label)
        if label not in self.parameters:
            self.parameters[label] = plain_parameters(verdicts.parameters)
        if column is None and (verdicts.rows is self.rows or np.array_equal(verdicts.rows, self.rows)):
            # Common case: one scan over the whole batch.
            self.rules[label] = RuleColumn(self._asked_all(), verdicts.kept.copy(), verdicts.scores)
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

    def _asked_all(self) -> npt.NDArray[np.bool_]:
        """Return an array of True for every document. It is shared, since a rule never becomes unasked."""
        if self._all_asked is None or len(self._all_asked) < len(self.rows):
            self._all_asked = np.ones(len(self.rows), bool)
        return self._all_asked

    def drop(self, rows: Rows, survivors: Sequence[Rows], labels: Sequence[tuple[int, str]]) -> None:
        """Mark every document that is not a survivor as dropped by the first rule that failed it.

        If no rule failed a document, the first label counts as the one that dropped it.
        """
        dropped_here = np.zeros(len(self.rows), bool)
        dropped_here[self.positions(rows)] = True
        for rest in survivors:
            dropped_here[self.positions(rest)] = False
        dropped_here &= self.dropped == _ALIVE
        for number, label in labels:
            if label in self.rules:
                kept = self.rules[label].kept
                self.dropped[dropped_here > kept] = number
                dropped_here &= kept
        self.dropped[dropped_here] = labels[0][0]  # dropped without a verdict

    def leave(self, rows: Rows) -> None:
        """Mark documents that have passed all steps of this worker."""
        self.left[self.positions(rows)] = True

    def measure(self, batch: DocumentBatch, id_fields: Sequence[str], text_field: str) -> None:
        """Record ids and text sizes, once per block."""
        if not self.measured and batch.num_items == len(self.rows):
            self.measured = True
            self.take_ids(batch, id_fields)
            self.sizes = _sizes(batch, text_field)

    def take_ids(self, batch: DocumentBatch, id_fields: Sequence[str]) -> None:
        """Record the ids of the documents if the block has none yet and this batch has an id column."""
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
    def is_redundant(self) -> bool:
        """Return whether the block holds nothing that an earlier pool has not recorded."""
        return not (self.is_new or self.rules or self.ids is not None or self.about.keys() - {"task", "pool"}) and bool(
            (self.dropped == _ALIVE).all()
        )

    def to_fragment(self) -> Fragment:
        """Return the block in the form in which it is stored."""
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
