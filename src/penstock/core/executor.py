"""The executor protocol, and the default executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.task import Task

if TYPE_CHECKING:
    from penstock.core.pipeline import Pipeline


class Executor(Protocol):
    """Run a pipeline."""

    def execute(
        self,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Task[Any]]:
        """Run the pipeline and return the outputs of its last stage, in the order of the input."""
        ...


_default: list[Callable[[], Executor]] = []


def set_default_executor(factory: Callable[[], Executor]) -> None:
    """Set which executor runs a pipeline when the user names none. Core itself contains no executor."""
    _default[:] = [factory]


def default_executor() -> Executor:
    """Return the executor that runs a pipeline when the user names none."""
    return _default[0]()
