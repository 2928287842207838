"""Open a run for any executor: plan, locks, checkpoint, run folder, and the checks before the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from penstock.core.cluster import Cluster
from penstock.core.pipeline import Pipeline
from penstock.core.task import Task
from penstock.errors import OutputError, PlanError
from penstock.executors.changed_input import withdraw_changed
from penstock.executors.origins import origins_of
from penstock.executors.planning import plan_pipeline
from penstock.ledger.record.run_ledger import KeptLedger, clear_ledger, open_ledger
from penstock.ledger.store.removal import forget_tasks
from penstock.plan.plan import Plan
from penstock.runtime.fingerprint import fingerprint
from penstock.storage.filesystem import filesystem_of, require_working_folder
from penstock.storage.journal import Journal
from penstock.storage.leftovers import remove_leftovers
from penstock.storage.run_folder import FOLDER_NAME, LOCK, RunFolder, beside_output
from penstock.storage.run_lock import RunLock
from penstock.storage.same_place import is_inside, resolved


@dataclass
class OpenRun:
    """A run that is ready to start."""

    plan: Plan
    journal: Journal | None
    folder: RunFolder
    # The output folder of the last writer, if there is one.
    output: str | None
    # Whether the user chose the run folder, so that a summary is always written.
    folder_asked_for: bool
    # Where workers record the decisions about each document; None: no ledger.
    ledger: KeptLedger | None = None
    # Keep other runs out of every folder that this one writes into.
    locks: list[RunLock] = field(default_factory=list)
    # Whether all locks are held: until then another run may be writing.
    has_locks: bool = False

    def __enter__(self) -> Self:
        """Return the run, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files, remove temporary files of killed workers, and release the locks."""
        self.close()
        for stage in self.plan.stages:
            stage.know_origins(())
        if self.has_locks:
            self.remove_leftovers(no_other_writer=True)
        for lock in self.locks:
            lock.release()

    def remove_leftovers(self, *, no_other_writer: bool = False) -> None:
        """Remove temporary files of killed workers (see ``storage.leftovers``)."""
        for stage in self.plan.stages:
            target, options = stage.writes_to(), getattr(stage, "storage_options", None)
            if target is not None:
                remove_leftovers(target, options, no_other_writer=no_other_writer)
        # A run folder that is not in a locked output may be shared with another run.
        alone = no_other_writer and bool(self.locks) and not self.folder_asked_for
        remove_leftovers(self.folder.path, self.folder.storage_options, below=True, no_other_writer=alone)

    def close(self) -> None:
        """Close the files."""
        self.folder.close()
        if self.journal is not None:
            self.journal.close()

    def tidy(self) -> None:
        """Merge the ledger files of the workers, after all of them have ended."""
        if self.ledger is not None:
            self.ledger.tidy()

    @property
    def has_something_to_say(self) -> bool:
        """Whether a summary should be written."""
        return self.output is not None or self.folder.num_dead_letters > 0 or self.folder_asked_for


def open_run(
    pipeline: Pipeline,
    cluster: Cluster,
    initial_tasks: Sequence[Task[Any]] | None,
    checkpoint_path: str | Path | None,
    run_dir: str | None,
    memory_budget: int | None = None,
    *,
    ledger: bool = True,
) -> OpenRun:
    """Plan a run and open its outputs; raise before anything is changed if it cannot run."""
    require_working_folder()
    plan = plan_pipeline(
        pipeline,
        cluster,
        initial_tasks,
        with_checkpoint=checkpoint_path is not None,
        memory_budget=memory_budget,
    )
    writer = next((stage for stage in reversed(plan.stages) if stage.writes_to() is not None), None)
    output = writer.writes_to() if writer is not None else None
    options = getattr(writer, "storage_options", None)
    folder = RunFolder(run_dir) if run_dir else beside_output(output, pipeline.name, options)
    run = OpenRun(plan, None, folder, output, bool(run_dir))
    _refuse_input_in_run_folder(run)
    try:
        # Before the checkpoint is opened: another run may be writing it as well.
        _lock_outputs(run)
        if checkpoint_path is not None:
            run.journal = Journal(checkpoint_path, fingerprint(plan.stages, initial_tasks))
        # A journal without an input listing is that of a run which has not written any output.
        resuming = run.journal is not None and run.journal.input is not None
        run.remove_leftovers(no_other_writer=True)
        origins = origins_of(plan, initial_tasks) if output is not None else []
        _before_run(plan, origins, resuming=resuming)
        if run.journal is not None:
            forget = partial(forget_tasks, folder.path, storage_options=folder.storage_options)
            withdraw_changed(plan, run.journal, initial_tasks, forget)
        folder.clear()
        if ledger and run.has_something_to_say:
            run.ledger = open_ledger(
                folder.path, plan, output, resuming=resuming, storage_options=folder.storage_options
            )
        elif not resuming:
            clear_ledger(folder.path, folder.storage_options)
    except BaseException:
        run.__exit__()
        raise
    return run


def how_to_resume(pipeline: Pipeline, done: int, checkpoint_path: str | Path | None) -> str:
    """Return a message about how to resume a stopped run."""
    name = pipeline.name
    if pipeline.keeps_progress:
        return f"'{name}' stopped. Run it again to resume: completed work is not repeated."
    if checkpoint_path is None:
        return f"'{name}' stopped; {done} source tasks were complete. With a checkpoint_path it could be resumed."
    return f"'{name}' stopped; {done} source tasks are complete. Run it with checkpoint {checkpoint_path} to resume."


def _lock_outputs(run: OpenRun) -> None:
    """Lock every folder that the run writes to; raise if another run holds one of the locks."""
    targets = {stage.writes_to(): getattr(stage, "storage_options", None) for stage in run.plan.stages}
    for target, options in targets.items():
        if target is None:
            continue
        filesystem, name = filesystem_of(target, options)
        if filesystem.isfile(name):
            continue  # the writer refuses an output path that is a file
        lock = RunLock(f"{target.rstrip('/')}/{FOLDER_NAME}/{LOCK}", options, removes_folder=True)
        lock.take()
        run.locks.append(lock)
    run.has_locks = True


def _refuse_input_in_run_folder(run: OpenRun) -> None:
    """Raise if clearing the run folder would remove an input, or if ``run_dir`` is inside an input folder."""
    mistakes = []
    for stage in run.plan.stages:
        for path in stage.reads_from():
            place = resolved(path, getattr(stage, "storage_options", None))
            cleared = [resolved(each, run.folder.storage_options) for each in run.folder.cleared]
            chosen = resolved(run.folder.path, run.folder.storage_options)
            if any(is_inside(place, each) for each in cleared) or (run.folder_asked_for and is_inside(chosen, place)):
                mistakes.append(
                    f"stage '{stage.name}' reads {path}, which overlaps with the run folder {run.folder.path}; "
                    "set another run_dir"
                )
    if mistakes:
        raise PlanError(run.plan.pipeline, mistakes)


def _before_run(plan: Plan, origins: Sequence[str], *, resuming: bool) -> None:
    """Call ``before_run`` of every stage; raise all errors together before the run starts."""
    mistakes = []
    for stage in plan.stages:
        try:
            stage.know_origins(origins)
            stage.before_run(resuming=resuming)
        except OutputError as error:
            mistakes.append(f"stage '{stage.name}': {error}")
    if mistakes:
        raise PlanError(plan.pipeline, mistakes)
