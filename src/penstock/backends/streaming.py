"""The executor that balances: every core and GPU there is, without being told how many workers a stage needs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.backends.backend import RunBackend, Venue, drive
from penstock.backends.cycles import rarely_searched
from penstock.backends.local.venue import LocalVenue
from penstock.backends.observe import pool_records, snapshot
from penstock.backends.ray.venue import RayVenue, is_at_hand
from penstock.core.lineage import root_tasks
from penstock.core.pipeline import Pipeline
from penstock.core.sizes import parse_bytes
from penstock.core.task import Task
from penstock.errors import StageError, suggestion
from penstock.monitor.live import LiveView
from penstock.monitor.summary import RunSummary
from penstock.monitor.words import silence
from penstock.plan.plan import Pool
from penstock.runtime.books import Books
from penstock.runtime.machine import GB
from penstock.runtime.opening import OpenRun, how_to_resume, open_run
from penstock.runtime.selection import rows_of
from penstock.runtime.speeds import Speed, keys_of, read_speeds, write_speeds
from penstock.schedule.events import Output
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings, item_key
from penstock.schedule.watchdog import why_nothing_moves

_LOOK_EVERY_S = 0.2
# When nothing has moved for so long somebody will ask why; and again after twice as long.
_SILENCE_S = 60.0
_DEFAULTS: dict[str, Any] = {
    "logging_interval": 60,
    "ignore_failures": False,
    "execution_mode": "streaming",
    "cpu_allocation_percentage": 0.95,
    "autoscale_interval_s": 180,
}


class StreamingExecutor:
    """Runs a pipeline on every core and GPU there is, and decides itself how many workers each stage gets.

    ``backend`` is ``"local"`` (this machine) or ``"ray"`` (a cluster). Without it a run goes to the Ray cluster that
    ``RAY_ADDRESS`` names or that this process has joined, and stays on this machine if there is none.
    ``ignore_head_node`` keeps workers off the cluster's head; ``runtime_env`` is Ray's, for all workers.

    ``config`` holds the settings users know (``logging_interval``, ``ignore_failures``, ``execution_mode``,
    ``cpu_allocation_percentage``, ``autoscale_interval_s``). ``memory_budget`` bounds the bytes between stages
    ("4GiB"; default: a share of what is free). ``cpus``, ``gpus``, ``gpu_memory_gb`` are claimed instead of looked up.
    With ``ignore_failures`` a run goes on past rows that cannot be processed, up to ``max_failed`` of them (a count,
    or a share of all rows). How fast each stage was is kept in the user's cache folder, so that the next run begins
    balanced; ``profile=False`` neither reads nor writes that. ``ledger=False`` keeps no receipts for ``penstock why``.
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        *,
        backend: str | None = None,
        ignore_head_node: bool = False,
        runtime_env: dict[str, Any] | None = None,
        memory_budget: int | str | None = None,
        spill_dir: str | None = None,
        task_timeout_s: float | None = None,
        max_retries: int = 2,
        max_failed: float | None = None,
        cpus: float | None = None,
        gpus: int | None = None,
        gpu_memory_gb: float | None = None,
        run_dir: str | None = None,
        show_progress: bool = True,
        profile: bool = True,
        ledger: bool = True,
    ) -> None:
        self._config = {**_DEFAULTS, **_checked(config or {})}
        if backend not in (None, "local", "ray"):
            raise ValueError(f"StreamingExecutor(backend={backend!r}): expected 'local', 'ray', or nothing.")
        self._backend = backend
        self._ignore_head_node = ignore_head_node
        self._runtime_env = runtime_env
        self._budget = parse_bytes(memory_budget) if memory_budget is not None else None
        self._spill_dir = spill_dir
        self._timeout = task_timeout_s
        self._max_attempts = max_retries + 1
        self._max_failed = max_failed
        self._claims = (cpus, gpus, gpu_memory_gb)
        self._run_dir = run_dir
        self._show_progress = show_progress
        self._profile = profile
        self.ledger = ledger
        self.last_summary: RunSummary | None = None
        # The most memory all workers together were seen to use in the last run.
        self.peak_resident = 0

    def execute(
        self,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Task[Any]]:
        """Run the pipeline and return what its last stage gave, in the order of the input."""
        venue = self._venue()
        try:
            with rarely_searched():
                return self._execute(venue, pipeline, initial_tasks, checkpoint_path)
        finally:
            venue.close()

    def _execute(
        self,
        venue: Venue,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None,
        checkpoint_path: str | Path | None,
    ) -> list[Task[Any]]:
        opened = open_run(
            pipeline, venue.cluster, initial_tasks, checkpoint_path, self._run_dir, self._budget, ledger=self.ledger
        )
        try:
            run = _StreamingRun(self, opened, venue)
        except BaseException:  # it may have waited for a place, and somebody for it
            opened.close()
            raise
        try:
            run.run(root_tasks(initial_tasks), given=initial_tasks is not None)
            opened.tidy()
        except KeyboardInterrupt:
            print(how_to_resume(pipeline.name, run.books.settlement.sources_done, checkpoint_path), file=sys.stderr)
            if opened.output is not None:
                print(f"Written so far: {opened.output}", file=sys.stderr)
            raise
        finally:
            opened.close()
            self.last_summary = run.summary()
            if opened.has_something_to_say:
                opened.folder.write_summary(self.last_summary.to_dict())
        if self._show_progress:
            self.last_summary.print()
        self._judge(run)
        if self._profile:
            run.keep_speeds()
        return run.books.settlement.results()

    def _judge(self, run: _StreamingRun) -> None:
        """Fail the run if it could not process what it should have."""
        if run.scheduler.fatal is not None:
            raise StageError(run.scheduler.fatal)
        failed, first = run.books.failed, run.books.first_failure
        if not failed or first is None or (self._config["ignore_failures"] and not self._too_many(run)):
            return
        rest = "the run was stopped at that" if run.scheduler.stopping else "everything else was"
        lines = [
            f"{failed} of the input could not be processed; {rest}.",
            f"The first: {first.reason} (task {first.task_id}).",
            f"All of them: {run.opened.folder.dead_letters}",
            f"To see it fail: {first.reproduce}" if first.reproduce else "",
            "To go on past such rows: config={'ignore_failures': True}.",
        ]
        raise StageError("\n  ".join(line for line in lines if line))

    def _too_many(self, run: _StreamingRun) -> bool:
        if self._max_failed is None:
            return False
        rows = max((c.items_in for counters in run.books.counters for c in counters), default=0)
        bound = self._max_failed * rows if 0 < self._max_failed < 1 else self._max_failed
        return run.books.failed > bound

    def _venue(self) -> Venue:
        """Say where the run takes place."""
        cpus, gpus, gpu_memory_gb = self._claims
        cpu_share = float(self._config["cpu_allocation_percentage"])
        # Who claims a machine other than the one there is means this one, unless told otherwise.
        claims_this = self._backend is None and (cpus is not None or gpus is not None)
        if self._backend == "ray" or (self._backend is None and not claims_this and is_at_hand()):
            return RayVenue(
                cpu_share=cpu_share,
                ignore_head=self._ignore_head_node,
                runtime_env=self._runtime_env,
                cpus=cpus,
                gpus=gpus,
                gpu_memory_gb=gpu_memory_gb,
            )
        return LocalVenue(cpus, gpus, gpu_memory_gb, cpu_share)


