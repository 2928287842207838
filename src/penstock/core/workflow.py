"""A workflow: several pipelines, or one with phases, that belong together, and what they came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.core.task import Task


@dataclass
class WorkflowRunResult:
    """What a workflow came to: the tasks of each pipeline, and numbers about it.

    >>> result = WorkflowRunResult("dedup")
    >>> result.add_metadata("num_duplicates", 3)
    >>> result.get_metadata("num_duplicates")
    3
    """

    workflow_name: str
    pipeline_tasks: dict[str, list[Task[Any]]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def add_pipeline_tasks(self, pipeline_name: str, tasks: list[Task[Any]] | None) -> None:
        """Keep what a pipeline gave."""
        self.pipeline_tasks[pipeline_name] = list(tasks or [])

    def add_metadata(self, key: str, value: Any) -> None:  # noqa: ANN401 - a number, mostly
        """Note a number."""
        self.metadata[key] = value

    def extend_metadata(self, updates: dict[str, Any] | None = None) -> None:
        """Note several numbers."""
        self.metadata.update(updates or {})

    def get_metadata(self, key: str) -> Any:  # noqa: ANN401
        """Return a number; None if nobody noted it."""
        return self.metadata.get(key)


class WorkflowBase:
    """Something that can be run as a whole."""

    def run(self, *args: Any, **kwargs: Any) -> WorkflowRunResult:  # noqa: ANN401 - each has its own
        """Run it."""
        raise NotImplementedError(f"{type(self).__name__} defines no run(self).")
