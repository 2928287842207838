"""Retry a stage that raises, find the rows that it cannot process, and process the others without them."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from penstock.core.files import FileGroupTask
from penstock.core.task import Task
from penstock.errors import MissingColumnError, OutputError, PenstockError, StageError
from penstock.runtime.blame import failure_of, row_in_words
from penstock.runtime.calling import Step
from penstock.runtime.code_place import cause_of
from penstock.runtime.selection import apply_selection, count_rows, rows_of
from penstock.schedule.actions import Selection
from penstock.schedule.recovery import Recovery

# Programming errors, which a retry does not fix. A single row is still tried twice: a service may have sent an
# unexpected answer.
_MISTAKES = (LookupError, TypeError, AttributeError, NameError, ImportError, NotImplementedError, ZeroDivisionError)
_ATTEMPTS_AT_A_MISTAKE = 2
# Errors that every later write would raise too: first for any file, then for files of the output folder.
_NO_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_NO_OUTPUT = _NO_DISK | {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}

# An iterator is passed on as it is. Exceptions that it raises later are handled by the code that consumes it.
Outputs = list[Task[Any]] | Iterator[Task[Any]]
Call = Callable[[list[Task[Any]]], Outputs]


@dataclass
class Isolated:
    """The outputs of a call, and the rows that could not be processed."""

    outputs: Outputs = field(default_factory=list)
    # Row number -> the exception of the stage.
    bad_rows: dict[int, Exception] = field(default_factory=dict)


def call_with_care(call: Call, tasks: Sequence[Task[Any]], max_attempts: int) -> Isolated:
    """Call a stage on tasks; if it raises, retry, and then exclude only the rows that make it raise."""
    rows = count_rows(tasks)
    error: Exception | None = None
    for attempt in range(1, max_attempts + 1):
        try:
            return Isolated(call(_fresh(tasks)))
        except PenstockError as trouble:
            error = trouble
            if trouble.__cause__ is None:
                break  # raised by Penstock itself: a retry does not change it
        except Exception as trouble:
            error = trouble
        # With several rows, the search below tries each of them again.
        if isinstance(error.__cause__, _MISTAKES) and (rows > 1 or attempt >= _ATTEMPTS_AT_A_MISTAKE):
            break
    assert error is not None
    if stops_everybody(error):
        raise error
    if rows == 1:
        return Isolated(bad_rows={0: error})
    whole_tables = isinstance(error, MissingColumnError) and not any(isinstance(task, FileGroupTask) for task in tasks)
    if whole_tables and len(tasks) == 1:
        return Isolated(bad_rows=dict.fromkeys(range(rows), error))
    cuts = tuple(accumulate(map(rows_of, tasks))) if whole_tables else None
    return _search(call, tasks, Recovery(step=0, rows=rows, max_attempts=1, cuts=cuts), error)


@contextmanager
def naming_the_row(step: Step, call: Call, tasks: Sequence[Task[Any]]) -> Iterator[None]:
    """Add to an exception of a stage one row that causes it, found by bisection: at most doubles the work.

    Only for errors that point to the code or to a row. A stage that writes is not called again.
    """
    try:
        yield
    except StageError as error:
        is_reproducible = isinstance(error.__cause__, (*_MISTAKES, ValueError)) and step.writes_to() is None
        row = _bad_row(call, tasks, cause_of(error)) if is_reproducible else None
        if row is None:
            raise
        named = StageError(f"{error}\n  The row: {row_in_words(failure_of(step, tasks, row, error, None))}")
        raise named.with_traceback(error.__traceback__) from error.__cause__


def _bad_row(call: Call, tasks: Sequence[Task[Any]], cause: str) -> int | None:
    """Return a row on which a stage fails alone with the same cause as on all rows; None if there is none."""

    def fails(start: int, stop: int) -> bool:
        try:
            call(_fresh(apply_selection(tasks, Selection(0, start, stop))))
        except Exception as trouble:
            return cause_of(trouble) == cause
        return False

    start, stop = 0, count_rows(tasks)
    if stop == 1:
        return 0
    while stop - start > 1:
        middle = (start + stop) // 2
        start, stop = (start, middle) if fails(start, middle) else (middle, stop)
    return start if fails(start, stop) else None


def stops_everybody(error: BaseException) -> bool:
    """Tell whether every later task would fail too, because nothing can be written any more.

    >>> full = OSError(errno.ENOSPC, "No space left on device")
    >>> stops_everybody(full), stops_everybody(OSError(errno.EACCES, "Permission denied"))
    (True, False)
    """
    codes = _NO_OUTPUT if isinstance(error, OutputError) else _NO_DISK
    if isinstance(error, OSError):
        return error.errno in codes
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in codes


def _search(call: Call, tasks: Sequence[Task[Any]], recovery: Recovery, error: Exception) -> Isolated:
    found: dict[int, Exception] = {}
    while (probe := recovery.next_probe()) is not None:
        try:
            call(_fresh(apply_selection(tasks, probe)))
        except Exception as trouble:
            if stops_everybody(trouble):
                raise
            error = trouble
            recovery.failed(str(trouble))
            for row in reversed(recovery.bad):  # the last ones are new
                if row in found:
                    break
                found[row] = trouble
        else:
            recovery.passed()
        if recovery.is_hopeless and not recovery.has_passed:  # the stage fails on every row
            recovery.give_up()
    bad = {row: found.get(row, error) for row in sorted(recovery.bad)}
    [rest] = recovery.verdict()
    try:
        outputs = call(_fresh(apply_selection(tasks, rest))) if len(bad) < recovery.rows else []
    except Exception as trouble:
        if stops_everybody(trouble):
            raise
        # Each row passes alone, but they fail together.
        return Isolated(bad_rows={row: bad.get(row, trouble) for row in range(recovery.rows)})
    return Isolated(outputs, bad)


def _fresh(tasks: Sequence[Task[Any]]) -> list[Task[Any]]:
    """Return copies: a stage that changes a task and then raises must not affect the next attempt."""
    copies = [copy.copy(task) for task in tasks]
    for task in copies:
        task._metadata, task._stage_perf = dict(task._metadata), list(task._stage_perf)
    return copies
