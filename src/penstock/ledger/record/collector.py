"""Record, in a worker, what each stage decides about the documents that pass through it.

If the outputs of a stage cannot be matched with its inputs, they start a new block that names this stage as its maker.
A block is written when the last of its documents has passed all steps of the worker. Its name is derived from task,
block and pool: the same work repeated after a crash, or in another worker, writes the same block under the same name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.verdicts import Verdicts
from penstock.ledger.record.block import Block
from penstock.ledger.record.document_rows import Rows, are_distinct, has_rows, holds_documents, id_column, rows_of
from penstock.ledger.store.block_writer import BlockWriter
from penstock.ledger.store.rules import plain_parameters

# Metadata key, inherited by child tasks: the block to which the rows of a task belong.
BLOCK_KEY = "ledger_block"
_NO_ROWS: Rows = np.empty(0, np.int64)


@dataclass(frozen=True)
class LedgerOrders:
    """Settings with which a worker writes the ledger of its pool."""

    folder: str
    pool: int
    # Paths below this folder are stored relative to it, so that output and ledger can be moved together.
    output: str
    # For each step the labels of the stages in it.
    steps: tuple[tuple[str, ...], ...]
    id_fields: tuple[str, ...]
    text_field: str
    storage_options: dict[str, Any] | None = None


class Collector:
    """Collect the blocks of one worker and write those that are complete."""

    def __init__(self, orders: LedgerOrders) -> None:
        self.orders = orders
        # False while the worker retries parts of a task to find the row that kills it.
        self.writes = True
        self.blocks: dict[str, Block] = {}
        self._parameters: dict[str, dict[str, Any]] = {}
        self._writer = BlockWriter(orders.folder, orders.storage_options)
        numbered = iter(enumerate(label for step in orders.steps for label in step))
        self.steps = [[next(numbered) for _ in step] for step in orders.steps]

    def forget(self) -> None:
        """Discard the records of work that was not completed."""
        self.blocks.clear()

    def begin(self, number: int, tasks: Sequence[Task[Any]]) -> Passage:
        """Record the inputs of a step, before the stage can change them."""
        copies: list[Task[Any]] = []
        documents: list[DocumentBatch] = []
        for task in tasks:
            if not holds_documents(task):
                copies.append(copy.copy(task))
                continue
            block = self.block_of(task)
            if block is None:
                if not is_known(task):
                    self.open_block(task, None)
            elif number == 0 and has_rows(task):
                block.extend(rows_of(task))  # another task of the same block, from an earlier pool
            elif not block.measured and (name := id_column(task, self.orders.id_fields)) is not None:
                task.prepare([self.orders.text_field, name])
            documents.append(copy.copy(task))
            copies.append(documents[-1])
        return Passage(self, number, copies, documents)

    def left_out(self, number: int, before: Sequence[Task[Any]], after: Sequence[Task[Any]]) -> None:
        """Record documents that are excluded from a step because they kill its worker."""
        remaining = {task.task_id: task for task in after}
        for task in before:
            if holds_documents(task) and (block := self.opened(task)) is not None and has_rows(task):
                block.measure(task, self.orders.id_fields, self.orders.text_field)
                rest = remaining.get(task.task_id)
                kept = rows_of(rest) if isinstance(rest, DocumentBatch) else _NO_ROWS
                self._record_failures(number, block, np.setdiff1d(rows_of(task), kept))

    def failed(self, number: int, task: Task[Any], position: int) -> None:
        """Record a document that a stage cannot process."""
        if holds_documents(task) and (block := self.opened(task)) is not None and has_rows(task):
            self._record_failures(number, block, rows_of(task)[[position]])

    def write_complete(self) -> None:
        """Write the blocks that have no document in flight."""
        for block in [block for block in self.blocks.values() if block.is_complete]:
            self._write(block)

    def write(self) -> None:
        """Write all remaining blocks: no document is in flight."""
        for block in list(self.blocks.values()):
            self._write(block)

    def close(self) -> None:
        """Close the block file."""
        self._writer.close()

    def block_of(self, task: Task[Any]) -> Block | None:
        """Return the open block to which the rows of a task belong."""
        return self.blocks.get(task._metadata.get(BLOCK_KEY, ""))

    def opened(self, task: DocumentBatch) -> Block | None:
        """Return the block of a task; open it if an earlier pool recorded it and this worker has not used it yet."""
        block = self.block_of(task)
        return self.open_block(task, None) if block is None and is_known(task) else block

    def open_block(
        self, batch: DocumentBatch, source: Task[Any] | None, made_by: str = "", parent: str = "", read_by: str = ""
    ) -> Block:
        """Open the block of a batch that was just read, was just made by a stage, or comes from an earlier pool."""
        name = batch._metadata.get(BLOCK_KEY)
        is_new = name is None or bool(made_by) or not has_rows(batch)
        about: dict[str, Any] = {"task": batch.task_id, "pool": self.orders.pool}
        if is_new:
            name = f"{batch.task_id}@{made_by}" if made_by else batch.task_id
            batch._metadata = {**batch._metadata, BLOCK_KEY: name}
            about |= {"count": batch.num_items, **_source(batch, source, read_by)}
            about |= {"made_by": made_by, "from_block": parent} if made_by else {}
            if made_by or not has_rows(batch):
                batch.source_rows = np.arange(batch.num_items)
        block = Block(str(name), about, rows_of(batch), self._parameters)
        if not is_new:
            block.is_new, block.measured = False, True
            block.identified = id_column(batch, self.orders.id_fields) is not None
        self.blocks[block.id] = block
        return block

    def _record_failures(self, number: int, block: Block, rows: Rows) -> None:
        if len(rows):
            failures = block.about.setdefault("failed", {})
            failures.setdefault(self.orders.steps[number][0], []).extend(rows.tolist())
            block.drop(rows, (), self.steps[number][:1])

    def _write(self, block: Block) -> None:
        del self.blocks[block.id]
        if not self.writes or not len(block.rows) or block.is_redundant:
            return
        self._writer.add(block.to_fragment(), self._parameters)


class Passage:
    """One call of a step: compares its inputs with its outputs to see what it dropped."""

    def __init__(
        self, collector: Collector, number: int, inputs: list[Task[Any]], documents: list[DocumentBatch]
    ) -> None:
        self._collector = collector
        self._number = number
        self._inputs = inputs
        self._labels = collector.orders.steps[number]
        self._documents = documents
        # Blocks from an earlier pool need no record as long as every input is passed on unchanged.
        self._unopened = [task for task in documents if collector.block_of(task) is None]
        self._passed_on: list[tuple[str, Rows]] = []
        self._survivors: dict[str, list[Rows]] = {}
        self._replaced_blocks: set[str] = set()
        self._other_outputs: list[Task[Any]] = []

    def gave(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> None:
        """Record outputs of the step and its verdicts; called once, or once per chunk of the outputs."""
        if self._is_passed_on_unchanged(outputs, verdicts):
            self._passed_on += [(task._metadata[BLOCK_KEY], rows_of(task)) for task in self._pending[: len(outputs)]]
            return
        self._start_recording()
        for task in self._documents:
            if (block := self._collector.block_of(task)) is not None:
                # Measure now: the stage has already read the columns.
                block.measure(task, self._collector.orders.id_fields, self._collector.orders.text_field)
        self._assign_verdicts(verdicts)
        is_last = self._number + 1 == len(self._collector.orders.steps)
        for output in outputs:
            if not holds_documents(output):
                self._other_outputs.append(output)
                continue
            block = self._follow(output)
            if block.measured:
                block.take_ids(output, self._collector.orders.id_fields)
            self._survivors.setdefault(block.id, []).append(rows_of(output))
            if is_last:
                block.measure(output, self._collector.orders.id_fields, self._collector.orders.text_field)
                block.leave(rows_of(output))

    def end(self, stage: ProcessingStage[Any, Any]) -> None:
        """Record what happened to the inputs that are not among the outputs."""
        if self._unopened and len(self._passed_on) == len(self._documents):
            return
        self._start_recording()
        for task in self._documents:
            block = self._collector.block_of(task)
            if block is None or not has_rows(task):
                continue
            if block.id in self._replaced_blocks:
                block.about["remade_by"] = self._labels[-1]
                block.leave(rows_of(task))
            elif others := [output for output in self._other_outputs if _descends(output, task)]:
                self._record_destination(stage, block, task, others)
            else:
                survivors = self._survivors.get(block.id, [])
                block.drop(rows_of(task), survivors, self._collector.steps[self._number])
        self._collector.write_complete()

    def _is_passed_on_unchanged(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> bool:
        """Return whether all inputs are from an earlier pool, are passed on unchanged, and got no verdict."""
        if verdicts or len(self._unopened) != len(self._inputs):
            return False
        pending, id_fields = self._pending, self._collector.orders.id_fields
        return len(outputs) <= len(pending) and all(
            _is_same(task, output, id_fields) for task, output in zip(pending, outputs, strict=False)
        )

    @property
    def _pending(self) -> list[DocumentBatch]:
        """Return the inputs that have not been passed on yet."""
        return self._unopened[len(self._passed_on) :]

    def _start_recording(self) -> None:
        """Start recording, including inputs that were already passed on unchanged."""
        for task in self._unopened:
            block = self._collector.opened(task)
            if block is not None:
                block.extend(rows_of(task))
        self._unopened = []
        is_last = self._number + 1 == len(self._collector.orders.steps)
        for name, rows in self._passed_on:
            self._survivors.setdefault(name, []).append(rows)
            if is_last:
                self._collector.blocks[name].leave(rows)
        self._passed_on = []

    def _follow(self, output: DocumentBatch) -> Block:
        """Return the block of an output; an output that cannot be matched with an input starts a new block."""
        parent = next((task for task in self._inputs if _descends(output, task)), None)
        block = self._collector.block_of(parent) if isinstance(parent, DocumentBatch) else None
        if not isinstance(parent, DocumentBatch) or block is None:
            if parent is None and self._documents:  # made of several batches together
                self._replaced_blocks.update(task._metadata.get(BLOCK_KEY, "") for task in self._documents)
                return self._collector.open_block(output, None, self._labels[-1])
            return self._collector.open_block(output, parent, read_by=self._labels[0])
        if output._metadata.get(BLOCK_KEY) == block.id and has_rows(output) and are_distinct(rows_of(output)):
            return block
        self._replaced_blocks.add(block.id)
        return self._collector.open_block(output, None, self._labels[-1], block.id)

    def _assign_verdicts(self, verdicts: Sequence[Verdicts]) -> None:
        """Assign each verdict to the batch it is about; a stage records verdicts in the order of its tasks."""
        times: dict[tuple[str, str], int] = {}
        current = 0
        for verdict in verdicts:
            if len(self._documents) > 1:
                order = [*range(current, len(self._documents)), *range(current)]
                current = next((i for i in order if _is_about(verdict, self._documents[i])), current)
            block = self._collector.block_of(self._documents[current]) if self._documents else None
            if block is not None:
                turn = times[block.id, verdict.name] = times.get((block.id, verdict.name), 0) + 1
                block.add_verdicts(_label(verdict.name, turn, self._labels), verdict)

    def _record_destination(
        self, stage: ProcessingStage[Any, Any], block: Block, task: DocumentBatch, others: Iterable[Task[Any]]
    ) -> None:
        """Record the files to which documents were written, or the stage that turned them into something else."""
        block.leave(rows_of(task))
        output = self._collector.orders.output
        files = [
            path.removeprefix(output) for other in others if isinstance(other, FileGroupTask) for path in other.data
        ]
        if stage.writes_to() is None or not files:
            block.about["remade_by"] = self._labels[-1]
            return
        whole = task.num_items == block.alive
        written = {"files": files} if whole else {"files": files, "rows": rows_of(task).tolist()}
        block.about.setdefault("written", []).append(written)


def is_known(task: DocumentBatch) -> bool:
    """Return whether an earlier pool has recorded this batch."""
    return BLOCK_KEY in task._metadata and has_rows(task)


def _is_same(given: DocumentBatch, output: Task[Any], id_fields: Sequence[str]) -> bool:
    """Return whether an output has the same rows and the same id column as the input."""
    if not isinstance(output, DocumentBatch) or output.task_id != given.task_id or not is_known(output):
        return False
    before, after = rows_of(given), rows_of(output)
    return (
        output._metadata[BLOCK_KEY] == given._metadata[BLOCK_KEY]
        and (before is after or np.array_equal(before, after))
        and (given.get_columns() == output.get_columns() or id_column(given, id_fields) == id_column(output, id_fields))
    )


def _is_about(verdict: Verdicts, task: DocumentBatch) -> bool:
    rows = task.source_rows
    return rows is not None and (np.array_equal(verdict.rows, rows) or bool(np.isin(verdict.rows, rows).all()))


@lru_cache(maxsize=4096)
def _label(name: str, turn: int, labels: tuple[str, ...]) -> str:
    """Return the label of a rule; ``turn`` counts the verdicts of rules with this name, starting at 1."""
    same_name = [label for label in labels if label.split("#")[0] == name]
    # A stage that consists of several rules has one label; its rules are "gopher/word_count" and so on.
    return same_name[min(turn, len(same_name)) - 1] if same_name else f"{labels[0]}/{name}"


def _descends(output: Task[Any], parent: Task[Any]) -> bool:
    return output.task_id == parent.task_id or output.task_id.startswith(f"{parent.task_id}_")


def _source(batch: DocumentBatch, source: Task[Any] | None, read_by: str) -> dict[str, Any]:
    """Describe where a batch was read from, so that it can be read again."""
    about: dict[str, Any] = {"files": list(batch._metadata.get("source_files", []))}
    if isinstance(source, FileGroupTask):
        source = _without_unreadable(source, about["files"])
        metadata = plain_parameters({key: value for key, value in source._metadata.items() if key != BLOCK_KEY})
        about["read"] = {
            "by": read_by,
            "data": list(source.data),
            "dataset_name": source.dataset_name,
            "task_id": source.task_id,
            "reader_config": plain_parameters(source.reader_config),
            "metadata": metadata,
        }
    return about


def _without_unreadable(source: FileGroupTask, read: Sequence[str]) -> FileGroupTask:
    """Return the task without the files that its reader could not read."""
    if source._metadata.get("source_files") != source.data or len(read) == len(source.data):
        return source
    return source.select([row for row, path in enumerate(source.data) if path in set(read)])
