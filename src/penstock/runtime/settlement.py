"""When a source is complete: its results are taken in, what it set aside is written down, a checkpoint remembers it."""

from __future__ import annotations

from typing import Any

from penstock.core.rejection import Rejection
from penstock.core.task import Task
from penstock.runtime.completion import Completion, SourceRecord
from penstock.storage.journal import Journal
from penstock.storage.run_folder import RunFolder


class Settlement:
    """Which sources of a run are complete, and what they came to."""

    def __init__(self, folder: RunFolder, journal: Journal | None) -> None:
        self.on_its_way = Completion()
        self.sources_done = 0
        # Of those, the ones that an earlier run had completed.
        self.resumed = 0
        # What could not be processed of those.
        self.failed_before: list[Rejection] = []
        self._folder = folder
        self._journal = journal
        self._results: list[Task[Any]] = []

    def results(self) -> list[Task[Any]]:
        """Return what the last stage gave for complete sources, in the order of the input."""
        return sorted(self._results, key=lambda task: (task._order, task.task_id))

    def is_done(self, source_id: str) -> bool:
        """Tell whether an earlier run has completed this source; if so, take its results over."""
        if self._journal is None or source_id not in self._journal.done:
            return False
        record: SourceRecord = self._journal.done[source_id]
        self._settle(record)
        self.resumed += 1
        self.failed_before += [rejection for rejection in record.rejections if rejection.failed]
        return True

    def commit(self) -> None:
        """Settle what has become complete, and remember it if there is a checkpoint."""
        complete = self.on_its_way.take_complete()
        if complete and self._journal is not None:
            self._journal.commit(complete)
        for record in complete.values():
            self._settle(record)

    def _settle(self, record: SourceRecord) -> None:
        self._folder.add_dead_letters(record.rejections)
        self._results.extend(record.outputs)
        self.sources_done += 1
