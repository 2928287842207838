"""A workflow: several pipelines, or one with phases, that are run together, and their result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.core.task import Task


@dataclass
class WorkflowRunResult:
    """The result of a workflow: the tasks of each pipeline, and metadata such as counts.

    >>> result = WorkflowRunResult("dedup")
    >>> result.add_metadata("num_duplicates", 3)
    >>> result.get_metadata("num_duplicates")
    3
    """

    workflow_name: str
    pipeline_tasks: dict[str, list[Task[Any]]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def add_pipeline_tasks(self, pipeline_name: str, tasks: list[Task[Any]] | None) -> None:
        """Store the output tasks of a pipeline."""
        self.pipeline_tasks[pipeline_name] = list(tasks or [])

    def add_metadata(self, key: str, value: Any) -> None:  # noqa: ANN401 - a number, mostly
        """Store one metadata value."""
        self.metadata[key] = value

    def extend_metadata(self, updates: dict[str, Any] | None = None) -> None:
        """Store several metadata values."""
        self.metadata.update(updates or {})

    def get_metadata(self, key: str) -> Any:  # noqa: ANN401
        """Return a metadata value; None if it was not stored."""
        return self.metadata.get(key)


class WorkflowBase:
    """Base class of workflows."""

    def run(self, *args: Any, **kwargs: Any) -> WorkflowRunResult:  # noqa: ANN401 - each has its own
        """Run the workflow and return its result."""
        raise NotImplementedError(f"{type(self).__name__} defines no run(self).")
