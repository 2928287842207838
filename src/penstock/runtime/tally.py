"""Count the inputs and outputs of a step, for each of the stages that were merged into it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from penstock.core.counters import StageCounters
from penstock.core.task import Task
from penstock.runtime.calling import Step
from penstock.runtime.observer import StepObserver


class Consumed:
    """The size of the inputs of a step, measured before the stage may change them."""

    def __init__(self, tasks: Sequence[Task[Any]], observer: StepObserver) -> None:
        self.tasks = len(tasks)
        # The rows that were set aside are subtracted later.
        self.items, self.bytes, self.rows = measure(tasks)
        self.task_ids = ",".join(task.task_id for task in tasks)
        self.noun = tasks[0].noun if tasks else ""
        self.observer = observer

    def used_up(self) -> Consumed:
        """Return the same tasks with all sizes 0, because they have been counted."""
        rest = copy.copy(self)
        rest.tasks = rest.items = rest.bytes = rest.rows = 0
        return rest


def count(step: Step, counters: list[StageCounters], whole: StageCounters) -> None:
    """Add the counts of a step to the counters of the stages that were merged into it."""
    if len(counters) == 1:
        counters[0].add(whole)
        step.take_part_counts()
        return
    # A merged stage reports counts for each part; the rest is added to the first part.
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
    """Return the number of items, bytes and rows of some tasks."""
    items = size = rows = 0
    for task in tasks:
        count = task.num_items
        items += count
        size += task.num_bytes
        rows += count if count > 1 and type(task).select is not Task.select else 1
    return items, size, rows
