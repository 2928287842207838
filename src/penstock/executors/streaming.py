"""Executor that uses all cores and GPUs, and decides how many workers each stage needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from penstock.backends.backend import Venue
from penstock.backends.gc_tuning import rarely_searched
from penstock.backends.local.folders import spill_folder
from penstock.backends.local.venue import LocalVenue
from penstock.backends.ray.venue import RayVenue, is_at_hand
from penstock.core.lineage import root_tasks
from penstock.core.pipeline import Pipeline
from penstock.core.sizes import parse_bytes, plural
from penstock.core.task import Task
from penstock.errors import OutputError, StageError, Terminated, suggestion
from penstock.executors.open_run import OpenRun, how_to_resume, open_run
from penstock.executors.stop_signals import StopSignals
from penstock.executors.streaming_run import StreamingRun, Terms
from penstock.monitor.console import say_on_stderr
from penstock.monitor.summary import RunSummary
from penstock.runtime.blame import row_in_words

_DEFAULTS: dict[str, Any] = {
    "logging_interval": 60,
    "ignore_failures": False,
    "execution_mode": "streaming",
    "cpu_allocation_percentage": 0.95,
    "autoscale_interval_s": 180,
    "place_timeout_s": 120,
    "start_timeout_s": 3600,
    "stall_timeout_s": 600,
}


class StreamingExecutor:
    """Run a pipeline on all cores and GPUs, and decide how many workers each stage gets.

    ``backend`` is ``"local"`` (this machine) or ``"ray"`` (a cluster). The default is the Ray cluster that
    ``RAY_ADDRESS`` names or that this process is connected to; without one, this machine. ``ignore_head_node`` starts
    no workers on the head node of the cluster; ``runtime_env`` is Ray's runtime environment for all workers.

    ``config`` may contain ``logging_interval``, ``ignore_failures``, ``execution_mode``,
    ``cpu_allocation_percentage``, ``autoscale_interval_s``, and three timeouts: ``place_timeout_s`` (until Ray has
    resources for a worker), ``start_timeout_s`` (until the worker is ready) and ``stall_timeout_s`` (without a message
    from a worker; a task of a worker that is alive may take longer). ``memory_budget`` limits the bytes stored between
    stages ("4GiB"; default: a share of the free memory). ``cpus``, ``gpus`` and ``gpu_memory_gb`` replace the detected
    values. With ``ignore_failures`` a run continues past rows that cannot be processed, up to ``max_failed`` of them (a
    count, or a share of all rows). The speed of each stage is stored in the user's cache folder, so that the next run
    starts balanced; ``profile=False`` neither reads nor writes it. ``ledger=False`` keeps no receipts for
    ``penstock why``.

    >>> executor = StreamingExecutor({"logging_interval": 60}, memory_budget="4GiB", show_progress=False)
    >>> pipeline.run(executor)  # doctest: +SKIP
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
        self._claims = (cpus, gpus, gpu_memory_gb)
        self._run_dir = run_dir
        self._terms = Terms(
            memory_budget=parse_bytes(memory_budget) if memory_budget is not None else None,
            spill_dir=spill_dir,
            task_timeout_s=task_timeout_s,
            max_attempts=max_retries + 1,
            max_failed=max_failed,
            ignore_failures=bool(self._config["ignore_failures"]),
            batch_mode=self._config["execution_mode"] == "batch",
            autoscale_interval_s=float(self._config["autoscale_interval_s"]),
            logging_interval_s=float(self._config["logging_interval"]),
            place_timeout_s=float(self._config["place_timeout_s"]),
            start_timeout_s=float(self._config["start_timeout_s"]),
            stall_timeout_s=float(self._config["stall_timeout_s"]),
            show_progress=show_progress,
            profile=profile,
        )
        self.ledger = ledger
        self.last_summary: RunSummary | None = None
        # Peak memory of all workers together in the last run, in bytes.
        self.peak_resident = 0

    def execute(
        self,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Task[Any]]:
        """Run the pipeline and return the outputs of its last stage, in the order of the input."""
        with StopSignals() as stop:
            venue = self._venue()
            try:
                with rarely_searched():
                    return self._execute(stop, venue, pipeline, initial_tasks, checkpoint_path)
            finally:
                with stop.held():
                    venue.close()

    def _execute(
        self,
        stop: StopSignals,
        venue: Venue,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None,
        checkpoint_path: str | Path | None,
    ) -> list[Task[Any]]:
        budget = self._terms.memory_budget
        with open_run(
            pipeline, venue.cluster, initial_tasks, checkpoint_path, self._run_dir, budget, ledger=self.ledger
        ) as opened:
            return self._run(stop, opened, venue, pipeline, initial_tasks, checkpoint_path)

    def _run(
        self,
        stop: StopSignals,
        opened: OpenRun,
        venue: Venue,
        pipeline: Pipeline,
        initial_tasks: Sequence[Task[Any]] | None,
        checkpoint_path: str | Path | None,
    ) -> list[Task[Any]]:
        try:
            run = StreamingRun(opened, venue, self._terms)
        except BaseException:  # such as Ctrl-C while waiting for resources
            opened.close()
            raise
        try:
            run.run(root_tasks(initial_tasks), stop, given=initial_tasks is not None)
            if run.scheduler.fatal is None:
                with stop.held():
                    opened.tidy()
        except (KeyboardInterrupt, Terminated):
            say_on_stderr(how_to_resume(pipeline, run.record.settlement.sources_done, checkpoint_path))
            if opened.output is not None and not pipeline.keeps_progress:
                say_on_stderr(f"Written so far: {opened.output}")
            raise
        finally:
            is_over = run.scheduler.fatal is not None or sys.exc_info()[0] is not None
            with stop.held():
                opened.close()
                self.peak_resident = run.peak_resident
                self.last_summary = run.summary()
                if opened.has_something_to_say:
                    # Report the error that ended the run, not a summary that cannot be written.
                    with suppress(OutputError) if is_over else nullcontext():
                        opened.folder.write_summary(self.last_summary.to_dict())
        if stop.is_asked_for:
            say_on_stderr(f"'{pipeline.name}' had done all of its work when it was stopped.")
        if self._terms.show_progress:
            self.last_summary.print()
        run.check_counts()
        self._judge(run)
        if self._terms.profile:
            run.keep_speeds()
        return run.record.settlement.results()

    def _judge(self, run: StreamingRun) -> None:
        """Raise if the run failed, or if more rows failed than allowed."""
        if run.scheduler.fatal is not None:
            raise StageError(run.scheduler.fatal)
        failed, first = run.record.failed, run.record.first_failure
        if not failed or first is None or (self._config["ignore_failures"] and not self._too_many(run)):
            return
        rest = "the run was stopped" if run.scheduler.stopping else "all others were"
        before = len(run.record.settlement.failed_before)
        lines = [
            f"{plural(failed, 'input item')} could not be processed; {rest}.",
            f"{before} of them failed in the run that this one resumes; without its checkpoint they are tried again."
            if before
            else "",
            f"The first: {first.reason} (task {first.task_id}).",
            f"The row: {row_in_words(first)}",
            f"All of them: {run.opened.folder.dead_letters}",
            f"To see it fail: {first.reproduce}" if first.reproduce else "",
            f"To continue past more of them: a larger max_failed than {self._terms.max_failed:g}."
            if self._config["ignore_failures"] and self._terms.max_failed is not None
            else "To continue past such rows: config={'ignore_failures': True}.",
        ]
        raise StageError("\n  ".join(line for line in lines if line))

    def _too_many(self, run: StreamingRun) -> bool:
        most = self._terms.max_failed
        if most is None:
            return False
        rows = max((c.items_in for counters in run.record.counters for c in counters), default=0)
        return run.record.failed > (most * rows if 0 < most < 1 else most)

    def _venue(self) -> Venue:
        """Return where the run takes place: this machine or a Ray cluster."""
        cpus, gpus, gpu_memory_gb = self._claims
        cpu_share = float(self._config["cpu_allocation_percentage"])
        # Explicit ``cpus`` or ``gpus`` imply the local backend.
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
        spill_folder(self._terms.spill_dir)  # raise before anything is written
        return LocalVenue(cpus, gpus, gpu_memory_gb, cpu_share)


def _checked(config: dict[str, Any]) -> dict[str, Any]:
    for key in config:
        if key not in _DEFAULTS:
            raise ValueError(
                f"StreamingExecutor: unknown setting '{key}'; it has {', '.join(_DEFAULTS)}."
                f"{suggestion(key, _DEFAULTS)}"
            )
    for key in ("place_timeout_s", "start_timeout_s", "stall_timeout_s"):
        if not float(config.get(key, _DEFAULTS[key])) > 0:
            raise ValueError(f"StreamingExecutor: {key}={config[key]!r}; it has to be more than 0 seconds.")
    mode = config.get("execution_mode", "streaming")
    if mode not in ("streaming", "batch"):
        raise ValueError(f"StreamingExecutor: execution_mode={mode!r}; it is 'streaming' or 'batch'.")
    return config
