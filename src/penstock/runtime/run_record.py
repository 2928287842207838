"""Record of a run on the driver: counts per stage, results, rejections, and which sources are complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.core.counters import StageCounters
from penstock.core.rejection import Rejection
from penstock.core.task import Task
from penstock.plan.plan import Plan
from penstock.runtime.blame import failure_of
from penstock.runtime.calling import Step
from penstock.runtime.conservation import Conservation
from penstock.runtime.reproduction import keep_failure
from penstock.runtime.selection import count_rows
from penstock.runtime.settlement import Settlement
from penstock.runtime.systematic import Systematic
from penstock.runtime.transport import StoredTask
from penstock.storage.journal import Journal
from penstock.storage.run_folder import RunFolder

_MAX_KEPT_FAILURES = 20


class RunRecord:
    """Collect the counts, results and rejections of one run."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        journal: Journal | None,
        failure_folder: Path,
        *,
        ignores_failures: bool = False,
    ) -> None:
        self.counters = [
            [StageCounters(part.name) for step in pool.steps for part in step.parts()] for pool in plan.pools
        ]
        self.conservation = Conservation([[len(step.parts()) for step in pool.steps] for pool in plan.pools])
        self.systematic = Systematic(plan.pools, ignores_failures=ignores_failures)
        self._failed = 0
        self._first_failure: Rejection | None = None
        # True if the user passed the initial tasks, instead of a source stage that makes them.
        self.given_sources = False
        self._plan = plan
        self._folder = folder
        self.failure_folder = failure_folder
        self.settlement = Settlement(folder, journal)
        self._in_flight = self.settlement.in_flight
        self._kept = 0
        # Stages that read the same input again. Their failures are all recorded, but counted once.
        self._repetitions = {
            part.name for pool in plan.pools for step in pool.steps for part in step.parts() if part.is_repetition
        }
        self._failed_at_first: set[tuple[str, str]] = set()

    @property
    def failed(self) -> int:
        """The number of rows that could not be processed, in this run and in the one that it resumes."""
        return self._failed + len(self.settlement.failed_before)

    @property
    def first_failure(self) -> Rejection | None:
        """The first row that could not be processed."""
        return self._first_failure or next(iter(self.settlement.failed_before), None)

    def count(self, pool: int, counters: Sequence[StageCounters]) -> None:
        """Add the counters of a worker."""
        for total, counted in zip(self.counters[pool], counters, strict=False):
            total.add(counted)

    def emitted(self, outputs: Sequence[StoredTask], *, last: bool) -> None:
        """Record tasks that are now in flight; outputs of the last pool are not."""
        self._in_flight.enter(outputs)
        if last:
            self._in_flight.leave(outputs)

    def result(self, stored: StoredTask) -> None:
        """Take one output of the last pool as a result."""
        self._in_flight.output(stored.load())
        stored.remove()

    def done(self, inputs: Sequence[StoredTask], rejections: Sequence[Rejection]) -> None:
        """Record that a batch is finished; its outputs must have been recorded before."""
        self._set_aside(inputs, rejections)
        self._leave(inputs)

    def write_down(self, rejections: Sequence[Rejection]) -> None:
        """Record rejections of a batch that ends the run, without marking the batch as done in a checkpoint."""
        self._set_aside((), rejections)

    def give_up(self, pool: int, inputs: Sequence[StoredTask], error: str) -> None:
        """Reject all rows of a batch that no worker could process, because the bad rows are unknown."""
        tasks = [stored.load() for stored in inputs]
        steps = self._plan.pools[pool].steps
        reproduce = self._keep(steps, tasks)
        rows = range(count_rows(tasks))
        rejections = [failure_of(steps[0], tasks, row, error, lambda *_: reproduce) for row in rows]
        self.conservation.given_up(pool, rejections)
        self._set_aside(inputs, rejections)
        self._leave(inputs)

    def _leave(self, inputs: Sequence[StoredTask]) -> None:
        self._in_flight.leave([stored for stored in inputs if stored.sources])
        self.settlement.commit()

    def _set_aside(self, inputs: Sequence[StoredTask], rejections: Sequence[Rejection]) -> None:
        if not rejections:
            return
        failures = [rejection for rejection in rejections if rejection.failed and not self._is_repeated(rejection)]
        self._failed += len(failures)
        self._first_failure = self._first_failure or next(iter(failures), None)
        sources = next((stored.sources for stored in inputs if stored.sources), ())
        if sources:
            self._in_flight.reject(sources[0], rejections)
        else:
            self._folder.add_dead_letters(rejections)

    def _is_repeated(self, rejection: Rejection) -> bool:
        """Tell whether a stage that reads an input again repeats the failure of the stage that read it first."""
        if rejection.stage in self._repetitions:
            return (rejection.source, rejection.reason) in self._failed_at_first
        if self._repetitions:
            self._failed_at_first.add((rejection.source, rejection.reason))
        return False

    def _keep(self, steps: Sequence[Step], tasks: Sequence[Task[Any]]) -> str:
        """Store a batch that was given up, and return the command that reproduces its failure."""
        self._kept += 1
        if self._kept > _MAX_KEPT_FAILURES:
            return ""
        return keep_failure(self.failure_folder / f"lost-{self._kept}.pickle", steps, tasks)
