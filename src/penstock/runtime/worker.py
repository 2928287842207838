"""Run tasks through the chain of stages of one pool, count what each stage does, and assign ids to the outputs."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from penstock.core.counters import StageCounters
from penstock.core.perf import StagePerfStats
from penstock.core.rejection import Rejection
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import PenstockError
from penstock.runtime.blame import blaming, failure_of, require_inputs
from penstock.runtime.calling import Step, call_stage
from penstock.runtime.isolation import call_with_care, naming_the_row
from penstock.runtime.observer import ChainObserver, NullObserver
from penstock.runtime.selection import apply_selection, count_rows, items_at, locate
from penstock.runtime.tally import Consumed, count, measure
from penstock.schedule.actions import Selection


@dataclass
class ChainResult:
    """The outputs and rejections of one call of a chain: everything that leaves a worker."""

    outputs: list[Task[Any]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)


class ChainRunner:
    """Run tasks through the steps of one pool, in this process.

    Without ``max_attempts`` an exception of a stage is raised at once, for use in a debugger. With it the stage is
    called again, and rows that it cannot process are set aside.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        max_attempts: int | None = None,
        on_step: Callable[[int, int], None] | None = None,
        keep_failure: Callable[[Step, Task[Any]], str] | None = None,
        observer: ChainObserver | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._steps = list(steps)
        self._max_attempts = max_attempts
        # Called with the step that begins and its number of rows: the position survives if the process dies.
        self._on_step = on_step
        # Stores a task that a stage failed on, and returns the command that reproduces the failure.
        self._keep_failure = keep_failure
        # Records what each stage decided about each document; without one, stages need not report verdicts.
        self._observer = observer if observer is not None else NullObserver()
        self._is_observed = observer is not None
        self._clock = clock
        self._started: list[Step] = []
        self._counters = [[StageCounters(part.name) for part in step.parts()] for step in self._steps]
        self._rejections: list[Rejection] = []
        # Per step, the rows of the current batch that have reached it.
        self._rows_seen: list[int] = []
        self._probed_step: int | None = None

    @property
    def counters(self) -> list[StageCounters]:
        """The totals of each stage of the user's pipeline, in order."""
        return [counters for step in self._counters for counters in step]

    @property
    def step_counters(self) -> list[StageCounters]:
        """The totals of each step; for a merged step, those of its first stage, which counts the rows for all."""
        return [step[0] for step in self._counters]

    def take_counters(self) -> list[StageCounters]:
        """Return the totals since the last call, and reset them."""
        taken = self.counters
        self._counters = [[StageCounters(counter.stage) for counter in step] for step in self._counters]
        return taken

    def start(self, node: NodeInfo, metadata: WorkerMetadata) -> None:
        """Prepare the node, then set the stages up."""
        self.prepare_node(node, metadata)
        self.set_up(metadata)

    def prepare_node(self, node: NodeInfo, metadata: WorkerMetadata) -> None:
        """Call ``setup_on_node`` of every stage."""
        for step in self._steps:
            with blaming(step, "setup_on_node"):
                step.setup_on_node(node, metadata)

    def set_up(self, metadata: WorkerMetadata) -> None:
        """Call ``setup`` of every stage."""
        for step in self._steps:
            step._clock = self._clock
            step._keeps_ledger = self._is_observed
            with blaming(step, "setup"):
                step.setup(metadata)
            self._started.append(step)

    def stop(self) -> None:
        """Tear down the stages that were set up, in reverse order; then raise the first error, if any."""
        troubles: list[PenstockError] = []
        while self._started:
            step = self._started.pop()
            try:
                with blaming(step, "teardown"):
                    step.teardown()
            except PenstockError as error:
                troubles.append(error)
        self._observer.close()
        if troubles:
            raise troubles[0]

    def run(self, tasks: Sequence[Task[Any]], selections: Sequence[Selection] = ()) -> ChainResult:
        """Run tasks through all steps; ``selections`` may exclude rows."""
        return ChainResult(list(self.stream(tasks, selections)), self.take_rejections())

    def stream(
        self, tasks: Sequence[Task[Any]], selections: Sequence[Selection] = (), *, probe: bool = False
    ) -> Iterator[Task[Any]]:
        """Run tasks through all steps, and yield each output as soon as it is complete.

        Each task that a stage yields from an iterator runs through the rest of the chain before the next one is
        requested, so only one is held in memory. A ``probe`` only finds out whether a step can process some rows: the
        observer writes nothing.
        """
        self._rows_seen = [0] * len(self._steps)
        self._rejections = []
        # A probe tests the step of its last selection; later steps need not run.
        self._probed_step = selections[-1].step if probe and selections else None
        self._observer.forget()
        self._observer.writes = not probe
        try:
            yield from self._flow(0, list(tasks), selections)
        finally:
            if self._on_step is not None:
                self._on_step(-1, 0)
        self._observer.write()

    def take_rejections(self) -> list[Rejection]:
        """Return the rows that were set aside since the last call."""
        taken, self._rejections = self._rejections, []
        return taken

    def _flow(self, number: int, tasks: list[Task[Any]], selections: Sequence[Selection]) -> Iterator[Task[Any]]:
        """Run tasks through the chain, starting at step ``number``."""
        if self._probed_step is not None and number > self._probed_step:
            return
        if number == len(self._steps) or not tasks:
            yield from tasks
            return
        step = self._steps[number]
        first = self._rows_seen[number]
        rows = count_rows(tasks)
        self._rows_seen[number] += rows
        self._counters[number][0].rows_in += rows
        self._begin(number)
        for selection in selections:
            if selection.step == number:
                tasks = self._select(number, tasks, selection, first)
        outputs: list[Task[Any]] = []
        # No reference to processed tasks is kept: later stages may need as much memory again.
        results = map(partial(self._run_step, number), _taken(tasks, step.batch_size))
        while (made := next(results, None)) is not None:
            if isinstance(made, list):
                outputs += made
                continue
            yield from self._flow(number + 1, outputs, selections)
            outputs = []
            following = self._steps[number + 1].batch_size if number + 1 < len(self._steps) else 1
            for group in _grouped(made, following):
                yield from self._flow(number + 1, group, selections)
                if any(self._is_past(part) for part in selections if part.step > number):
                    return  # a probe of a range of rows: no later task can contain any of them
        yield from self._flow(number + 1, outputs, selections)

    def _select(self, number: int, tasks: list[Task[Any]], selection: Selection, first: int) -> list[Task[Any]]:
        """Return the tasks with the selected rows only, and record the rows that are excluded permanently."""
        chosen = apply_selection(tasks, selection, first)
        self._observer.left_out(number, tasks, chosen)
        if self._probed_step is None and selection.without:
            end = first + count_rows(tasks)
            left_out = {row - first: why for row, why in selection.left_out().items() if first <= row < end}
            counter = self._counters[number][0]
            counter.items_in += self._set_aside(number, tasks, left_out)
            counter.noun_in = counter.noun_in or tasks[0].noun
        return chosen

    def _set_aside(self, number: int, tasks: Sequence[Task[Any]], rows: Mapping[int, str | Exception]) -> int:
        """Record rows that a step cannot process, with the reason; return the number of items in them."""
        step, counter = self._steps[number], self._counters[number][0]
        items = 0
        for row, reason in rows.items():
            self._rejections.append(failure_of(step, tasks, row, reason, self._keep_failure))
            task, _ = locate(tasks, row)
            items += items_at(task, row)
        counter.rows_failed += len(rows)
        counter.failed += items
        return items

    def _is_past(self, part: Selection) -> bool:
        return part.stop is not None and self._rows_seen[part.step] >= part.stop

    def _begin(self, number: int) -> None:
        if self._on_step is not None:
            self._on_step(number, self._rows_seen[number])

    def _run_step(self, number: int, tasks: list[Task[Any]]) -> list[Task[Any]] | Iterator[Task[Any]]:
        """Run one step on a chunk; outputs of an iterator are counted as they are produced."""
        step, counters = self._steps[number], self._counters[number]
        consumed = Consumed(tasks, self._observer.begin(number, tasks))
        start = self._clock()
        try:
            outputs, failed = self._call(number, tasks)
        except BaseException:
            counters[0].errors += 1
            raise
        consumed.rows -= failed
        if isinstance(outputs, list):
            self._account(step, counters, consumed, outputs, self._clock() - start)
            consumed.observer.end(step)
            return outputs
        return self._pieces(number, tasks, consumed, outputs)

    def _pieces(
        self, number: int, tasks: list[Task[Any]], consumed: Consumed, pieces: Iterator[Task[Any]]
    ) -> Iterator[Task[Any]]:
        """Yield the outputs of an iterator; if it raises, start it again and skip the outputs already yielded."""
        step, counters = self._steps[number], self._counters[number]
        yielded = failures = 0
        while True:
            self._begin(number)
            start = self._clock()
            try:
                with blaming(step, "process", tasks):
                    piece = next(pieces, None)
            except PenstockError as error:
                failures += 1
                counters[0].errors += 1
                raised_by_penstock = error.__cause__ is None
                if self._max_attempts is None or failures >= self._max_attempts or raised_by_penstock:
                    raise
                pieces = islice(self._restarted(number, tasks), yielded, None)
                continue
            self._account(step, counters, consumed, [piece] if piece is not None else [], self._clock() - start)
            if piece is None:
                consumed.observer.end(step)
                return
            consumed = consumed.used_up()
            yielded += 1
            handed_over, piece = [piece], None
            yield handed_over.pop()

    def _account(
        self,
        step: Step,
        counters: list[StageCounters],
        consumed: Consumed,
        outputs: list[Task[Any]],
        seconds: float,
    ) -> None:
        """Add the inputs, outputs, rejections and time of one call to the counters."""
        rejected = step.take_rejections()
        self._rejections.extend(replace(rejection, task_id=consumed.task_ids) for rejection in rejected)
        consumed.observer.gave(outputs, step.take_verdicts())
        items_out, bytes_out, rows_out = measure(outputs)
        counters[0].rows_processed += consumed.rows
        counters[0].rows_out += rows_out
        metrics = step._consume_custom_metrics()
        whole = StageCounters(
            step.name,
            tasks=consumed.tasks,
            items_in=consumed.items,
            items_out=items_out,
            bytes_in=consumed.bytes,
            bytes_out=bytes_out,
            seconds=seconds,
            rejected=len(rejected),
            noun_in=consumed.noun,
            noun_out=outputs[0].noun if outputs else "",
            metrics=metrics,
        )
        count(step, counters, whole)
        for output in outputs:
            output.add_stage_perf(
                StagePerfStats(step.name, seconds, 0.0, consumed.bytes / 2**20, consumed.items, metrics)
            )

    def _restarted(self, number: int, tasks: list[Task[Any]]) -> Iterator[Task[Any]]:
        """Call a stage that returns an iterator once more, without counting its rejections a second time."""
        rejections, before = list(self._rejections), copy.copy(self._counters[number][0])
        outputs, _ = self._call(number, tasks)
        self._rejections, self._counters[number][0] = rejections, before
        return iter(outputs)

    def _call(self, number: int, tasks: list[Task[Any]]) -> tuple[list[Task[Any]] | Iterator[Task[Any]], int]:
        """Run a step on tasks; return its outputs and the number of rows that were set aside."""
        step, counters = self._steps[number], self._counters[number]

        def call(given: list[Task[Any]]) -> list[Task[Any]] | Iterator[Task[Any]]:
            # Discard what an earlier attempt left: it failed, or was part of the search for bad rows.
            step.take_rejections()
            step.take_verdicts()
            step.take_part_counts()
            step._consume_custom_metrics()
            with blaming(step, "process", given):
                for task in given:
                    require_inputs(step, task)
                return call_stage(step, given)

        if self._max_attempts is None:
            with naming_the_row(step, call, tasks):
                return call(tasks), 0
        isolated = call_with_care(call, tasks, self._max_attempts)
        if isolated.bad_rows:
            counters[0].errors += len(isolated.bad_rows)
            items = self._set_aside(number, tasks, isolated.bad_rows)
            if len(counters) > 1:  # the parts of a merged stage do not count the rows set aside
                counters[0].items_in += items
            for row in isolated.bad_rows:
                self._observer.failed(number, *locate(tasks, row))
        return isolated.outputs, len(isolated.bad_rows)


def _grouped(tasks: Iterator[Task[Any]], size: int) -> Iterator[list[Task[Any]]]:
    while group := list(islice(tasks, size)):
        yield group


def _taken(tasks: list[Task[Any]], size: int) -> Iterator[list[Task[Any]]]:
    """Remove tasks from the front of a list, up to ``size`` at a time."""
    tasks.reverse()
    while tasks:
        yield [tasks.pop() for _ in range(min(size, len(tasks)))]
