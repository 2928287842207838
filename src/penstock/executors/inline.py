"""Run a whole pipeline in this process: for small jobs, notebooks and debuggers.

Pools are chained as generators, so a task passes through all stages before the next one is read, and at most one batch
per pool is in memory.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.core.lineage import root_tasks
from penstock.core.pipeline import Pipeline
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import PenstockError, Terminated, suggestion
from penstock.executors.open_run import OpenRun, how_to_resume, open_run
from penstock.executors.stop_signals import StopSignals
from penstock.ledger.record.collector import Collector
from penstock.monitor.console import say_on_stderr
from penstock.monitor.progress import Progress
from penstock.monitor.summary import RunSummary
from penstock.plan.plan import Pool
from penstock.runtime.conservation import compare_steps, raise_if_any
from penstock.runtime.machine import this_machine
from penstock.runtime.selection import count_rows, rows_of
from penstock.runtime.settlement import Settlement
from penstock.runtime.worker import ChainRunner

_CONFIG_KEYS = ("logging_interval",)


class InlineExecutor:
    """Run every stage in this process, one task after the other.

    ``cpus``, ``gpus`` and ``gpu_memory_gb`` replace the detected values, to try a plan for another machine. The summary
    of the run is written to ``run_dir`` (default: ``_penstock`` inside the output folder); ``ledger=False`` keeps no
    receipts there for ``penstock why``.

    >>> from penstock import Pipeline
    >>> from penstock.testing import ListSource, make_batch
    >>> InlineExecutor(show_progress=False).execute(Pipeline("p", stages=[ListSource([make_batch(["a", "b"])])]))
    [DocumentBatch(0_0, dataset='test', 2 items)]
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        *,
        run_dir: str | None = None,
        show_progress: bool = True,
        cpus: float | None = None,
        gpus: int | None = None,
        gpu_memory_gb: float | None = None,
        ledger: bool = True,
    ) -> None:
        self._config = dict(config or {})
        for key in self._config:
            if key not in _CONFIG_KEYS:
                raise ValueError(
                    f"InlineExecutor: unknown setting '{key}'; it has {', '.join(_CONFIG_KEYS)}."
                    f"{suggestion(key, _CONFIG_KEYS)}"
                )
        self._run_dir = run_dir
        self._show_progress = show_progress
        self._claims = (cpus, gpus, gpu_memory_gb)
        self.ledger = ledger
        self.last_summary: RunSummary | None = None

    def execute(
        self,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Task[Any]]:
        """Run the pipeline and return the outputs of its last stage, in the order of the input."""
        with StopSignals() as stop:
            return self._execute(stop, pipeline, initial_tasks, checkpoint_path)

    def _execute(
        self,
        stop: StopSignals,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None,
        checkpoint_path: str | Path | None,
    ) -> list[Task[Any]]:
        machine = this_machine(*self._claims)
        with open_run(pipeline, machine, initial_tasks, checkpoint_path, self._run_dir, ledger=self.ledger) as opened:
            return self._run(stop, opened, pipeline, initial_tasks, checkpoint_path)

    def _run(
        self,
        stop: StopSignals,
        opened: OpenRun,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None,
        checkpoint_path: str | Path | None,
    ) -> list[Task[Any]]:
        run = _InlineRun(opened, Progress(pipeline.name, self._interval, enabled=self._show_progress))
        try:
            outputs = run.run(root_tasks(initial_tasks), initial_are_sources=initial_tasks is not None)
            run.check_counts()
            with stop.held():
                opened.tidy()
        except (KeyboardInterrupt, Terminated):
            say_on_stderr(how_to_resume(pipeline, run.sources_done, checkpoint_path))
            raise
        finally:
            with stop.held():
                opened.close()
                self.last_summary = run.summary(opened.output)
        if opened.has_something_to_say:
            with stop.held():
                opened.folder.write_summary(self.last_summary.to_dict())
        if stop.is_asked_for:
            say_on_stderr(f"'{pipeline.name}' had done all of its work when it was stopped.")
        if self._show_progress:
            self.last_summary.print()
        return outputs

    @property
    def _interval(self) -> float:
        return float(self._config.get("logging_interval", 60))