class _StreamingRun:
    """One run: scheduler, backend, books and screen."""

    def __init__(self, executor: StreamingExecutor, opened: OpenRun, venue: Venue) -> None:
        config = executor._config
        self.opened = opened
        failure_folder = Path(_local_folder(opened, opened.plan.pipeline)) / "failures"
        self.books = Books(opened.plan, opened.folder, opened.journal, failure_folder)
        settings = Settings(
            memory_budget=venue.budget(executor._budget),
            autoscale_interval_s=float(config["autoscale_interval_s"]),
            max_attempts=executor._max_attempts,
            batch_mode=config["execution_mode"] == "batch",
            round_trip_s=venue.round_trip_s,
        )
        self._speed_keys = keys_of(opened.plan) if executor._profile else []
        known = read_speeds(self._speed_keys) or [None] * len(opened.plan.pools)
        nodes = len(venue.cluster.nodes)
        self._view = LiveView(opened.plan.pipeline, float(config["logging_interval"]), enabled=executor._show_progress)
        specs = [
            _spec(pool, executor._timeout, nodes, speed) for pool, speed in zip(opened.plan.pools, known, strict=True)
        ]
        self.scheduler = Scheduler(specs, venue.free(opened.plan, self._view.say), settings)
        self._venue = venue
        self._executor = executor
        self._started = time.monotonic()
        self._seconds = 0.0
        # Set when so much failed that the rest is not worth doing.
        self._gave_up = False
        self._silence_to_explain = _SILENCE_S

    def run(self, roots: list[Task[Any]], *, given: bool) -> None:
        """Run everything, and leave nothing behind."""
        self.books.given_sources = given
        executor = self._executor
        backend = self._venue.backend(
            self.opened.plan,
            self.books,
            max_attempts=executor._max_attempts,
            spill_dir=executor._spill_dir,
            ledger=self.opened.ledger,
        )
        try:
            with _interruptible(backend), self._view:
                first = self.scheduler.begin(backend.now(), self._put(backend, roots, given=given))
                drive(self.scheduler, backend, first, look=partial(self._look, backend), look_every=_LOOK_EVERY_S)
        finally:
            backend.close()
            self._executor.peak_resident = backend.peak_resident
            self._seconds = time.monotonic() - self._started
        if self.scheduler.stopping and not self._gave_up:
            raise KeyboardInterrupt

    def keep_speeds(self) -> None:
        """Write down for the next run how fast each pool was."""
        seen = [pool.estimate for pool in self.scheduler.pools]
        write_speeds(
            {
                key: Speed(
                    estimate.rate.seconds / estimate.rate.items,
                    estimate.fan_out,
                    estimate.output_bytes_per_item,
                    estimate.start_up_seconds,
                )
                for key, estimate in zip(self._speed_keys, seen, strict=True)
                if estimate.items_in and estimate.rate.items > 0
            }
        )

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        scheduler, folder = self.scheduler, self.opened.folder
        return RunSummary(
            pipeline=self.opened.plan.pipeline,
            counters=[counters for pool in self.books.counters for counters in pool],
            seconds=self._seconds,
            output=self.opened.output,
            run_folder=folder.path,
            has_ledger=self.opened.ledger is not None,
            dead_letters=folder.dead_letters if folder.num_dead_letters else None,
            num_dead_letters=folder.num_dead_letters,
            resumed=self.books.settlement.resumed,
            pools=pool_records(scheduler, self.opened.plan),
            plans=[asdict(record) for record in scheduler.plans],
            peak_bytes=scheduler.credits.peak,
            budget_bytes=scheduler.credits.budget,
            failed=self.books.failed or None,
        )

    def _put(self, backend: RunBackend, roots: list[Task[Any]], *, given: bool) -> list[Output]:
        """Store the tasks a run begins with, less those that a checkpoint has."""
        outputs = []
        for task in roots:
            if given and self.books.settlement.is_done(task.task_id):
                continue
            stored = backend.put(item_key(0, task.task_id), task)
            if given:
                self.books.emitted([stored], last=False)
            outputs.append(Output(task.task_id, task._order, 0, rows_of(task)))
        return outputs

    def _look(self, backend: RunBackend, now: float) -> None:
        """Show how far the run has come, and stop it if more has failed than may."""
        most = self._executor._max_failed
        if most is not None and most >= 1 and self.books.failed > most and not self._gave_up:
            self._gave_up = True
            backend.ask_to_stop()
        view = snapshot(self.scheduler, self.opened.plan, now - self._started, now, self.books.failed)
        self._view.update(view)
        self._explain_silence(now)

    def _explain_silence(self, now: float) -> None:
        silent = now - self.scheduler.moved_at
        if silent < _SILENCE_S:
            self._silence_to_explain = _SILENCE_S
        elif silent >= self._silence_to_explain:
            self._silence_to_explain = 2 * silent
            self._view.say(silence(silent, why_nothing_moves(self.scheduler)))


