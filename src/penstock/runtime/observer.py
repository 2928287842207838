"""The interface through which a worker reports what happens to documents, and an implementation that does nothing.

The ledger implements it to keep receipts. A worker without a ledger uses ``NullObserver``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.verdicts import Verdicts


class StepObserver(Protocol):
    """Observe one call of a step."""

    def gave(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> None:
        """Record outputs of the step, all of them or one of several parts, and the decisions of its filters."""
        ...

    def end(self, stage: ProcessingStage[Any, Any]) -> None:
        """Record that the step has emitted all outputs, so that documents without an output were dropped."""
        ...


class ChainObserver(Protocol):
    """Observe the documents that pass through a chain of steps; ``number`` is the position of a step."""

    # False while a probe runs: its results are discarded, so nothing of it may be written.
    writes: bool

    def forget(self) -> None:
        """Discard what was recorded for an unfinished batch."""
        ...

    def begin(self, number: int, tasks: Sequence[Task[Any]]) -> StepObserver:
        """Record the inputs of a step, before the stage may change them."""
        ...

    def left_out(self, number: int, before: Sequence[Task[Any]], after: Sequence[Task[Any]]) -> None:
        """Record documents that are excluded from a step, because an earlier attempt failed on them."""
        ...

    def failed(self, number: int, task: Task[Any], position: int) -> None:
        """Record a document that a step could not process."""
        ...

    def write(self) -> None:
        """Write what was recorded, at the end of a batch."""
        ...

    def close(self) -> None:
        """Close the files of the observer."""
        ...


class NullObserver:
    """Record nothing; implements both interfaces."""

    writes = False

    def forget(self) -> None:
        """Do nothing."""

    def begin(self, number: int, tasks: Sequence[Task[Any]]) -> StepObserver:
        """Return this object, which ignores the step as well."""
        return self

    def gave(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> None:
        """Do nothing."""

    def end(self, stage: ProcessingStage[Any, Any]) -> None:
        """Do nothing."""

    def left_out(self, number: int, before: Sequence[Task[Any]], after: Sequence[Task[Any]]) -> None:
        """Do nothing."""

    def failed(self, number: int, task: Task[Any], position: int) -> None:
        """Do nothing."""

    def write(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
