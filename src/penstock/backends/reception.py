"""Receive the reports of workers: add them to the run record, and convert them to events for the scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from penstock.backends.reports import Done, Failed, Gives, Report, Wants
from penstock.plan.plan import Plan
from penstock.runtime.run_record import RunRecord
from penstock.runtime.transport import StoredTask
from penstock.schedule.actions import DeadLetter, RunBatch
from penstock.schedule.events import BatchDone, BatchFailed, CreditWanted, Emitted, Event, Output
from penstock.schedule.state import item_key


class Holdings(Protocol):
    """The stored tasks in flight, by the scheduler's key."""

    def add(self, key: str, stored: StoredTask, made_from: Sequence[str]) -> bool:
        """Add a task; return True if it replaces one that was lost."""
        ...

    def stored(self, key: str) -> StoredTask:
        """Return a stored task by its key."""
        ...


class Reporter(Protocol):
    """The properties of a worker that are needed here."""

    @property
    def id(self) -> str:
        """The scheduler's id of the worker."""
        ...

    @property
    def pool(self) -> int:
        """The pool of the worker."""
        ...

    @property
    def orders(self) -> dict[int, RunBatch]:
        """The batches that it has not finished."""
        ...


class Reception:
    """Process the reports of the workers of one run."""

    def __init__(self, plan: Plan, record: RunRecord, holdings: Holdings) -> None:
        self._plan = plan
        self._record = record
        self._holdings = holdings
        # Output rows so far, by worker and unfinished batch.
        self._rows_given: Counter[tuple[str, int]] = Counter()

    def take(self, worker: Reporter, report: Report) -> list[Event]:
        """Add a report to the run record, and return the events for the scheduler."""
        match report:
            case Done(batch, outputs, seconds, resident, counters, rejections):
                given = self._give(worker, batch, outputs)
                order = worker.orders.pop(batch)
                rows_given = self._rows_given.pop((worker.id, batch), 0)
                if order.again or order.probe:  # outputs that are made again were counted the first time
                    return [*given, BatchDone(worker.id, batch, seconds, resident)]
                self._record.conservation.batch_done(
                    worker.pool, counters, rejections, rows_given if not order.already else None
                )
                self._record.count(worker.pool, counters)
                if (trouble := self._record.systematic.note(worker.pool, counters, rejections)) is not None:
                    self._record.write_down(rejections)
                    return [*given, BatchFailed(worker.id, batch, trouble, stops_run=True)]
                self._record.done([self._holdings.stored(key) for key in order.items], rejections)
                return [*given, BatchDone(worker.id, batch, seconds, resident)]
            case Gives(batch, outputs):
                return self._give(worker, batch, outputs)
            case Wants(batch, size):
                return [CreditWanted(worker.id, batch, size)]
            case Failed(batch, reason, counters, stops_run):
                if stops_run:  # otherwise the batch is retried or given up
                    self._record.count(worker.pool, counters)
                del worker.orders[batch]
                self._rows_given.pop((worker.id, batch), None)
                return [BatchFailed(worker.id, batch, reason, stops_run)]

    def dead_letter(self, letter: DeadLetter) -> None:
        """Record a batch that is given up; single rows are recorded by the worker that runs the other rows."""
        if letter.rows is None:
            inputs = [self._holdings.stored(key) for key in letter.items]
            self._record.give_up(letter.pool, inputs, letter.error)

    def _give(self, worker: Reporter, batch: int, outputs: Sequence[StoredTask]) -> list[Event]:
        """Record the stored outputs of a worker; discard sources that a checkpoint records as done."""
        is_source = worker.pool == 0 and not self._record.given_sources
        last = worker.pool + 1 == len(self._plan.pools)
        made_from = worker.orders[batch].items
        entered: list[StoredTask] = []
        entries: list[Output] = []
        self._rows_given[worker.id, batch] += sum(stored.rows for stored in outputs)
        for stored in outputs:
            if is_source and self._record.settlement.is_done(stored.id):
                stored.remove()
                continue
            if last:
                self._record.result(stored)
                entered.append(stored)
            elif not self._holdings.add(item_key(worker.pool + 1, stored.id), stored, made_from):
                entered.append(stored)
            entries.append(Output(stored.id, stored.order, stored.size, stored.rows))
        self._record.emitted(entered, last=last)
        if not last:
            self._record.conservation.entered(worker.pool + 1, sum(stored.rows for stored in entered))
        return [Emitted(worker.id, batch, tuple(entries))] if entries else []
