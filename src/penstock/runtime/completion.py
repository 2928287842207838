"""Which source tasks are complete: nothing that descends from them is still on its way.

A checkpoint may call a source done only then. Sources whose descendants were processed together into one
result stand and fall together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.rejection import Rejection
from penstock.core.task import Task
from penstock.runtime.transport import Stored


@dataclass
class SourceRecord:
    """What a source came to."""

    outputs: list[Task[Any]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)


class Completion:
    """Counts what is on its way for each group of sources."""

    def __init__(self) -> None:
        self._pending: Counter[str] = Counter()
        self._leader: dict[str, str] = {}
        self._records: dict[str, SourceRecord] = {}

    def enter(self, tasks: Iterable[Task[Any] | Stored]) -> None:
        """Note tasks that are on their way."""
        for task in tasks:
            sources = _sources(task)
            self._link(sources)
            self._pending[self._find(sources[0])] += 1

    def leave(self, tasks: Iterable[Task[Any] | Stored]) -> None:
        """Note tasks that have been worked on; what they became has been entered before."""
        for task in tasks:
            self._pending[self._find(_sources(task)[0])] -= 1

    def finish(self, tasks: Sequence[Task[Any]]) -> None:
        """Note tasks that came out of the last stage."""
        for task in tasks:
            self.output(task)
        self.leave(tasks)

    def output(self, task: Task[Any]) -> None:
        """Note a task that came out of the last stage; that it was on its way is noted apart."""
        self._record(task._sources[0]).outputs.append(task)

    def reject(self, source: str, rejections: Sequence[Rejection]) -> None:
        """Note records of a source that were set aside."""
        self._record(source).rejections.extend(rejections)

    def take_complete(self) -> dict[str, SourceRecord]:
        """Return the sources that have become complete, with what they came to, and forget them."""
        complete = {leader for leader, count in self._pending.items() if count == 0}
        taken: dict[str, SourceRecord] = {}
        for source in [source for source in self._leader if self._find(source) in complete]:
            taken[source] = self._records.pop(source, SourceRecord())
        for source in taken:
            del self._leader[source]
        for leader in complete:
            del self._pending[leader]
        return taken

    def _record(self, source: str) -> SourceRecord:
        return self._records.setdefault(source, SourceRecord())

    def _find(self, source: str) -> str:
        while (leader := self._leader.setdefault(source, source)) != source:
            source = leader
        return source

    def _link(self, sources: tuple[str, ...]) -> None:
        first = self._find(sources[0])
        for source in sources[1:]:
            other = self._find(source)
            if other != first:
                self._leader[other] = first
                self._pending[first] += self._pending.pop(other, 0)


def _sources(task: Task[Any] | Stored) -> tuple[str, ...]:
    return task.sources if isinstance(task, Stored) else task._sources
