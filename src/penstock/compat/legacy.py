"""Names that only older scripts use: ``Sequential`` and ``ToBackend``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.composite import CompositeStage
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.errors import suggestion

_BACKENDS = ("cudf", "pandas")


class ToBackend(ProcessingStage[Task[Any], Task[Any]]):
    """Gives every task on as it came.

    There is nothing to move: every stage gets Arrow data, and a stage that computes on a GPU takes there what it
    needs and brings its result back. So the line may stay in a script, and may be deleted.

    >>> ToBackend("cudf").process(Task("demo", data=1)).data
    1
    """

    name = "to_backend"

    def __init__(self, backend: str) -> None:
        if backend not in _BACKENDS:
            known = " or ".join(repr(name) for name in _BACKENDS)
            raise ValueError(f"ToBackend({backend!r}): expected {known}.{suggestion(str(backend), _BACKENDS)}")
        self.backend = backend

    def process(self, task: Task[Any]) -> Task[Any]:
        """Return the task itself."""
        return task


class Sequential(CompositeStage[Task[Any], Task[Any]]):
    """Stages one after the other, to be put into a pipeline as one.

    >>> from penstock import Pipeline
    >>> Pipeline("demo", stages=[Sequential([ToBackend("cudf"), ToBackend("pandas")])]).build()
    [ToBackend(name='to_backend', 1 CPU), ToBackend(name='to_backend', 1 CPU)]
    """

    name = "sequential"

    def __init__(self, stages: Sequence[ProcessingStage[Any, Any]]) -> None:
        if not stages:
            raise ValueError("Sequential([]): give at least one stage.")
        for stage in stages:
            if not isinstance(stage, ProcessingStage):
                raise TypeError(
                    f"Sequential takes stages, got {stage!r}. "
                    "Put @processing_stage(name=…) on a function; make an instance of a class."
                )
        self.stages = list(stages)

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stages it was given."""
        return self.stages
