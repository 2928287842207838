"""Track which source tasks are complete: none of their descendants is still in flight.

Only then may a checkpoint record a source as done. Sources whose descendants were processed together into one result
form a group, and become complete together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.rejection import Rejection
from penstock.core.task import Task
from penstock.runtime.transport import StoredTask


@dataclass
class SourceRecord:
    """The results of a source."""

    outputs: list[Task[Any]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    # All sources that were completed together with this one, itself included.
    group: list[str] = field(default_factory=list)


class Completion:
    """Count the tasks in flight for each group of sources."""

    def __init__(self) -> None:
        self._pending: Counter[str] = Counter()
        self._leader: dict[str, str] = {}
        # The sources of each group by its leader, and the leaders whose count of tasks in flight has reached 0.
        self._members: dict[str, list[str]] = {}
        self._may_be_complete: dict[str, None] = {}
        self._records: dict[str, SourceRecord] = {}

    def enter(self, tasks: Iterable[Task[Any] | StoredTask]) -> None:
        """Count tasks that are now in flight."""
        for task in tasks:
            sources = _sources(task)
            self._link(sources)
            self._pending[self._find(sources[0])] += 1

    def leave(self, tasks: Iterable[Task[Any] | StoredTask]) -> None:
        """Discount tasks that have been processed; their outputs must have been entered before."""
        for task in tasks:
            leader = self._find(_sources(task)[0])
            self._pending[leader] -= 1
            if self._pending[leader] == 0:
                self._may_be_complete[leader] = None

    def finish(self, tasks: Sequence[Task[Any]]) -> None:
        """Record outputs of the last stage, which are no longer in flight."""
        for task in tasks:
            self.output(task)
        self.leave(tasks)

    def output(self, task: Task[Any]) -> None:
        """Record an output of the last stage, without changing the count of tasks in flight."""
        self._record(task._sources[0]).outputs.append(task)

    def reject(self, source: str, rejections: Sequence[Rejection]) -> None:
        """Record rejections of a source."""
        self._record(source).rejections.extend(rejections)

    def take_complete(self) -> dict[str, SourceRecord]:
        """Return the sources that have become complete, with their results, and forget them."""
        taken: dict[str, SourceRecord] = {}
        for leader in self._may_be_complete:
            if self._pending.get(leader) != 0:
                continue  # more tasks were entered since, or the group was merged into another one
            del self._pending[leader]
            members = self._members.pop(leader)
            for source in members:
                taken[source] = self._records.pop(source, SourceRecord())
                taken[source].group = members
                del self._leader[source]
        self._may_be_complete = {}
        return taken

    @property
    def unfinished(self) -> list[str]:
        """The sources with tasks in flight."""
        return [source for leader, count in self._pending.items() if count for source in self._members[leader]]

    def _record(self, source: str) -> SourceRecord:
        return self._records.setdefault(source, SourceRecord())

    def _find(self, source: str) -> str:
        if source not in self._leader:
            self._leader[source] = source
            self._members[source] = [source]
        while (leader := self._leader[source]) != source:
            source = leader
        return source

    def _link(self, sources: tuple[str, ...]) -> None:
        first = self._find(sources[0])
        for source in sources[1:]:
            other = self._find(source)
            if other != first:
                self._leader[other] = first
                self._members[first] += self._members.pop(other)
                self._pending[first] += self._pending.pop(other, 0)


def _sources(task: Task[Any] | StoredTask) -> tuple[str, ...]:
    return task.sources if isinstance(task, StoredTask) else task._sources
