"""A task: the unit of data that is passed between stages. Subclasses define what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from penstock.core.perf import StagePerfStats

T = TypeVar("T")


@dataclass(repr=False)
class Task(Generic[T]):
    """A unit of data that is passed from stage to stage.

    The framework sets ``task_id`` from lineage alone (see ``lineage``) and copies ``_metadata`` from parent to child.

    >>> class Clip(Task[bytes]):
    ...     @property
    ...     def num_bytes(self) -> int:
    ...         return len(self.data)
    >>> Clip("demo", b"abc").num_bytes
    3
    """

    # What the items are called where their number is shown.
    noun: ClassVar[str] = "items"

    dataset_name: str
    data: T
    _stage_perf: list[StagePerfStats] = field(default_factory=list)
    _metadata: dict[str, Any] = field(default_factory=dict)
    task_id: str = field(init=False, default="")
    # Its position among all tasks, independent of the order in which they finish; see lineage.
    _order: tuple[int, ...] = field(init=False, default=())
    # The source tasks it descends from; a checkpoint records which of them are done.
    _sources: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Validate the payload where the user's code makes the task."""
        self.validate()

    @property
    def num_items(self) -> int:
        """The number of items (documents, files, clips) in the task."""
        return 1

    @property
    def num_bytes(self) -> int:
        """The size of the payload in memory, in bytes."""
        return 0

    def validate(self) -> bool:
        """Raise if the payload is of the wrong kind."""
        return True

    def add_stage_perf(self, perf_stats: StagePerfStats) -> None:
        """Append the record of one stage."""
        self._stage_perf.append(perf_stats)

    def select(self, rows: Sequence[int]) -> Self | None:
        """Return a task of only these items, to isolate one that cannot be processed; None if that is impossible."""
        return None

    def excerpt(self, row: int) -> str:
        """Return one item as text, for the dead-letter file."""
        return repr(self)

    def compacted(self) -> Self:
        """Return the task without unused memory, such as the rest of a table it is a slice of."""
        return self

    def descend_from(self, parent: Task[Any]) -> None:
        """Inherit from the parent what a stage does not pass on, such as the origin of each row."""

    def get_deterministic_id(self) -> str | None:
        """Return an id that follows from the content, for tasks that come from a source; None: use the position."""
        return None

    def __copy__(self) -> Self:
        """Copy the task, not its payload. Ten times faster than the default implementation of ``copy.copy``."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __repr__(self) -> str:
        """Return the id and size of the task, not its payload, which may be large."""
        name = self.task_id or "not run yet"
        return f"{type(self).__name__}({name}, dataset={self.dataset_name!r}, {self.num_items} items)"


@dataclass(repr=False)
class EmptyTask(Task[None]):
    """The input of a source stage when the user passes no initial tasks.

    >>> EmptyTask().num_items
    0
    """

    dataset_name: str = ""
    data: None = None

    @property
    def num_items(self) -> int:
        """Zero: the task holds nothing."""
        return 0
