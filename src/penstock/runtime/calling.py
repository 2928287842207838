"""Call a stage, check what it returns, and assign ids to the returned tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.lineage import adopt_anew, adopt_jointly, adopt_many, adopt_nth, adopt_one
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task

Step = ProcessingStage[Any, Any]


def call_stage(step: Step, tasks: list[Task[Any]]) -> list[Task[Any]] | Iterator[Task[Any]]:
    """Call a stage on a chunk of tasks, and assign ids to the tasks that it returns."""
    results: Sequence[Any]
    if step.supports_batch_processing():
        results = step.process_batch(tasks)
        if not isinstance(results, list | tuple):
            raise TypeError(f"process_batch must return a list, got {type(results).__name__}")
    else:
        results = [step.process(task) for task in tasks]
    if any(isinstance(result, Iterator) for result in results):
        if len(results) != len(tasks):
            raise TypeError(
                f"process_batch returned {len(results)} iterators for {len(tasks)} tasks; return one per task"
            )
        return _one_by_one(tasks, results)
    for result in results:
        _require_tasks(result)
    if step.begins_anew:
        begun = [child for result in results for child in _listed(result)]
        adopt_anew(step.name, tasks, begun)
        return begun
    if results and all(any(result is task for task in tasks) for result in results):
        return list(results)  # a selection of its inputs: each keeps its id
    if len(results) == len(tasks):
        return [child for task, result in zip(tasks, results, strict=True) for child in _adopt(task, result)]
    flat = [child for result in results for child in _listed(result)]
    if len(tasks) == 1:
        return _adopt(tasks[0], flat)
    adopt_jointly(tasks, flat)
    return flat


def _one_by_one(tasks: Sequence[Task[Any]], results: Sequence[Any]) -> Iterator[Task[Any]]:
    """Assign the tasks of an iterator the same ids as those of a list would get, one at a time."""
    for task, result in zip(tasks, results, strict=True):
        if not isinstance(result, Iterator):
            _require_tasks(result)
            yield from _adopt(task, result)
            continue
        position = 0
        while (child := next(result, None)) is not None:
            _require_tasks(child)
            adopt_nth(task, child, position)
            handed_over, child = [child], None
            yield handed_over.pop()  # no reference is kept here while later steps process it
            position += 1


def _adopt(parent: Task[Any], result: Task[Any] | list[Task[Any]] | None) -> list[Task[Any]]:
    if result is None:
        return []
    if isinstance(result, list):
        adopt_many(parent, result)
        return result
    adopt_one(parent, result)
    return [result]


def _listed(result: Task[Any] | list[Task[Any]] | None) -> list[Task[Any]]:
    if result is None:
        return []
    return result if isinstance(result, list) else [result]


def _require_tasks(result: Any) -> None:  # noqa: ANN401 - a user's stage may return anything
    for task in _listed(result):
        if not isinstance(task, Task):
            got = f"{type(task).__name__}: {task!r:.80}"
            raise TypeError(f"a stage returns a task, a list or an iterator of tasks, or None; got {got}")
