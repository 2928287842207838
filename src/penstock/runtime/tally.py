"""What a step was given and what it made of it, counted for the stages it stands for."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from penstock.core.counters import StageCounters
from penstock.core.task import Task
from penstock.ledger.record.collector import Passage
from penstock.runtime.calling import Step


class Consumed:
    """What a step was given, looked at before the stage may change it."""

    def __init__(self, tasks: Sequence[Task[Any]], passage: Passage | None = None) -> None:
        self.tasks = len(tasks)
        # The rows are less those that were set aside, once that is known.
        self.items, self.bytes, self.rows = measure(tasks)
        self.task_ids = ",".join(task.task_id for task in tasks)
        self.noun = tasks[0].noun if tasks else ""
        self.passage = passage

    def used_up(self) -> Consumed:
        """Return the same tasks when all of them is accounted for already."""
        rest = copy.copy(self)
        rest.tasks = rest.items = rest.bytes = rest.rows = 0
        return rest


def count(step: Step, counters: list[StageCounters], whole: StageCounters) -> None:
    """Add what a step did to the counters of the stages it stands for."""
    if len(counters) == 1:
        counters[0].add(whole)
        step.take_part_counts()
        return
    # A merged stage knows what each part did; what belongs to no part in particular goes to the first.
    for counter in counters:
        counter.tasks += whole.tasks
    # One count per part and task.
    for part, counter in zip(step.take_part_counts(), cycle(counters), strict=False):
        counter.items_in += part.items_in
        counter.items_out += part.items_out
        counter.bytes_in += part.bytes_in
        counter.bytes_out += part.bytes_out
        counter.seconds += part.seconds
        counter.noun_in = counter.noun_out = whole.noun_in
    counters[0].add(StageCounters(counters[0].stage, rejected=whole.rejected, metrics=whole.metrics))


def measure(tasks: Sequence[Task[Any]]) -> tuple[int, int, int]:
    """Return how many items some tasks hold, how many bytes, and into how many rows they could be cut."""
    items = size = rows = 0
    for task in tasks:
        count = task.num_items
        items += count
        size += task.num_bytes
        rows += count if count > 1 and type(task).select is not Task.select else 1
    return items, size, rows
