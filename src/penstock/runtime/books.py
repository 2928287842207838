"""The books of a run: counts per stage, results, what was set aside, and which sources are complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.core.counters import StageCounters
from penstock.core.rejection import MAX_EXCERPT, Rejection
from penstock.core.task import Task
from penstock.plan.plan import Plan, Pool
from penstock.runtime.reproduction import keep_failure
from penstock.runtime.selection import apply_selection, locate, rows_of
from penstock.runtime.settlement import Settlement
from penstock.runtime.transport import Stored
from penstock.schedule.actions import DeadLetter, Selection
from penstock.storage.journal import Journal
from penstock.storage.run_folder import RunFolder

_KEPT_FAILURES = 20


class Books:
    """Keeps account of one run on the driver."""

    def __init__(self, plan: Plan, folder: RunFolder, journal: Journal | None, failure_folder: Path) -> None:
        self.counters = [
            [StageCounters(part.name) for step in pool.steps for part in step.parts()] for pool in plan.pools
        ]
        self.failed = 0
        self.first_failure: Rejection | None = None
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

    def count(self, pool: int, counters: Sequence[StageCounters]) -> None:
        """Add what a worker counted."""
        for total, counted in zip(self.counters[pool], counters, strict=False):
            total.add(counted)

    def emitted(self, outputs: Sequence[Stored], *, last: bool) -> None:
        """Note tasks that are on their way now; those of the last pool are at their end."""
        self._on_its_way.enter(outputs)
        if last:
            self._on_its_way.leave(outputs)

    def result(self, stored: Stored) -> None:
        """Take in one task that came out of the last pool."""
        self._on_its_way.output(stored.load())
        stored.remove()

    def done(self, inputs: Sequence[Stored], rejections: Sequence[Rejection], *, probe: bool) -> None:
        """Note that a batch is finished: what it became has been noted before."""
        if probe:
            return
        self._set_aside(inputs, rejections)
        self._leave(inputs)

    def dead_letter(self, pool: Pool, inputs: Sequence[Stored], letter: DeadLetter, *, closes: bool) -> None:
        """Write down rows that killed their worker; with ``closes`` the whole batch is given up."""
        tasks = [stored.load() for stored in inputs]
        step = pool.steps[min(letter.step, len(pool.steps) - 1)]
        rows = letter.rows if letter.rows is not None and letter.step == 0 else None
        names = [part.name for part in step.parts()]
        stage = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        rejections = []
        for row in rows if rows is not None else range(len(tasks)):
            task, position = locate(tasks, row) if rows is not None else (tasks[row], 0)
            where = "" if letter.rows is None or rows is not None else f" (rows {list(letter.rows)[:10]} at that stage)"
            rejections.append(
                Rejection(
                    stage=stage,
                    reason=f"{letter.error}{where}",
                    source=", ".join(task._metadata.get("source_files", [])[:3]),
                    position=position if rows is not None else None,
                    excerpt=task.excerpt(position)[:MAX_EXCERPT] if rows_of(task) > position else repr(task),
                    task_id=task.task_id,
                    failed=True,
                    reproduce=self._keep(pool, tasks, letter),
                )
            )
        self._set_aside(inputs, rejections)
        if closes:
            self._leave(inputs)

    def _leave(self, inputs: Sequence[Stored]) -> None:
        self._on_its_way.leave([stored for stored in inputs if stored.sources])
        self.settlement.commit()

    def _set_aside(self, inputs: Sequence[Stored], rejections: Sequence[Rejection]) -> None:
        if not rejections:
            return
        failures = [rejection for rejection in rejections if rejection.failed and not self._is_repeated(rejection)]
        self.failed += len(failures)
        self.first_failure = self.first_failure or next(iter(failures), None)
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

    def _keep(self, pool: Pool, tasks: Sequence[Task[Any]], letter: DeadLetter) -> str:
        """Keep what killed a worker, and return what to type to see it again."""
        self._kept += 1
        if self._kept > _KEPT_FAILURES:
            return ""
        path = self.failure_folder / f"lost-{self._kept}.pickle"
        chosen = list(tasks)
        if letter.rows is not None and letter.step == 0:
            others = set(range(sum(rows_of(task) for task in tasks))) - set(letter.rows)
            chosen = apply_selection(tasks, Selection(without=tuple(others)))
        return keep_failure(path, pool.steps, chosen)
