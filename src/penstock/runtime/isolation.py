"""A stage that raises: try again, then find the rows it cannot process, and do the work without them."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.files import FileGroupTask
from penstock.core.task import Task
from penstock.errors import MissingColumnError, OutputError, PenstockError
from penstock.runtime.selection import apply_selection, count_rows
from penstock.schedule.recovery import Recovery

# More bad rows than that, or these many tries without a single good one, and it is the stage that is broken.
_MAX_BAD_ROWS = 100
_MAX_FAILURES_IN_A_ROW = 24
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
    bad_rows: list[int] = field(default_factory=list)
    error: Exception | None = None


def call_with_care(call: Call, tasks: Sequence[Task[Any]], max_attempts: int) -> Isolated:
    """Let a stage work on tasks; what it raises for costs only the rows that make it raise."""
    error: Exception | None = None
    for _ in range(max_attempts):
        try:
            return Isolated(call(_fresh(tasks)))
        except MissingColumnError as missing:
            if not any(isinstance(task, FileGroupTask) and task.num_items > 1 for task in tasks):
                raise  # a matter of the whole table
            error = missing  # or of one of several files
            break
        except PenstockError as systematic:
            error = systematic
            if _cause(systematic) is systematic:
                break  # said on purpose: trying again will not change it
        except Exception as trouble:
            error = trouble
    assert error is not None
    if stops_everybody(error):
        raise error
    rows = count_rows(tasks)
    if rows == 1:
        return Isolated(bad_rows=[0], error=error)
    return _search(call, tasks, rows, error)


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


def _search(call: Call, tasks: Sequence[Task[Any]], rows: int, error: Exception) -> Isolated:
    recovery = Recovery(step=0, rows=rows, max_attempts=1)
    passed = failures = 0
    while (probe := recovery.next_probe()) is not None:
        try:
            call(_fresh(apply_selection(tasks, probe)))
        except Exception as trouble:
            if stops_everybody(trouble):
                raise
            error = trouble
            failures += 1
            recovery.failed(str(trouble))
        else:
            passed += 1
            recovery.passed()
        broken = not passed and failures >= _MAX_FAILURES_IN_A_ROW
        if broken or len(recovery.bad) > _MAX_BAD_ROWS:
            return Isolated(bad_rows=list(range(rows)), error=error)
    [rest] = recovery.verdict()
    try:
        outputs = call(_fresh(apply_selection(tasks, rest))) if len(recovery.bad) < rows else []
    except Exception as trouble:
        if stops_everybody(trouble):
            raise
        # The rows are good one by one and bad together.
        return Isolated(bad_rows=list(range(rows)), error=trouble)
    return Isolated(outputs, sorted(recovery.bad), error)


def _fresh(tasks: Sequence[Task[Any]]) -> list[Task[Any]]:
    """Return copies, so that a stage that changes a task and then raises has not spoilt it for the next try."""
    copies = [copy.copy(task) for task in tasks]
    for task in copies:
        task._metadata, task._stage_perf = dict(task._metadata), list(task._stage_perf)
    return copies


def _cause(error: PenstockError) -> BaseException:
    return error.__cause__ or error