class _InlineRun:
    """One run: its workers, and the tasks in flight."""

    def __init__(self, opened: OpenRun, progress: Progress) -> None:
        self._plan = plan = opened.plan
        self._folder = opened.folder
        self._has_ledger = opened.ledger is not None
        self._settlement = Settlement(opened.folder, opened.journal)
        self._in_flight = self._settlement.in_flight
        self._progress = progress
        # Stages are copied, so that a second run starts from the same state.
        self._workers = [
            ChainRunner(
                copy.deepcopy(pool.steps),
                observer=Collector(opened.ledger.orders(number)) if opened.ledger is not None else None,
            )
            for number, pool in enumerate(plan.pools)
        ]
        self._started_at = time.monotonic()
        # Rows of the initial tasks; and rows of sources that an earlier run has completed.
        self._initial_rows = self._resumed_rows = 0
        # The pool that receives the sources: the first if the user passed them, else the second.
        self._source_pool = 0

    def run(self, roots: list[Task[Any]], *, initial_are_sources: bool) -> list[Task[Any]]:
        """Run every task to the end."""
        pools = list(zip(self._plan.pools, self._workers, strict=True))
        self._initial_rows = count_rows(roots)
        started: list[ChainRunner] = []
        try:
            for number, worker in enumerate(self._workers):
                started.append(worker)
                worker.start(NodeInfo("this machine"), WorkerMetadata(f"inline-{number}"))
            if initial_are_sources:
                sources = roots
            else:
                self._source_pool = 1
                result = self._workers[0].run(roots)
                self._folder.add_dead_letters(result.rejections)
                sources, pools = result.outputs, pools[1:]
            with self._progress:
                self._run_sources(sources, pools)
        except BaseException:
            with suppress(PenstockError):  # the first error is the one to report
                _stop_all(started)
            raise
        _stop_all(started)
        return self._settlement.results()

    def check_counts(self) -> None:
        """Raise if rows were lost or duplicated between stages."""
        mistakes: list[str] = []
        entered = self._initial_rows
        for number, worker in enumerate(self._workers):
            entered -= self._resumed_rows if number == self._source_pool else 0
            mistakes += compare_steps(worker.step_counters, entered)
            entered = worker.step_counters[-1].rows_out
        raise_if_any(mistakes)

    def summary(self, output: str | None) -> RunSummary:
        """Return the totals so far."""
        return RunSummary(
            pipeline=self._plan.pipeline,
            counters=[counters for worker in self._workers for counters in worker.counters],
            seconds=time.monotonic() - self._started_at,
            output=output,
            run_folder=self._folder.path,
            has_ledger=self._has_ledger,
            dead_letters=self._folder.dead_letters if self._folder.num_dead_letters else None,
            num_dead_letters=self._folder.num_dead_letters,
            resumed=self._settlement.resumed,
        )

    def _run_sources(self, sources: list[Task[Any]], pools: list[tuple[Pool, ChainRunner]]) -> None:
        self._progress.total = len(sources)
        stream: Iterator[list[Task[Any]]] = ([source] for source in self._fresh(sources))
        for pool, worker in pools:
            stream = self._through(pool, worker, stream)
        for tasks in stream:
            self._in_flight.finish(tasks)
            self._commit()
        self._commit()

    def _fresh(self, sources: list[Task[Any]]) -> Iterator[Task[Any]]:
        """Yield the sources that an earlier run did not complete; take over the results of the others."""
        for source in sources:
            if self._settlement.is_done(source.task_id):
                self._resumed_rows += rows_of(source)
                continue
            self._in_flight.enter([source])
            yield source

    def _commit(self) -> None:
        self._settlement.commit()
        self._progress.update(self.sources_done, self._workers[-1].counters)

    @property
    def sources_done(self) -> int:
        """The number of complete source tasks."""
        return self._settlement.sources_done

    def _through(self, pool: Pool, worker: ChainRunner, stream: Iterator[list[Task[Any]]]) -> Iterator[list[Task[Any]]]:
        waiting: list[Task[Any]] = []
        for tasks in stream:
            if not tasks:
                yield []  # no tasks to process, but a source may have become complete
            waiting.extend(tasks)
            while len(waiting) >= pool.batch_size:
                batch, waiting = waiting[: pool.batch_size], waiting[pool.batch_size :]
                yield from self._work(worker, batch)
        if waiting:
            yield from self._work(worker, waiting)

    def _work(self, worker: ChainRunner, tasks: list[Task[Any]]) -> Iterator[list[Task[Any]]]:
        # A stage may change a task in place and return it: keep copies with the original ids and sources.
        origins = [copy.copy(task) for task in tasks]
        for output in worker.stream(tasks):
            self._in_flight.enter([output])
            yield [output]
        self._in_flight.reject(origins[0]._sources[0], worker.take_rejections())
        self._in_flight.leave(origins)
        yield []  # a task without outputs may still complete its source


def _stop_all(workers: list[ChainRunner]) -> None:
    """Stop every worker, in reverse order, and then raise the first error, if any."""
    troubles: list[PenstockError] = []
    for worker in reversed(workers):
        try:
            worker.stop()
        except PenstockError as error:
            troubles.append(error)
    if troubles:
        raise troubles[0]
