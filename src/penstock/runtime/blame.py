"""Turn an exception of a stage into an error that names the stage, the call, the task and the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.documents import DocumentBatch
from penstock.core.files import FILE_STARTS, PLACE_BITS
from penstock.core.rejection import MAX_EXCERPT, Rejection
from penstock.core.task import Task
from penstock.errors import MissingColumnError, PenstockError, StageError
from penstock.runtime.calling import Step
from penstock.runtime.code_place import cause_of, code_place
from penstock.runtime.selection import locate

_LONGEST_EXCERPT = 300


class blaming:  # noqa: N801 - reads as a word in a with statement
    """Convert an exception of a stage into a ``StageError`` that names the stage, the call and the task."""

    def __init__(self, step: Step, call: str, tasks: Sequence[Task[Any]] = ()) -> None:
        self._step, self._call, self._tasks = step, call, tasks

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, PenstockError):
            return
        where = ""
        if self._tasks:
            files = self._tasks[0]._metadata.get("source_files", [])
            names = ", ".join(task.task_id for task in self._tasks)
            where = f" on task {names}" + (f" (from {', '.join(files[:3])})" if files else "")
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        place = code_place(error)
        at = f" ({place})" if place is not None else ""
        raise StageError(f"stage '{self._step.name}': {self._call} failed{where}: {reason}{at}") from error


def require_inputs(step: Step, task: Task[Any]) -> None:
    """Raise if a task lacks an input that a stage declares; for a merged stage, name the part that needs it."""
    missing = step.missing_from(task)
    if missing:
        get_columns = getattr(task, "get_columns", list)
        to_blame = next((part for part in step.parts() if missing[0] in part.missing_from(task)), step)
        parameter = next(
            (key for key, value in vars(to_blame).items() if isinstance(value, str) and value == missing[0]), None
        )
        raise MissingColumnError(to_blame.name, missing[0], get_columns(), parameter)
    if not step.validate_input(task):
        raise ValueError(f"validate_input refused task {task!r}")


def failure_of(
    step: Step,
    tasks: Sequence[Task[Any]],
    row: int,
    why: str | Exception,
    keep: Callable[[Step, Task[Any]], str] | None,
) -> Rejection:
    """Describe one row that a stage cannot process.

    ``why`` is the exception of the stage, or a sentence about how the worker ended. ``keep`` stores the row and
    returns the command that reproduces the failure.
    """
    task, position = locate(tasks, row)
    alone = task.select([position]) or task
    source, number, byte = _origin(task, alone, position)
    return Rejection(
        stage=step.name,
        reason=str(why),
        source=source,
        position=number,
        byte=byte,
        excerpt=alone.excerpt(0)[:MAX_EXCERPT] if alone.num_items else repr(task),
        task_id=task.task_id,
        failed=True,
        reproduce=keep(step, alone) if keep is not None else "",
        cause=cause_of(why) if isinstance(why, Exception) else why.split(" (")[0].split("\n")[0],
    )


def _origin(task: Task[Any], alone: Task[Any], row: int) -> tuple[str, int | None, int | None]:
    """Return the file of a row, and its document number or byte offset in it; if unknown, its number in the task."""
    files = alone._metadata.get("source_files", [])
    all_files = ", ".join(files[:3])
    rows = task.source_rows if isinstance(task, DocumentBatch) else None
    if rows is None:
        return all_files, row, None
    number = int(rows[row])
    starts = task._metadata.get(FILE_STARTS, ())
    if starts is None:
        file = number >> PLACE_BITS
        return (files[file] if file < len(files) else all_files), None, number & ((1 << PLACE_BITS) - 1)
    first, file = max((start for start in starts if start[0] <= number), default=(0, 0))
    return (files[file] if starts and file < len(files) else all_files), number - first, None


def row_in_words(failure: Rejection) -> str:
    """Say which row failed: where it came from, and how it begins."""
    where = failure.source or f"task {failure.task_id}"
    if failure.excerpt == failure.source:  # the row is a file
        return where
    number = f", document {failure.position + 1:,}" if failure.position is not None else ""
    number = f", byte {failure.byte:,}" if failure.byte is not None else number
    cut = "…" if len(failure.excerpt) > _LONGEST_EXCERPT else ""
    return f"{where}{number}: {failure.excerpt[:_LONGEST_EXCERPT]}{cut}"
