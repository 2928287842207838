"""Places to run a pipeline, real or simulated, and the outcome of a run, for the conformance tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.backends.pool_specs import pool_spec
from penstock.backends.simulated.law import Law
from penstock.backends.simulated.simulate import simulate
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster, Node
from penstock.core.sizes import parse_bytes
from penstock.errors import StageError
from penstock.monitor.summary import RunSummary
from penstock.plan.fuse import fuse
from penstock.schedule.actions import RunBatch, StartWorker, StopWorker
from penstock.schedule.events import WorkerGone, WorkerLost, WorkerReady
from penstock.schedule.state import Settings

Stages = list[Any]
Docs = ProcessingStage[DocumentBatch, DocumentBatch]


def texts(tasks: list[Any]) -> list[list[str]]:
    return [task.to_pyarrow()["text"].to_pylist() for task in tasks]


class Each(Docs):
    """Apply a function to each task; needs more than one core, so that it forms its own pool."""

    resources = Resources(cpus=1.5)

    def __init__(self, function: Callable[[DocumentBatch], Any], name: str = "each") -> None:
        self.function = function
        self.name = name

    def process(self, task: DocumentBatch) -> Any:
        return self.function(task)


@dataclass
class Place:
    """A place to run a pipeline, and the files that a run leaves."""

    kind: str
    folder: Path
    summary: RunSummary | None = None

    def run(
        self,
        stages: Stages,
        *,
        initial_tasks: list[Any] | None = None,
        checkpoint: Path | None = None,
        **settings: Any,
    ) -> list[Any]:
        executor: InlineExecutor | StreamingExecutor
        run_dir = str(self.folder / "run")
        if self.kind == "inline":
            executor = InlineExecutor(run_dir=run_dir, show_progress=False)
        else:
            settings.setdefault("cpus", 3 if self.kind == "local" else None)
            executor = StreamingExecutor(backend=self.kind, run_dir=run_dir, show_progress=False, **settings)
        try:
            return Pipeline("p", stages=stages).run(executor, initial_tasks, checkpoint)
        finally:
            self.summary = executor.last_summary

    def outcome(self, stages: Stages, laws: list[Law], **settings: Any) -> Outcome:
        """Run the stages, or simulate them by their laws, and return the outcome that both have in common."""
        if self.kind == "simulated":
            return simulated(stages, laws, **settings)
        results = len(self.run(stages, **settings))
        assert self.summary is not None
        pools = self.summary.pools
        if pools is None:  # a single process has no queues between pools
            return Outcome(results, None, len(self.letters()), None)
        peak = self.summary.peak_bytes
        return Outcome(results, [(pool["items_in"], pool["items_out"]) for pool in pools], len(self.letters()), peak)

    def letters(self) -> list[dict[str, Any]]:
        path = self.folder / "run/dead_letters.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def somewhere(*kinds: str) -> Any:
    """Return a fixture that runs a test once in each kind of place."""
    marked = [pytest.param(kind, marks=pytest.mark.ray) if kind == "ray" else kind for kind in kinds]

    @pytest.fixture(params=marked)
    def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        if request.param == "ray":
            request.getfixturevalue("on_ray")
        return Place(request.param, tmp_path)

    return place


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: results, items into and out of every pool, rows set aside, peak bytes in flight."""

    results: int
    pools: list[tuple[int, int]] | None
    letters: int
    peak_bytes: int | None


def simulated(stages: Stages, laws: list[Law], **settings: Any) -> Outcome:
    """Simulate the pools of these stages, starting with one empty task as a run does."""
    specs = [pool_spec(pool, settings.get("task_timeout_s"), nodes=1) for pool in fuse(stages, begins_with_source=True)]
    attempts = settings.get("max_retries", 2) + 1
    budget = Settings(parse_bytes(settings.get("memory_budget", "1GB")), max_attempts=attempts)
    machine = Cluster((Node("n", 4, 16),))
    trace, scheduler = simulate(specs, laws, machine, 1, budget, record=True)
    if scheduler.fatal is not None:
        raise StageError(scheduler.fatal)
    check_lives(trace)
    told = [(pool.estimate.items_in, pool.estimate.items_out) for pool in scheduler.pools]
    return Outcome(len(trace.results), told, len(trace.dead), trace.peak_bytes)


def check_lives(trace: Trace) -> None:
    """Check that workers get batches only when they are ready and not stopped, and that each is stopped once."""
    lives: dict[str, list[type]] = {}
    for _, entry in trace.log:
        if isinstance(entry, StartWorker | WorkerReady | RunBatch | StopWorker | WorkerGone | WorkerLost):
            lives.setdefault(entry.worker, []).append(type(entry))
    for life in lives.values():
        steps = [step for step in life if step is not RunBatch]
        assert steps in (
            [StartWorker, WorkerReady, StopWorker, WorkerGone],
            [StartWorker, WorkerReady, WorkerLost],
            [StartWorker, WorkerLost],
        )
        assert RunBatch not in life[:2]
        assert RunBatch not in life[life.index(steps[-1]) :]
