"""Cutting tasks down to some of their rows, counted over several tasks in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.task import Task
from penstock.schedule.actions import Selection


def rows_of(task: Task[Any]) -> int:
    """Return into how many pieces a task could be cut; 1 for one that cannot."""
    return max(1, task.num_items) if type(task).select is not Task.select else 1


def count_rows(tasks: Sequence[Task[Any]]) -> int:
    """Return the rows of several tasks together."""
    return sum(rows_of(task) for task in tasks)


def apply_selection(tasks: Sequence[Task[Any]], selection: Selection, first: int = 0) -> list[Task[Any]]:
    """Return the tasks with only the selected rows; a task of which none is selected is left out.

    ``first`` is the number of the first row here, if others have gone before.

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
    """Return how many items one row of a task stands for: one, unless the task cannot be cut or is empty."""
    return 1 if rows_of(task) > 1 else task.num_items


def locate(tasks: Sequence[Task[Any]], row: int) -> tuple[Task[Any], int]:
    """Return the task a row belongs to, and its number there."""
    for task, first in _with_first_rows(tasks):
        if first <= row < first + rows_of(task):
            return task, row - first
    raise IndexError(f"row {row} of {count_rows(tasks)}")


def _with_first_rows(tasks: Sequence[Task[Any]]) -> Iterator[tuple[Task[Any], int]]:
    first = 0
    for task in tasks:
        yield task, first
        first += rows_of(task)