def _spec(pool: Pool, timeout: float | None, nodes: int, known: Speed | None = None) -> PoolSpec:
    """Turn a planned pool into what the scheduler has to know of it."""
    spec = pool.stages[0].xenna_stage_spec()
    lifetime, interval = spec.get("worker_max_lifetime_m"), spec.get("worker_restart_interval_m", 0)
    return PoolSpec(
        name=pool.name,
        need=pool.resources,
        batch_size=pool.batch_size,
        workers=pool.num_workers if pool.num_workers is not None else _workers_on(pool, nodes),
        barrier=any(stage.is_barrier for stage in pool.stages),
        timeout_s=timeout,
        max_tasks_per_worker=pool.stages[0].ray_stage_spec().get("max_calls_per_worker"),
        max_lifetime_s=60.0 * lifetime if lifetime else None,
        restart_interval_s=60.0 * (interval or 0),
        max_resident_growth=_growth(pool, spec.get("worker_max_growth_gb")),
        expected_seconds=known.seconds_per_item if known else None,
        expected_fan_out=known.fan_out if known else None,
        expected_output_bytes=known.output_bytes if known else None,
        expected_start_up_s=known.start_up_s if known else None,
    )


def _workers_on(pool: Pool, nodes: int) -> int | None:
    """Return how many workers a pool has if a stage of it asks for so many per node."""
    per_node = [count for stage in pool.stages if (count := stage.num_workers_per_node()) is not None]
    return max(1, ceil(max(per_node) * nodes)) if per_node else None


