"""A worker: runs tasks through a chain of stages, counts what happens in each, and names what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

from penstock.core.counters import StageCounters
from penstock.core.lineage import adopt_jointly, adopt_many, adopt_one
from penstock.core.perf import StagePerfStats
from penstock.core.rejection import MAX_EXCERPT, Rejection
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import MissingColumnError, PenstockError, StageError
from penstock.runtime.isolation import call_with_care
from penstock.runtime.selection import apply_selection, count_rows, locate
from penstock.schedule.actions import Selection

Step = ProcessingStage[Any, Any]


@dataclass
class ChainResult:
    """What came out of a chain for some tasks: nothing else leaves a worker."""

    outputs: list[Task[Any]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)


class Worker:
    """Runs tasks through the steps of one pool, in this process.

    Without ``max_attempts`` what a stage raises comes out at once, for a debugger to see; with it the stage is tried
    again, and rows that it cannot process are set aside.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        max_attempts: int | None = None,
        on_step: Callable[[int, int], None] | None = None,
        keep_failure: Callable[[Step, Task[Any]], str] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._steps = list(steps)
        self._max_attempts = max_attempts
        # Told which step begins on how many rows: if the process dies, somebody can still tell where.
        self._on_step = on_step
        # Keeps a task that a stage failed on, and returns what to type to see it fail.
        self._keep_failure = keep_failure
        self._clock = clock
        self._started: list[Step] = []
        self._counters = [[StageCounters(part.name) for part in step.parts()] for step in self._steps]

    @property
    def counters(self) -> list[StageCounters]:
        """Totals per stage as the user wrote them, in order."""
        return [counters for step in self._counters for counters in step]

    def take_counters(self) -> list[StageCounters]:
        """Return the totals since last asked, and begin anew."""
        taken = self.counters
        self._counters = [[StageCounters(counter.stage) for counter in step] for step in self._counters]
        return taken

    def start(self, node: NodeInfo, metadata: WorkerMetadata) -> None:
        """Prepare the node, then set the stages up."""
        self.prepare_node(node, metadata)
        self.set_up(metadata)

    def prepare_node(self, node: NodeInfo, metadata: WorkerMetadata) -> None:
        """Let every stage do what it does once per node."""
        for step in self._steps:
            with _blaming(step, "setup_on_node"):
                step.setup_on_node(node, metadata)

    def set_up(self, metadata: WorkerMetadata) -> None:
        """Let every stage do what it does once per worker."""
        for step in self._steps:
            step._clock = self._clock
            with _blaming(step, "setup"):
                step.setup(metadata)
            self._started.append(step)

    def stop(self) -> None:
        """Tear down what was set up, last first; one stage's trouble does not keep the others from it."""
        troubles: list[PenstockError] = []
        while self._started:
            step = self._started.pop()
            try:
                with _blaming(step, "teardown"):
                    step.teardown()
            except PenstockError as error:
                troubles.append(error)
        if troubles:
            raise troubles[0]

    def run(self, tasks: Sequence[Task[Any]], selections: Sequence[Selection] = ()) -> ChainResult:
        """Run some tasks through all steps, of which selections may leave rows out."""
        result = ChainResult(outputs=list(tasks))
        for number, (step, counters) in enumerate(zip(self._steps, self._counters, strict=True)):
            outputs: list[Task[Any]] = []
            for selection in selections:
                if selection.step == number:
                    result.outputs = apply_selection(result.outputs, selection)
            if self._on_step is not None:
                self._on_step(number, count_rows(result.outputs))
            for chunk in _chunks(result.outputs, step.batch_size):
                outputs.extend(self._run_step(step, counters, chunk, result.rejections))
            result.outputs = outputs
        return result

    def _run_step(
        self, step: Step, counters: list[StageCounters], tasks: list[Task[Any]], rejections: list[Rejection]
    ) -> list[Task[Any]]:
        items_in, bytes_in = _measure(tasks)
        task_ids = ",".join(task.task_id for task in tasks)
        start = self._clock()
        try:
            outputs = self._call(step, counters, tasks, rejections)
        except BaseException:
            counters[0].errors += 1
            raise
        seconds = self._clock() - start
        rejected = step.take_rejections()
        rejections.extend(replace(rejection, task_id=task_ids) for rejection in rejected)
        items_out, bytes_out = _measure(outputs)
        metrics = step._consume_custom_metrics()
        whole = StageCounters(
            step.name,
            tasks=len(tasks),
            items_in=items_in,
            items_out=items_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            seconds=seconds,
            rejected=len(rejected),
            noun_in=tasks[0].noun,
            noun_out=outputs[0].noun if outputs else "",
            metrics=metrics,
        )
        _count(step, counters, whole)
        for output in outputs:
            output.add_stage_perf(StagePerfStats(step.name, seconds, 0.0, bytes_in / 2**20, items_in, metrics))
        return outputs

    def _call(
        self, step: Step, counters: list[StageCounters], tasks: list[Task[Any]], rejections: list[Rejection]
    ) -> list[Task[Any]]:
        def call(given: list[Task[Any]]) -> list[Task[Any]]:
            step.take_rejections()  # of a try that failed
            with _blaming(step, "process", given):
                for task in given:
                    _require_inputs(step, task)
                return _call(step, given)

        if self._max_attempts is None:
            return call(tasks)
        isolated = call_with_care(call, tasks, self._max_attempts)
        for row in isolated.bad_rows:
            counters[0].errors += 1
            rejections.append(self._failure(step, tasks, row, isolated.error))
        return isolated.outputs

    def _failure(self, step: Step, tasks: list[Task[Any]], row: int, error: Exception | None) -> Rejection:
        """Describe one row that a stage cannot process."""
        task, position = locate(tasks, row)
        alone = task.select([position]) or task
        return Rejection(
            stage=step.name,
            reason=str(error),
            source=", ".join(task._metadata.get("source_files", [])[:3]),
            position=position,
            excerpt=task.excerpt(position)[:MAX_EXCERPT],
            task_id=task.task_id,
            failed=True,
            reproduce=self._keep_failure(step, alone) if self._keep_failure is not None else "",
        )


