"""Whose fault it was: what a stage raises, told with the stage, the call, the task and the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.rejection import MAX_EXCERPT, Rejection
from penstock.core.task import Task
from penstock.errors import MissingColumnError, PenstockError, StageError
from penstock.runtime.calling import Step
from penstock.runtime.selection import locate


class blaming:  # noqa: N801 - reads as a word in a with statement
    """Turn what a stage raises into an error that names the stage, the call and the task."""

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
        raise StageError(f"stage '{self._step.name}': {self._call} failed{where}: {reason}") from error


def require_inputs(step: Step, task: Task[Any]) -> None:
    """Raise if a task lacks what a stage says it needs, and name the one of several that says so."""
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
    error: Exception | None,
    keep: Callable[[Step, Task[Any]], str] | None,
) -> Rejection:
    """Describe one row that a stage cannot process; ``keep`` puts it aside, and returns what to type to see it fail."""
    task, position = locate(tasks, row)
    alone = task.select([position]) or task
    return Rejection(
        stage=step.name,
        reason=str(error),
        source=", ".join(alone._metadata.get("source_files", [])[:3]),
        position=position,
        excerpt=task.excerpt(position)[:MAX_EXCERPT],
        task_id=task.task_id,
        failed=True,
        reproduce=keep(step, alone) if keep is not None else "",
    )
