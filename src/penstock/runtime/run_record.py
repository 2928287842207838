"""The books of a run: counts per stage, results, what was set aside, and which sources are complete."""

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

_KEPT_FAILURES = 20


class RunRecord:
    """Keeps account of one run on the driver."""

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
        # Whether the user gave the tasks the run begins with, instead of a first stage that makes them.
        self.given_sources = False
        self._plan = plan
        self._folder = folder
        self.failure_folder = failure_folder
        self.settlement = Settlement(folder, journal)
        self._on_its_way = self.settlement.on_its_way
        self._kept = 0
        # What is read more than once fails more than once: all of that is written down, but counted once.
        self._repetitions = {
            part.name for pool in plan.pools for step in pool.steps for part in step.parts() if part.is_repetition
        }
        self._failed_at_first: set[tuple[str, str]] = set()

    @property
    def failed(self) -> int:
        """How many rows could not be processed, in this run or in the one that it continues."""
        return self._failed + len(self.settlement.failed_before)

    @property
    def first_failure(self) -> Rejection | None:
        """The first row that could not be processed."""
        return self._first_failure or next(iter(self.settlement.failed_before), None)

    def count(self, pool: int, counters: Sequence[StageCounters]) -> None:
        """Add what a worker counted."""
        for total, counted in zip(self.counters[pool], counters, strict=False):
            total.add(counted)

    def emitted(self, outputs: Sequence[StoredTask], *, last: bool) -> None:
        """Note tasks that are on their way now; those of the last pool are at their end."""
        self._on_its_way.enter(outputs)
        if last:
            self._on_its_way.leave(outputs)

    def result(self, stored: StoredTask) -> None:
        """Take in one task that came out of the last pool."""
        self._on_its_way.output(stored.load())
        stored.remove()

    def done(self, inputs: Sequence[StoredTask], rejections: Sequence[Rejection]) -> None:
        """Note that a batch is finished: what it became has been noted before."""
        self._set_aside(inputs, rejections)
        self._leave(inputs)

    def write_down(self, rejections: Sequence[Rejection]) -> None:
        """Write down rows of a batch that ends the run: a checkpoint must not take it for done."""
        self._set_aside((), rejections)

    def give_up(self, pool: int, inputs: Sequence[StoredTask], error: str) -> None:
        """Write down all rows of a batch that no worker could process, when it is not known which of them are bad."""
        tasks = [stored.load() for stored in inputs]
        steps = self._plan.pools[pool].steps
        reproduce = self._keep(steps, tasks)
        rows = range(count_rows(tasks))
        rejections = [failure_of(steps[0], tasks, row, error, lambda *_: reproduce) for row in rows]
        self.conservation.given_up(pool, rejections)
        self._set_aside(inputs, rejections)
        self._leave(inputs)

    def _leave(self, inputs: Sequence[StoredTask]) -> None:
        self._on_its_way.leave([stored for stored in inputs if stored.sources])
        self.settlement.commit()

    def _set_aside(self, inputs: Sequence[StoredTask], rejections: Sequence[Rejection]) -> None:
        if not rejections:
            return
        failures = [rejection for rejection in rejections if rejection.failed and not self._is_repeated(rejection)]
        self._failed += len(failures)
        self._first_failure = self._first_failure or next(iter(failures), None)
        sources = next((stored.sources for stored in inputs if stored.sources), ())
        if sources:
            self._on_its_way.reject(sources[0], rejections)
        else:
            self._folder.add_dead_letters(rejections)

    def _is_repeated(self, rejection: Rejection) -> bool:
        """Tell whether a stage that reads again fails on what the one that read it first has failed on."""
        if rejection.stage in self._repetitions:
            return (rejection.source, rejection.reason) in self._failed_at_first
        if self._repetitions:
            self._failed_at_first.add((rejection.source, rejection.reason))
        return False

    def _keep(self, steps: Sequence[Step], tasks: Sequence[Task[Any]]) -> str:
        """Keep a batch that was given up, and return what to type to see it fail again."""
        self._kept += 1
        if self._kept > _KEPT_FAILURES:
            return ""
        return keep_failure(self.failure_folder / f"lost-{self._kept}.pickle", steps, tasks)