def _call(step: Step, tasks: list[Task[Any]]) -> list[Task[Any]]:
    """Let a stage work on a chunk, and give what it returns its names."""
    results: Sequence[Any]
    if step.supports_batch_processing():
        results = step.process_batch(tasks)
        if not isinstance(results, list | tuple):
            raise TypeError(f"process_batch must return a list, got {type(results).__name__}")
    else:
        results = [step.process(task) for task in tasks]
    for result in results:
        _require_tasks(result)
    if results and all(any(result is task for task in tasks) for result in results):
        return list(results)  # a choice of its own inputs: each is itself
    if len(results) == len(tasks):
        return [child for task, result in zip(tasks, results, strict=True) for child in _adopt(task, result)]
    flat = [child for result in results for child in _listed(result)]
    if len(tasks) == 1:
        return _adopt(tasks[0], flat)
    adopt_jointly(tasks, flat)
    return flat


def _adopt(parent: Task[Any], result: Task[Any] | list[Task[Any]] | None) -> list[Task[Any]]:
    if result is None:
        return []
    if isinstance(result, list):
        adopt_many(parent, result)
        return result
    adopt_one(parent, result)
    return [result]


def _listed(result: Task[Any] | list[Task[Any]] | None) -> list[Task[Any]]:
    if result is None:
        return []
    return result if isinstance(result, list) else [result]


def _require_tasks(result: Any) -> None:  # noqa: ANN401 - a user's stage may return anything
    for task in _listed(result):
        if not isinstance(task, Task):
            raise TypeError(f"a stage returns a task, a list of tasks or None; got {type(task).__name__}: {task!r:.80}")


def _require_inputs(step: Step, task: Task[Any]) -> None:
    missing = step.missing_from(task)
    if missing:
        get_columns = getattr(task, "get_columns", list)
        to_blame = next((part for part in step.parts() if missing[0] in part.missing_from(task)), step)
        parameter = next(
            (key for key, value in vars(to_blame).items() if isinstance(value, str) and value == missing[0]), None
        )
        raise MissingColumnError(to_blame.name, missing[0], get_columns(), parameter)
    if not step.validate_input(task):
        raise ValueError(f"validate_input refused task {task!r}")


def _count(step: Step, counters: list[StageCounters], whole: StageCounters) -> None:
    """Add what a step did to the counters of the stages it stands for."""
    if len(counters) == 1:
        counters[0].add(whole)
        step.take_part_counts()
        return
    # A merged stage knows what each part did; what belongs to no part in particular goes to the first.
    for counter in counters:
        counter.tasks += whole.tasks
    # One count per part and task.
    for part, counter in zip(step.take_part_counts(), cycle(counters), strict=False):
        counter.items_in += part.items_in
        counter.items_out += part.items_out
        counter.bytes_in += part.bytes_in
        counter.bytes_out += part.bytes_out
        counter.seconds += part.seconds
        counter.noun_in = counter.noun_out = whole.noun_in
    counters[0].add(StageCounters(counters[0].stage, rejected=whole.rejected, metrics=whole.metrics))


def _measure(tasks: Sequence[Task[Any]]) -> tuple[int, int]:
    return sum(task.num_items for task in tasks), sum(task.num_bytes for task in tasks)


def _chunks(tasks: list[Task[Any]], size: int) -> Iterator[list[Task[Any]]]:
    return (tasks[i : i + size] for i in range(0, len(tasks), size))


class _blaming:  # noqa: N801 - reads as a word in a with statement
    """Turn what a stage raises into an error that names the stage, the call and the task."""

    def __init__(self, step: Step, call: str, tasks: Sequence[Task[Any]] = ()) -> None:
        self._step, self._call, self._tasks = step, call, tasks

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, PenstockError):
            return
        where = ""
        if self._tasks:
            files = self._tasks[0]._metadata.get("source_files", [])
            names = ", ".join(task.task_id for task in self._tasks)
            where = f" on task {names}" + (f" (from {', '.join(files[:3])})" if files else "")
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise StageError(f"stage '{self._step.name}': {self._call} failed{where}: {reason}") from error
