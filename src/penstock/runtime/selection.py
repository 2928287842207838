"""Select rows of tasks, numbered across several consecutive tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.task import Task
from penstock.schedule.actions import Selection


def rows_of(task: Task[Any]) -> int:
    """Return the number of rows that a task can be split into; 1 if it cannot be split."""
    return max(1, task.num_items) if type(task).select is not Task.select else 1


def count_rows(tasks: Sequence[Task[Any]]) -> int:
    """Return the total number of rows of several tasks."""
    return sum(rows_of(task) for task in tasks)


def apply_selection(tasks: Sequence[Task[Any]], selection: Selection, first: int = 0) -> list[Task[Any]]:
    """Return the tasks with only the selected rows; omit a task without a selected row.

    ``first`` is the number of the first row of these tasks.

    >>> from penstock.testing import make_batch
    >>> both = [make_batch(["a", "b"]), make_batch(["c", "d"])]
    >>> [task.num_items for task in apply_selection(both, Selection(start=1, stop=3))]
    [1, 1]
    """
    without = set(selection.without)
    selected: list[Task[Any]] = []
    for task, begin in _with_first_rows(tasks):
        number = first + begin
        count = rows_of(task)
        stop = count if selection.stop is None else min(count, selection.stop - number)
        rows = [row for row in range(max(0, selection.start - number), stop) if number + row not in without]
        if len(rows) == count:
            selected.append(task)
        elif rows and (part := task.select(rows)) is not None:
            selected.append(part)
    return selected


def items_at(task: Task[Any], row: int) -> int:
    """Return the number of items in one row of a task: one, unless the task cannot be split or is empty."""
    return 1 if rows_of(task) > 1 else task.num_items


def locate(tasks: Sequence[Task[Any]], row: int) -> tuple[Task[Any], int]:
    """Return the task that contains a row, and the number of the row in it."""
    for task, first in _with_first_rows(tasks):
        if first <= row < first + rows_of(task):
            return task, row - first
    raise IndexError(f"row {row} of {count_rows(tasks)}")


def _with_first_rows(tasks: Sequence[Task[Any]]) -> Iterator[tuple[Task[Any], int]]:
    first = 0
    for task in tasks:
        yield task, first
        first += rows_of(task)
