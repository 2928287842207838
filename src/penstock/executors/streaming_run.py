"""Run a plan once: connect scheduler, backend, run record and progress display."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.backends.backend import RunBackend, Venue, drive
from penstock.backends.observe import pool_records, snapshot
from penstock.backends.pool_specs import pool_spec
from penstock.core.task import Task
from penstock.executors.open_run import OpenRun
from penstock.executors.stop_signals import StopSignals, say_that_it_stops
from penstock.monitor.live import LiveView
from penstock.monitor.summary import RunSummary
from penstock.monitor.words import silence
from penstock.runtime.run_record import RunRecord
from penstock.runtime.selection import rows_of
from penstock.runtime.speeds import Speed, keys_of, read_speeds, write_speeds
from penstock.schedule.events import Output
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import Settings, item_key
from penstock.schedule.watchdog import why_nothing_moves

_LOOK_INTERVAL_S = 0.2
# After this time without progress the run explains why; it does so again after twice the time.
_SILENCE_S = 60.0
# How long a worker may take to stop, the rest of its setup included, before it is killed.
_STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Terms:
    """The settings of a run."""

    memory_budget: int | None
    spill_dir: str | None
    task_timeout_s: float | None
    max_attempts: int
    # More failures than this stop the run; a value below 1 is a share of all rows, checked at the end.
    max_failed: float | None
    # Whether a run succeeds even if rows could not be processed.
    ignore_failures: bool
    batch_mode: bool
    autoscale_interval_s: float
    logging_interval_s: float
    # How long a worker may wait for its resources, then until it is ready, and how long it may send no message.
    place_timeout_s: float
    start_timeout_s: float
    stall_timeout_s: float
    show_progress: bool
    # Whether to start with the speeds of earlier runs, and to store those of this one.
    profile: bool


class StreamingRun:
    """One run: scheduler, backend, run record and progress display."""

    def __init__(self, opened: OpenRun, venue: Venue, terms: Terms) -> None:
        self.opened = opened
        failure_folder = Path(_local_folder(opened, opened.plan.pipeline)) / "failures"
        self.record = RunRecord(
            opened.plan, opened.folder, opened.journal, failure_folder, ignores_failures=terms.ignore_failures
        )
        settings = Settings(
            memory_budget=venue.budget(terms.memory_budget),
            autoscale_interval_s=terms.autoscale_interval_s,
            max_attempts=terms.max_attempts,
            batch_mode=terms.batch_mode,
            round_trip_s=venue.round_trip_s,
            place_timeout_s=terms.place_timeout_s if venue.has_others else None,
            start_timeout_s=terms.start_timeout_s,
            stall_timeout_s=terms.stall_timeout_s,
            # A short stall timeout shortens the answer timeout as well.
            answer_timeout_s=min(terms.stall_timeout_s, Settings.answer_timeout_s),
            stop_timeout_s=_STOP_TIMEOUT_S,
        )
        self._speed_keys = keys_of(opened.plan) if terms.profile else []
        known = read_speeds(self._speed_keys) or [None] * len(opened.plan.pools)
        nodes = len(venue.cluster.nodes)
        self._view = LiveView(opened.plan.pipeline, terms.logging_interval_s, enabled=terms.show_progress)
        specs = [
            pool_spec(pool, terms.task_timeout_s, nodes, speed)
            for pool, speed in zip(opened.plan.pools, known, strict=True)
        ]
        if venue.has_others:
            specs = [
                replace(spec, place_timeout_s=terms.start_timeout_s) if venue.installs_for(pool) else spec
                for spec, pool in zip(specs, opened.plan.pools, strict=True)
            ]
        self.scheduler = Scheduler(specs, venue.free(opened.plan, self._view.say), settings)
        self._venue = venue
        self._terms = terms
        self._started = time.monotonic()
        self._seconds = 0.0
        # Set when more rows failed than ``max_failed``.
        self._gave_up = False
        self._silence_to_explain = _SILENCE_S
        self._workers_seen: set[str] = set()
        # Peak memory of all workers together, in bytes.
        self.peak_resident = 0

    def run(self, roots: list[Task[Any]], stop: StopSignals, *, given: bool) -> None:
        """Run all tasks, and release all resources; raise the exception of ``stop`` if the run was stopped."""
        self.record.given_sources = given
        backend = self._venue.backend(
            self.opened.plan,
            self.record,
            max_attempts=self._terms.max_attempts,
            spill_dir=self._terms.spill_dir,
            ledger=self.opened.ledger,
        )

        def ask_to_stop() -> None:
            say_that_it_stops(stop)
            backend.ask_to_stop()

        try:
            with stop.asking(ask_to_stop, backend.wake_on), self._view:
                first = self.scheduler.begin(backend.now(), self._put(backend, roots, given=given))
                drive(self.scheduler, backend, first, look=partial(self._look, backend), look_every=_LOOK_INTERVAL_S)
        finally:
            with stop.held():
                backend.close()
            self.peak_resident = backend.peak_resident
            self._seconds = time.monotonic() - self._started
        if self.scheduler.stopping and not self._gave_up:
            raise stop.exception()

    def check_counts(self) -> None:
        """Raise if rows were lost or duplicated; the counts of a stopped run are not checked."""
        if self.scheduler.fatal is None and not self.scheduler.stopping:
            self.record.conservation.check(self.record.counters, self.record.settlement.in_flight.unfinished)

    def keep_speeds(self) -> None:
        """Store the speed of each pool for the next run."""
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
            counters=[counters for pool in self.record.counters for counters in pool],
            seconds=self._seconds,
            output=self.opened.output,
            run_folder=folder.path,
            has_ledger=self.opened.ledger is not None,
            dead_letters=folder.dead_letters if folder.num_dead_letters else None,
            num_dead_letters=folder.num_dead_letters,
            resumed=self.record.settlement.resumed,
            pools=pool_records(scheduler, self.opened.plan),
            plans=[asdict(record) for record in scheduler.plans],
            peak_bytes=scheduler.credits.peak,
            budget_bytes=scheduler.credits.budget,
            failed=self.record.failed or None,
            stopped=scheduler.fatal,
        )

    def _put(self, backend: RunBackend, roots: list[Task[Any]], *, given: bool) -> list[Output]:
        """Store the initial tasks, except those that a checkpoint records as done."""
        outputs = []
        for task in roots:
            if given and self.record.settlement.is_done(task.task_id):
                continue
            stored = backend.put(item_key(0, task.task_id), task)
            if given:
                self.record.emitted([stored], last=False)
            self.record.conservation.entered(0, stored.rows)
            outputs.append(Output(task.task_id, task._order, 0, rows_of(task)))
        return outputs

    def _look(self, backend: RunBackend, now: float) -> None:
        """Update the progress display, and stop the run if more rows failed than allowed."""
        most = self._terms.max_failed
        # The scheduler counts rows that killed a worker before they are recorded.
        failed = max(self.record.failed, self.scheduler.state.dead)
        if most is not None and most >= 1 and failed > most and not self._gave_up:
            self._gave_up = True
            backend.ask_to_stop()
        view = snapshot(self.scheduler, self.opened.plan, now - self._started, now, self.record.failed)
        self._view.update(view)
        self._explain_silence(now)
        self._clean_up_after_workers()

    def _clean_up_after_workers(self) -> None:
        """Remove temporary files of killed workers on this machine, during the run."""
        gone = self._workers_seen - self.scheduler.workers.keys()
        self._workers_seen = set(self.scheduler.workers)
        if gone and not self.scheduler.state.shutting_down:
            self.opened.remove_leftovers()

    def _explain_silence(self, now: float) -> None:
        silent = now - self.scheduler.state.moved_at
        if silent < _SILENCE_S:
            self._silence_to_explain = _SILENCE_S
        elif silent >= self._silence_to_explain:
            self._silence_to_explain = 2 * silent
            self._view.say(silence(silent, why_nothing_moves(self.scheduler.state)))


def _local_folder(opened: OpenRun, pipeline: str) -> str:
    """Return a local folder for stored failures: the run folder, if it is on this machine."""
    return opened.folder.path if "://" not in opened.folder.path else str(Path("penstock-runs") / pipeline)
