"""A task: the unit that travels between stages. What it holds is the business of its subclass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from penstock.core.perf import StagePerfStats

T = TypeVar("T")


@dataclass(repr=False)
class Task(Generic[T]):
    """Some data on its way through a pipeline.

    ``task_id`` is given by the framework and follows from lineage alone (see ``lineage``). ``_metadata`` travels
    from parent to child without the stage doing anything for it.
    """

    # What the items inside are called in counts shown to a person.
    noun: ClassVar[str] = "items"

    dataset_name: str
    data: T
    _stage_perf: list[StagePerfStats] = field(default_factory=list)
    _metadata: dict[str, Any] = field(default_factory=dict)
    task_id: str = field(init=False, default="")
    # Where this task stands among all others, whatever order they finish in; see lineage.
    _order: tuple[int, ...] = field(init=False, default=())
    # The source tasks it descends from: what a checkpoint counts as done.
    _sources: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Refuse a payload of the wrong kind at once, where the user's code made it."""
        self.validate()

    @property
    def num_items(self) -> int:
        """How many items (documents, files, clips) the task holds."""
        return 1

    @property
    def num_bytes(self) -> int:
        """How many bytes the payload takes in memory."""
        return 0

    def validate(self) -> bool:
        """Raise if the payload is of the wrong kind."""
        return True

    def add_stage_perf(self, perf_stats: StagePerfStats) -> None:
        """Append what one stage cost."""
        self._stage_perf.append(perf_stats)

    def select(self, rows: Sequence[int]) -> Self | None:
        """Return a task of only these items, for finding the one that cannot be processed; None: cannot be cut."""
        return None

    def excerpt(self, row: int) -> str:
        """Return one item in words, for the dead-letter file."""
        return repr(self)

    def compacted(self) -> Self:
        """Return the task without memory it only drags along, such as the rest of a table it is a slice of."""
        return self

    def descend_from(self, parent: Task[Any]) -> None:
        """Take over from the parent what a stage cannot be asked to carry along, such as which row is which."""

    def get_deterministic_id(self) -> str | None:
        """Return an id that follows from the content, for tasks that come from a source; None: use the position."""
        return None

    def __copy__(self) -> Self:
        """Copy what it holds, not that; by hand, because the standard way takes ten times as long."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __repr__(self) -> str:
        """Name the task, not its payload: that may be gigabytes."""
        name = self.task_id or "not run yet"
        return f"{type(self).__name__}({name}, dataset={self.dataset_name!r}, {self.num_items} items)"


@dataclass(repr=False)
class EmptyTask(Task[None]):
    """What a source stage is given when the user passes no initial tasks."""

    dataset_name: str = ""
    data: None = None

    @property
    def num_items(self) -> int:
        """Nothing inside."""
        return 0
