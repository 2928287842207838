"""A stage that raises: try again, then find the rows it cannot process, and do the work without them."""

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

# Mistakes in code, which another attempt does not mend. A single row is still tried twice: a service may have answered
# something unexpected.
_MISTAKES = (LookupError, TypeError, AttributeError, NameError, ImportError, NotImplementedError, ZeroDivisionError)
_ATTEMPTS_AT_A_MISTAKE = 2
# No disk is left to write to, whoever tries; and where output cannot be written, nothing else can be written there.
_NO_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_NO_OUTPUT = _NO_DISK | {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}

# An iterator is given on as it is: what it raises comes later, and is the business of whoever asks it for the next.
Outputs = list[Task[Any]] | Iterator[Task[Any]]
Call = Callable[[list[Task[Any]]], Outputs]


@dataclass
class Isolated:
    """What came out, and which rows could not be processed."""

    outputs: Outputs = field(default_factory=list)
    # With what the stage raised for each.
    bad_rows: dict[int, Exception] = field(default_factory=dict)


def call_with_care(call: Call, tasks: Sequence[Task[Any]], max_attempts: int) -> Isolated:
    """Let a stage work on tasks; what it raises for costs only the rows that make it raise."""
    rows = count_rows(tasks)
    error: Exception | None = None
    for attempt in range(1, max_attempts + 1):
        try:
            return Isolated(call(_fresh(tasks)))
        except PenstockError as trouble:
            error = trouble
            if trouble.__cause__ is None:
                break  # said on purpose: trying again will not change it
        except Exception as trouble:
            error = trouble
        # Where there are rows to search, the search tries each again.
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
    """Add to what a stage raises one row that it raises for, found by halving: at most as much work again.

    Only for errors that say that the code or a row is wrong, and a stage that writes is not called again.
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
    """Return a row for which a stage fails alone as it did for all; None if there is none."""

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
    """Tell whether no task is to blame: nothing can be written any more, and it would be no use to go on without some.

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
        if recovery.is_hopeless and not recovery.has_passed:  # it is the stage that is broken
            recovery.give_up()
    bad = {row: found.get(row, error) for row in sorted(recovery.bad)}
    [rest] = recovery.verdict()
    try:
        outputs = call(_fresh(apply_selection(tasks, rest))) if len(bad) < recovery.rows else []
    except Exception as trouble:
        if stops_everybody(trouble):
            raise
        # The rows are good one by one and bad together.
        return Isolated(bad_rows={row: bad.get(row, trouble) for row in range(recovery.rows)})
    return Isolated(outputs, bad)


def _fresh(tasks: Sequence[Task[Any]]) -> list[Task[Any]]:
    """Return copies, so that a stage that changes a task and then raises has not spoilt it for the next try."""
    copies = [copy.copy(task) for task in tasks]
    for task in copies:
        task._metadata, task._stage_perf = dict(task._metadata), list(task._stage_perf)
    return copies
