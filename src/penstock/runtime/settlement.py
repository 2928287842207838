"""Commit a source when it is complete: take its results, write its dead letters, record it in the checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from penstock.core.files import FileGroupTask
from penstock.core.rejection import Rejection
from penstock.core.task import Task
from penstock.errors import CheckpointError
from penstock.runtime.completion import Completion, SourceRecord
from penstock.storage.journal import DoneGroup, Journal
from penstock.storage.plain_values import DamagedValue, NotPlain
from penstock.storage.run_folder import RunFolder
from penstock.storage.task_records import UnknownTaskClass, dump_result, load_result


class Settlement:
    """The complete sources of a run, and their results."""

    def __init__(self, folder: RunFolder, journal: Journal | None) -> None:
        self.in_flight = Completion()
        self.sources_done = 0
        # The number of these that an earlier run had completed.
        self.resumed = 0
        # The rejections of those.
        self.failed_before: list[Rejection] = []
        self._folder = folder
        self._journal = journal
        self._results: list[Task[Any]] = []
        # Groups of an earlier run, by their first source: the results taken over; None if they cannot be loaded.
        self._taken_over: dict[str, list[Task[Any]] | None] = {}
        self._has_warned = False

    def results(self) -> list[Task[Any]]:
        """Return the outputs of the last stage for complete sources, in the order of the input."""
        return sorted(self._results, key=lambda task: (task._order, task.task_id))

    def is_done(self, source_id: str) -> bool:
        """Tell whether an earlier run has completed this source; if so, take its results over."""
        journal = self._journal
        if journal is None:
            return False
        if journal.input is not None and journal.input.sources and source_id not in journal.input.sources:
            raise CheckpointError(
                f"checkpoint {journal.folder}: the input changed while the run started: source task '{source_id}' "
                "did not exist when the input was listed. Start the run again."
            )
        group = journal.done.get(source_id)
        if group is None or self._take_over(group) is None:
            return False
        self.sources_done += 1
        self.resumed += 1
        return True

    def commit(self) -> None:
        """Commit the sources that have become complete, also to the checkpoint if there is one."""
        complete = self.in_flight.take_complete()
        if complete and self._journal is not None:
            groups = [group for record in _first_of_each_group(complete) if (group := self._stored(record, complete))]
            if groups:
                self._journal.commit(groups)
        for record in complete.values():
            self._settle(record.outputs, record.rejections)
            self.sources_done += 1

    def _settle(self, outputs: list[Task[Any]], rejections: list[Rejection]) -> None:
        self._folder.add_dead_letters(rejections)
        self._results.extend(outputs)

    def _stored(self, record: SourceRecord, complete: Mapping[str, SourceRecord]) -> DoneGroup | None:
        """Return the checkpoint entry of a group; None, with a warning, if its results cannot be stored."""
        records = [complete[source] for source in record.group]
        outputs = [task for each in records for task in each.outputs]
        try:
            stored = tuple(dump_result(task) for task in outputs)
        except NotPlain as error:
            self._warn(f"{error}, which cannot be stored without pickle")
            return None
        files = [path for task in outputs if isinstance(task, FileGroupTask) for path in task.data]
        rejections = [rejection for each in records for rejection in each.rejections]
        return DoneGroup(tuple(record.group), stored, tuple(files), tuple(rejections))

    def _take_over(self, group: DoneGroup) -> list[Task[Any]] | None:
        """Take over the results of a group from an earlier run, once; None if it must be processed again."""
        first = group.sources[0]
        if first not in self._taken_over:
            try:
                outputs = [load_result(stored) for stored in group.outputs]
            except UnknownTaskClass as error:
                self._warn(f"the class {error} of a result is not imported in this program")
                self._taken_over[first] = None
            except DamagedValue as error:
                assert self._journal is not None
                raise CheckpointError(
                    f"{self._journal.path}: the results of source task '{first}' cannot be read: {error}. Use another "
                    f"checkpoint_path, or delete {self._journal.folder} to start again."
                ) from error
            else:
                self._place(group, outputs)
                self._taken_over[first] = outputs
                self._settle(outputs, list(group.rejections))
                self.failed_before += [rejection for rejection in group.rejections if rejection.failed]
        return self._taken_over[first]

    def _place(self, group: DoneGroup, outputs: list[Task[Any]]) -> None:
        """Give results the current position of their source: files before it may have been added or removed."""
        position = self._positions.get(group.sources[0])
        if len(group.sources) > 1 or position is None:
            return  # the sources of a group have not moved, or the run would have been refused
        for task in outputs:
            task._order = (*task._order[:1], position, *task._order[2:])

    @cached_property
    def _positions(self) -> dict[str, int]:
        listing = self._journal.input if self._journal is not None else None
        return {source: number for number, source in enumerate(listing.sources)} if listing is not None else {}

    def _warn(self, reason: str) -> None:
        """Print once why a resumed run processes sources again."""
        if not self._has_warned and self._journal is not None:
            self._has_warned = True
            print(
                f"checkpoint {self._journal.folder}: {reason}. Source tasks with such results are processed again "
                "when the run is resumed.",
                file=sys.stderr,
            )


def _first_of_each_group(complete: Mapping[str, SourceRecord]) -> list[SourceRecord]:
    return [record for source, record in complete.items() if record.group[0] == source]
