"""Use a plain function as a stage."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task

StageFunction: TypeAlias = Callable[[Any], Any]


class FunctionStage(ProcessingStage[Task[Any], Task[Any]]):
    """A stage whose ``process`` is a function; calling it calls the function."""

    def __init__(self, function: StageFunction, name: str, resources: Resources, batch_size: int) -> None:
        self.function = function
        self.name = name
        self.resources = resources
        self.batch_size = batch_size
        self.__doc__ = function.__doc__

    def process(self, task: Task[Any]) -> Task[Any] | list[Task[Any]] | None:
        """Call the function."""
        result: Task[Any] | list[Task[Any]] | None = self.function(task)
        return result

    def __call__(self, task: Task[Any]) -> Task[Any] | list[Task[Any]] | None:
        """Call the function, as if it had not been decorated."""
        return self.process(task)

    def is_fanout_stage(self) -> bool:
        """Tell whether the return annotation of the function is a list."""
        return "list" in str(self.function.__annotations__.get("return", "")).lower()

    def task_types(self) -> tuple[Any, Any]:
        """Return the parameter and return types of the function's annotations."""
        try:
            hints = typing.get_type_hints(self.function)
        except NameError:  # a forward reference that only a type checker can see
            return Any, Any
        parameter = next(iter(inspect.signature(self.function).parameters))
        return hints.get(parameter, Any), hints.get("return", Any)


def processing_stage(
    *, name: str, resources: Resources | dict[str, float] | None = None, batch_size: int | None = None
) -> Callable[[StageFunction], FunctionStage]:
    """Turn a function of one task into a stage. It may return a task, a list of tasks, or None to drop it.

    >>> from penstock.core.documents import DocumentBatch
    >>> @processing_stage(name="first_ten", resources=Resources(cpus=0.5))
    ... def first_ten(task: DocumentBatch) -> DocumentBatch:
    ...     return DocumentBatch(task.dataset_name, task.to_pyarrow().slice(0, 10))
    >>> first_ten
    FunctionStage(name='first_ten', 0.5 CPU)
    """
    need = Resources(**resources) if isinstance(resources, dict) else resources or Resources()

    def decorate(function: StageFunction) -> FunctionStage:
        parameters = inspect.signature(function).parameters
        if len(parameters) != 1:
            raise ValueError(
                f"@processing_stage(name={name!r}): the function must take exactly one parameter, the task; "
                f"{getattr(function, '__name__', function)!s} takes {len(parameters)}: ({', '.join(parameters)})."
            )
        stage = FunctionStage(function, name, need, batch_size or 1)
        functools.update_wrapper(stage, function, updated=())
        return stage

    return decorate
