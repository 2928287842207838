"""What a worker notes while documents pass through its stages: who was asked, what was said, who is gone since.

A block is the documents of one batch as it came from its reader; inside it a document is known by its row. A stage
that hands on documents which cannot be matched with those it was given begins a new block, which says who made it.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.verdicts import Verdicts
from penstock.ledger.following import Rows, follow, has_rows, id_column
from penstock.ledger.fragment import Fragment, RuleColumn, write_table
from penstock.ledger.rules import plain_parameters
from penstock.storage.atomic import atomic_write

# Travels with a task from parent to child: which block its rows count in.
BLOCK_KEY = "ledger_block"
_ALIVE = -1
_SKIPPED_METADATA = {"source_files", BLOCK_KEY}


@dataclass(frozen=True)
class LedgerOrders:
    """What a worker has to know to keep the ledger of its pool."""

    folder: str
    pool: int
    # For each step the labels of the stages it stands for.
    steps: tuple[tuple[str, ...], ...]
    id_fields: tuple[str, ...]
    text_field: str


@dataclass
class _Block:
    """The documents of one batch, and what has been said of them in this pool."""

    id: str
    about: dict[str, Any]
    rows: Rows
    # Number of the label that dropped each document.
    dropped: npt.NDArray[np.int16]
    rules: dict[str, RuleColumn] = field(default_factory=dict)
    ids: pa.Array | None = None
    sizes: npt.NDArray[np.int64] | None = None
    measured: bool = False

    def positions(self, rows: Rows) -> Rows:
        """Return where in this block some rows are."""
        if len(self.rows) and self.rows[-1] - self.rows[0] + 1 == len(self.rows):
            return rows - self.rows[0]
        order = np.argsort(self.rows, kind="stable")
        return order[np.searchsorted(self.rows, rows, sorter=order)]

    def note(self, label: str, verdicts: Verdicts) -> None:
        """Note what a rule said."""
        count = len(self.rows)
        where = self.positions(verdicts.rows)
        column = self.rules.get(label)
        if column is None:
            column = RuleColumn(np.zeros(count, bool), np.zeros(count, bool), None, plain_parameters(verdicts.parameters))
            self.rules[label] = column
        column.asked[where] = True
        column.fails[where] = ~verdicts.kept
        if verdicts.scores is not None:
            if column.scores is None:
                column.scores = np.full(count, np.nan)
            column.scores[where] = verdicts.scores


class Collector:
    """The ledger of one worker, between two writes."""

    def __init__(self, orders: LedgerOrders) -> None:
        self._orders = orders
        self._labels = [label for step in orders.steps for label in step]
        self._blocks: dict[str, _Block] = {}

    def forget(self) -> None:
        """Drop what was noted of work that is not going to count."""
        self._blocks.clear()

    def before(self, step: int, tasks: Sequence[Task[Any]]) -> list[Task[Any]]:
        """Look at what a step is given, and return copies: the stage may change its input in place."""
        for task in tasks:
            if isinstance(task, DocumentBatch) and task.task_id and not self._known(task):
                self._begin(task, None, {})
        return [copy.copy(task) for task in tasks]

    def after(
        self,
        step: int,
        stage: ProcessingStage[Any, Any],
        given: Sequence[Task[Any]],
        outputs: Sequence[Task[Any]],
        verdicts: Sequence[Verdicts],
    ) -> None:
        """Note what a step made of its input."""
        documents = [task for task in given if isinstance(task, DocumentBatch) and self._known(task)]
        for task in documents:
            self._measure(task)
        self._note(step, documents, verdicts)
        survivors: dict[str, list[Rows]] = {}
        rebuilt: set[str] = set()
        for output in outputs:
            parent = _parent(output, given)
            if isinstance(output, DocumentBatch):
                block = self._follow(step, parent, output)
                survivors.setdefault(block.id, []).append(_rows(output))
                if isinstance(parent, DocumentBatch) and block.id != parent._metadata.get(BLOCK_KEY):
                    rebuilt.add(parent._metadata[BLOCK_KEY])
                self._measure_new_ids(block, output)
        for task in documents:
            block = self._blocks[task._metadata[BLOCK_KEY]]
            if block.id in rebuilt:
                block.about["remade_by"] = self._orders.steps[step][-1]
                continue
            children = [output for output in outputs if _descends(output, task)]
            if children and not any(isinstance(child, DocumentBatch) for child in children):
                self._left_as_something_else(step, stage, block, task, children)
                continue
            self._mark_dropped(step, block, _rows(task), survivors.get(block.id, []))

    def failed(self, step: int, task: Task[Any], position: int) -> None:
        """Note a document that a stage cannot process."""
        if isinstance(task, DocumentBatch) and self._known(task) and has_rows(task):
            failures = self._blocks[task._metadata[BLOCK_KEY]].about.setdefault("failed", {})
            failures.setdefault(self._orders.steps[step][0], []).append(int(_rows(task)[position]))

    def write(self) -> None:
        """Write a file for each block, named after it: the same work done again gives the same file again."""
        for block in self._blocks.values():
            if not len(block.rows):
                continue
            name = hashlib.sha256(f"{block.id}|{self._orders.pool}".encode()).hexdigest()[:20]
            with atomic_write(f"{self._orders.folder}/{name}.parquet", durable=False) as stream:
                write_table(self._fragment(block).to_table(), stream)
        self._blocks.clear()

    # -- blocks --------------------------------------------------------------------------------------------

    def _known(self, task: Task[Any]) -> bool:
        return task._metadata.get(BLOCK_KEY) in self._blocks

    def _begin(self, batch: DocumentBatch, source: Task[Any] | None, about: dict[str, Any]) -> _Block:
        """Open the block of a batch: as it comes from a reader, or as it arrives from an earlier pool."""
        block_id = batch._metadata.get(BLOCK_KEY)
        if block_id is None or about:
            block_id = batch.task_id if not about else f"{batch.task_id}@{about['made_by']}"
            batch._metadata = {**batch._metadata, BLOCK_KEY: block_id}
            about = {**_source(batch, source), **about}
        if not has_rows(batch):
            batch.source_rows = np.arange(batch.num_items)
        rows = _rows(batch)
        about = {"order": list(batch._order), **about}
        block = _Block(block_id, about, rows, np.full(len(rows), _ALIVE, np.int16))
        self._blocks[block_id] = block
        return block

    def _follow(self, step: int, parent: Task[Any] | None, output: DocumentBatch) -> _Block:
        """Find the block of an output, or begin one."""
        if not isinstance(parent, DocumentBatch) or not self._known(parent):
            return self._begin(output, parent, {})
        block = self._blocks[parent._metadata[BLOCK_KEY]]
        if output._metadata.get(BLOCK_KEY) == block.id and has_rows(output):
            return block
        positions = follow(parent, output, self._orders.id_fields)
        if positions is None:
            return self._begin(output, parent, {"made_by": self._orders.steps[step][-1], "from_block": block.id})
        output.source_rows = _rows(parent)[positions]
        output._metadata = {**output._metadata, BLOCK_KEY: block.id}
        return block

    def _measure(self, batch: DocumentBatch) -> None:
        """Take the ids and sizes of new documents: now, when their columns have been read for the stage's own sake."""
        block = self._blocks[batch._metadata[BLOCK_KEY]]
        if block.measured or batch.num_items != len(block.rows):
            return
        block.measured = True
        self._measure_new_ids(block, batch)
        if self._orders.text_field in batch.get_columns():
            texts = batch.column(self._orders.text_field)
            if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
                lengths = pc.fill_null(pc.binary_length(texts), 0)
                block.sizes = lengths.to_numpy().astype(np.int64)

    def _measure_new_ids(self, block: _Block, batch: DocumentBatch) -> None:
        """Take the ids of documents that had none, if a batch has some."""
        name = id_column(batch, self._orders.id_fields) if block.ids is None else None
        if name is None or not (block.measured or batch.num_items == len(block.rows)) or not batch.num_items:
            return
        ids = batch.column(name).combine_chunks()
        where = np.full(len(block.rows), -1, np.int64)
        where[block.positions(_rows(batch))] = np.arange(batch.num_items)
        block.ids = ids.cast(pa.string()).take(pa.array(where, mask=where < 0))

    def _fragment(self, block: _Block) -> Fragment:
        labels = pa.array(self._labels, pa.string())
        dropped_by = labels.take(pa.array(block.dropped, mask=block.dropped == _ALIVE))
        return Fragment(block.id, block.about, block.rows, dropped_by, block.rules, block.ids, block.sizes)

    # -- verdicts ------------------------------------------------------------------------------------------

    def _note(self, step: int, documents: Sequence[DocumentBatch], verdicts: Sequence[Verdicts]) -> None:
        """Give each verdict to the batch it is about: stages speak of their tasks in order."""
        said: dict[str, dict[str, int]] = {task.task_id: {} for task in documents}
        labels = self._orders.steps[step]
        current = 0
        for verdict in verdicts:
            while current < len(documents) and not _is_about(verdict, documents[current]):
                current += 1
            if current == len(documents):
                current = next((i for i, task in enumerate(documents) if _is_about(verdict, task)), current)
                if current == len(documents):
                    continue
            task = documents[current]
            times = said[task.task_id][verdict.name] = said[task.task_id].get(verdict.name, 0) + 1
            label = _label(verdict.name, times, labels)
            self._blocks[task._metadata[BLOCK_KEY]].note(label, verdict)

    def _mark_dropped(self, step: int, block: _Block, before: Rows, after: Sequence[Rows]) -> None:
        gone = np.zeros(len(block.rows), bool)
        gone[block.positions(before)] = True
        for rows in after:
            gone[block.positions(rows)] = False
        gone &= block.dropped == _ALIVE
        if not gone.any():
            return
        first = self._labels.index(self._orders.steps[step][0])
        for number, label in enumerate(self._orders.steps[step], start=first):
            if label in block.rules:
                here = gone & block.rules[label].fails
                block.dropped[here] = number
                gone &= ~here
        block.dropped[gone] = first  # it says nothing of its reasons

    def _left_as_something_else(
        self,
        step: int,
        stage: ProcessingStage[Any, Any],
        block: _Block,
        task: DocumentBatch,
        children: Iterable[Task[Any]],
    ) -> None:
        """Note where documents were written, or which stage made something other than documents of them."""
        files = [path for child in children if isinstance(child, FileGroupTask) for path in child.data]
        if stage.writes_to() is None or not files:
            block.about["remade_by"] = self._orders.steps[step][-1]
            return
        written = block.about.setdefault("written", [])
        whole = task.num_items == int((block.dropped == _ALIVE).sum())
        written.append({"files": files} if whole else {"files": files, "rows": _rows(task).tolist()})


