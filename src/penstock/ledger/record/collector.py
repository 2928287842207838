"""What a worker notes while documents pass through its stages: who was asked, what was said, who is gone since.

A stage that hands on documents which cannot be matched with those it was given begins a new block, which says who made
it. A block is written when the last of its documents has left the chain, under a name made from the block: the same
work done again, after a crash or in another worker, has the same name and says the same.
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

# Travels with a task from parent to child: which block its rows count in.
BLOCK_KEY = "ledger_block"
_NO_ROWS: Rows = np.empty(0, np.int64)


@dataclass(frozen=True)
class LedgerOrders:
    """What a worker has to know to keep the ledger of its pool."""

    folder: str
    pool: int
    # What is written below this is named from there, so that output and ledger can be moved together.
    output: str
    # For each step the labels of the stages it stands for.
    steps: tuple[tuple[str, ...], ...]
    id_fields: tuple[str, ...]
    text_field: str
    storage_options: dict[str, Any] | None = None


class Collector:
    """The ledger of one worker."""

    def __init__(self, orders: LedgerOrders) -> None:
        self.orders = orders
        # Off while a part is only tried, to find out what makes a worker die.
        self.writes = True
        self.blocks: dict[str, Block] = {}
        self._parameters: dict[str, dict[str, Any]] = {}
        self._notes = BlockWriter(orders.folder, orders.storage_options)
        numbered = iter(enumerate(label for step in orders.steps for label in step))
        self.steps = [[next(numbered) for _ in step] for step in orders.steps]

    def forget(self) -> None:
        """Drop what was noted of work that did not come to its end."""
        self.blocks.clear()

    def begin(self, number: int, tasks: Sequence[Task[Any]]) -> Passage:
        """Look at what a step is given, before the stage may change it."""
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
        """Note documents that are kept from a step because it dies of them."""
        remaining = {task.task_id: task for task in after}
        for task in before:
            if holds_documents(task) and (block := self.opened(task)) is not None and has_rows(task):
                block.measure(task, self.orders.id_fields, self.orders.text_field)
                rest = remaining.get(task.task_id)
                kept = rows_of(rest) if isinstance(rest, DocumentBatch) else _NO_ROWS
                self._note_failures(number, block, np.setdiff1d(rows_of(task), kept))

    def failed(self, number: int, task: Task[Any], position: int) -> None:
        """Note a document that a stage cannot process."""
        if holds_documents(task) and (block := self.opened(task)) is not None and has_rows(task):
            self._note_failures(number, block, rows_of(task)[[position]])

    def write_complete(self) -> None:
        """Write the blocks of which nothing is on its way any more."""
        for block in [block for block in self.blocks.values() if block.is_complete]:
            self._write(block)

    def write(self) -> None:
        """Write what is left: everything has come to its end."""
        for block in list(self.blocks.values()):
            self._write(block)

    def close(self) -> None:
        """Close the file of notes."""
        self._notes.close()

    def block_of(self, task: Task[Any]) -> Block | None:
        """Return the block that the rows of a task count in."""
        return self.blocks.get(task._metadata.get(BLOCK_KEY, ""))

    def opened(self, task: DocumentBatch) -> Block | None:
        """Return the block of a task, opened if it is one from an earlier pool of which nobody here spoke so far."""
        block = self.block_of(task)
        return self.open_block(task, None) if block is None and is_known(task) else block

    def open_block(
        self, batch: DocumentBatch, source: Task[Any] | None, made_by: str = "", parent: str = "", read_by: str = ""
    ) -> Block:
        """Open the block of a batch: fresh from its reader or from the stage that made it, or from an earlier pool."""
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

    def _note_failures(self, number: int, block: Block, rows: Rows) -> None:
        if len(rows):
            failures = block.about.setdefault("failed", {})
            failures.setdefault(self.orders.steps[number][0], []).extend(rows.tolist())
            block.drop(rows, (), self.steps[number][:1])

    def _write(self, block: Block) -> None:
        del self.blocks[block.id]
        if not self.writes or not len(block.rows) or block.says_nothing:
            return
        self._notes.add(block.to_fragment(), self._parameters)


class Passage:
    """One step at work on some tasks."""

    def __init__(
        self, collector: Collector, number: int, given: list[Task[Any]], documents: list[DocumentBatch]
    ) -> None:
        self._collector = collector
        self._number = number
        self._given = given
        self._labels = collector.orders.steps[number]
        self._documents = documents
        # Of blocks from an earlier pool nothing need be said as long as all that is given is handed on.
        self._unopened = [task for task in documents if collector.block_of(task) is None]
        self._handed_on: list[tuple[str, Rows]] = []
        self._survivors: dict[str, list[Rows]] = {}
        self._remade: set[str] = set()
        self._others: list[Task[Any]] = []

    def gave(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> None:
        """Note what the step has made, all of it or a piece."""
        if self._is_quiet(outputs, verdicts):
            self._handed_on += [(task._metadata[BLOCK_KEY], rows_of(task)) for task in self._coming[: len(outputs)]]
            return
        self._open()
        for task in self._documents:
            if (block := self._collector.block_of(task)) is not None:
                # Now, when the columns have been read for the stage's own sake.
                block.measure(task, self._collector.orders.id_fields, self._collector.orders.text_field)
        self._note(verdicts)
        is_last = self._number + 1 == len(self._collector.orders.steps)
        for output in outputs:
            if not holds_documents(output):
                self._others.append(output)
                continue
            block = self._follow(output)
            if block.measured:
                block.take_ids(output, self._collector.orders.id_fields)
            self._survivors.setdefault(block.id, []).append(rows_of(output))
            if is_last:
                block.measure(output, self._collector.orders.id_fields, self._collector.orders.text_field)
                block.leave(rows_of(output))

    def end(self, stage: ProcessingStage[Any, Any]) -> None:
        """Note what became of the documents that did not come out."""
        if self._unopened and len(self._handed_on) == len(self._documents):
            return
        self._open()
        for task in self._documents:
            block = self._collector.block_of(task)
            if block is None or not has_rows(task):
                continue
            if block.id in self._remade:
                block.about["remade_by"] = self._labels[-1]
                block.leave(rows_of(task))
            elif others := [output for output in self._others if _descends(output, task)]:
                self._became(stage, block, task, others)
            else:
                survivors = self._survivors.get(block.id, [])
                block.drop(rows_of(task), survivors, self._collector.steps[self._number])
        self._collector.write_complete()

    def _is_quiet(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> bool:
        """Tell whether every batch of an earlier pool comes out as it went in, and nobody has anything to say."""
        if verdicts or len(self._unopened) != len(self._given):
            return False
        coming, id_fields = self._coming, self._collector.orders.id_fields
        return len(outputs) <= len(coming) and all(
            _is_same(task, output, id_fields) for task, output in zip(coming, outputs, strict=False)
        )

    @property
    def _coming(self) -> list[DocumentBatch]:
        """What has not been handed on yet."""
        return self._unopened[len(self._handed_on) :]

    def _open(self) -> None:
        """Begin to keep account after all, of what has been handed on too."""
        for task in self._unopened:
            block = self._collector.opened(task)
            if block is not None:
                block.extend(rows_of(task))
        self._unopened = []
        is_last = self._number + 1 == len(self._collector.orders.steps)
        for name, rows in self._handed_on:
            self._survivors.setdefault(name, []).append(rows)
            if is_last:
                self._collector.blocks[name].leave(rows)
        self._handed_on = []

    def _follow(self, output: DocumentBatch) -> Block:
        """Return the block of an output; one that cannot be followed begins a new one."""
        parent = next((task for task in self._given if _descends(output, task)), None)
        block = self._collector.block_of(parent) if isinstance(parent, DocumentBatch) else None
        if not isinstance(parent, DocumentBatch) or block is None:
            if parent is None and self._documents:  # made of several batches together
                self._remade.update(task._metadata.get(BLOCK_KEY, "") for task in self._documents)
                return self._collector.open_block(output, None, self._labels[-1])
            return self._collector.open_block(output, parent, read_by=self._labels[0])
        if output._metadata.get(BLOCK_KEY) == block.id and has_rows(output) and are_distinct(rows_of(output)):
            return block
        self._remade.add(block.id)
        return self._collector.open_block(output, None, self._labels[-1], block.id)

    def _note(self, verdicts: Sequence[Verdicts]) -> None:
        """Give each verdict to the batch it is about: a stage speaks of its tasks in order."""
        times: dict[tuple[str, str], int] = {}
        current = 0
        for verdict in verdicts:
            if len(self._documents) > 1:
                order = [*range(current, len(self._documents)), *range(current)]
                current = next((i for i in order if _is_about(verdict, self._documents[i])), current)
            block = self._collector.block_of(self._documents[current]) if self._documents else None
            if block is not None:
                turn = times[block.id, verdict.name] = times.get((block.id, verdict.name), 0) + 1
                block.note(_label(verdict.name, turn, self._labels), verdict)

    def _became(
        self, stage: ProcessingStage[Any, Any], block: Block, task: DocumentBatch, others: Iterable[Task[Any]]
    ) -> None:
        """Note where documents were written, or which stage made something other than documents of them."""
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
    """Tell whether an earlier pool has written of a batch."""
    return BLOCK_KEY in task._metadata and has_rows(task)


def _is_same(given: DocumentBatch, output: Task[Any], id_fields: Sequence[str]) -> bool:
    """Tell whether a batch has come out with the rows it went in with, and nothing new to know it by."""
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
    """Return the label of the rule that spoke: of several of one name the one whose turn it is."""
    same_name = [label for label in labels if label.split("#")[0] == name]
    # A stage of several rules is one stage to its worker: "gopher/word_count".
    return same_name[min(turn, len(same_name)) - 1] if same_name else f"{labels[0]}/{name}"


def _descends(output: Task[Any], parent: Task[Any]) -> bool:
    return output.task_id == parent.task_id or output.task_id.startswith(f"{parent.task_id}_")


def _source(batch: DocumentBatch, source: Task[Any] | None, read_by: str) -> dict[str, Any]:
    """Say where a batch was read from, so that it can be read again."""
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
    """Return the task as it was read: without the files that its reader failed on, of those it was given."""
    if source._metadata.get("source_files") != source.data or len(read) == len(source.data):
        return source
    return source.select([row for row, path in enumerate(source.data) if path in set(read)])