def _growth(pool: Pool, asked_gb: float | None) -> int | None:
    """Return by how much a worker may grow before it is replaced: as asked, or half of the memory it declared."""
    gigabytes = asked_gb if asked_gb is not None else (pool.resources.memory_gb or 0.0) / 2
    return int(gigabytes * GB) or None


def _checked(config: dict[str, Any]) -> dict[str, Any]:
    for key in config:
        if key not in _DEFAULTS:
            raise ValueError(
                f"StreamingExecutor: unknown setting '{key}'; it has {', '.join(_DEFAULTS)}."
                f"{suggestion(key, _DEFAULTS)}"
            )
    mode = config.get("execution_mode", "streaming")
    if mode not in ("streaming", "batch"):
        raise ValueError(f"StreamingExecutor: execution_mode={mode!r}; it is 'streaming' or 'batch'.")
    return config


def _local_folder(opened: OpenRun, pipeline: str) -> str:
    """Return a folder on this machine for what failed, beside the run folder if that is here."""
    return opened.folder.path if "://" not in opened.folder.path else str(Path("penstock-runs") / pipeline)


@contextmanager
def _interruptible(backend: RunBackend) -> Iterator[None]:
    """Let Ctrl-C stop the sources first, and everything when it comes again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    presses = 0

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt
        print("\nStopping: what runs is being finished. Ctrl-C again stops at once.", file=sys.stderr)
        backend.ask_to_stop()

    old_handler = signal.signal(signal.SIGINT, on_interrupt)
    old_descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    backend.wake_on(reader)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_descriptor)
        signal.signal(signal.SIGINT, old_handler)
        os.close(reader)
        os.close(writer)