def _rows(batch: DocumentBatch) -> Rows:
    assert batch.source_rows is not None
    return batch.source_rows


def _is_about(verdict: Verdicts, task: DocumentBatch) -> bool:
    rows = task.source_rows
    return rows is not None and (verdict.rows is rows or bool(np.isin(verdict.rows, rows).all()))


def _label(name: str, times: int, labels: Sequence[str]) -> str:
    """Return the label of the rule that spoke: of several of one name the one whose turn it is."""
    of_that_name = [label for label in labels if label.split("#")[0] == name]
    if times <= len(of_that_name):
        return of_that_name[times - 1]
    # One stage of several rules: "gopher/word_count".
    return labels[0] if len(labels) == 1 and name == labels[0] else f"{labels[0]}/{name}"


def _descends(output: Task[Any], parent: Task[Any]) -> bool:
    return output.task_id == parent.task_id or output.task_id.startswith(f"{parent.task_id}_")


def _parent(output: Task[Any], given: Sequence[Task[Any]]) -> Task[Any] | None:
    """Return what an output was made from; None where that is several tasks together."""
    return next((task for task in given if _descends(output, task)), None) if given else None


def _source(batch: DocumentBatch, source: Task[Any] | None) -> dict[str, Any]:
    """Say where a batch was read from, so that it can be read again."""
    about: dict[str, Any] = {"files": list(batch._metadata.get("source_files", [])), "task": batch.task_id}
    if isinstance(source, FileGroupTask):
        about["read"] = {
            "data": list(source.data),
            "dataset_name": source.dataset_name,
            "task_id": source.task_id,
            "reader_config": plain_parameters(source.reader_config),
            "metadata": {
                key: value
                for key, value in plain_parameters(source._metadata).items()
                if key not in _SKIPPED_METADATA
            },
        }
    return about
