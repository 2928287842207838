"""How every run begins, whoever runs it: plan, checkpoint, run folder, and a last look at the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.core.cluster import Cluster
from penstock.core.pipeline import Pipeline
from penstock.core.task import Task
from penstock.errors import OutputError, PlanError
from penstock.ledger.forgetting import forget_tasks
from penstock.ledger.keeping import KeptLedger, clear_ledger, open_ledger
from penstock.plan.plan import Plan
from penstock.runtime.changed_input import withdraw_changed
from penstock.runtime.fingerprint import fingerprint
from penstock.runtime.planning import plan_pipeline
from penstock.storage.filesystem import require_working_folder
from penstock.storage.journal import Journal
from penstock.storage.run_folder import RunFolder, beside_output


@dataclass
class OpenRun:
    """A run that may begin."""

    plan: Plan
    journal: Journal | None
    folder: RunFolder
    # Where the last writer writes, if there is one.
    output: str | None
    # Whether the run folder was chosen by the user, so that it is written even if there is little to say.
    folder_asked_for: bool
    # Where workers note what was decided of each document; None: nobody wants to know.
    ledger: KeptLedger | None = None

    def close(self) -> None:
        """Close the files."""
        self.folder.close()
        if self.journal is not None:
            self.journal.close()

    def tidy(self) -> None:
        """Put in order what the workers wrote, once all of them are done."""
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
    """Plan a run and open what it writes to; raise before anything was touched if it cannot run."""
    require_working_folder()
    plan = plan_pipeline(
        pipeline,
        cluster,
        initial_tasks,
        with_checkpoint=checkpoint_path is not None,
        memory_budget=memory_budget,
    )
    journal = None
    if checkpoint_path is not None:
        journal = Journal(checkpoint_path, fingerprint(plan.stages, initial_tasks))
    writer = next((stage for stage in reversed(plan.stages) if stage.writes_to() is not None), None)
    output = writer.writes_to() if writer is not None else None
    options = getattr(writer, "storage_options", None)
    folder = RunFolder(run_dir) if run_dir else beside_output(output, pipeline.name, options)
    run = OpenRun(plan, journal, folder, output, bool(run_dir))
    try:
        # Before the input is listed nothing has been written, and what is there is not of this run.
        resuming = journal is not None and journal.input is not None
        _before_run(plan, resuming=resuming)
        if journal is not None:
            forget = partial(forget_tasks, folder.path, storage_options=folder.storage_options)
            withdraw_changed(plan, journal, initial_tasks, forget)
        folder.clear()
        if ledger and run.has_something_to_say:
            run.ledger = open_ledger(
                folder.path, plan, output, resuming=resuming, storage_options=folder.storage_options
            )
        elif not resuming:
            clear_ledger(folder.path, folder.storage_options)
    except BaseException:
        run.close()
        raise
    return run


def how_to_resume(pipeline: Pipeline, done: int, checkpoint_path: str | Path | None) -> str:
    """Say what a stopped run leaves behind."""
    name = pipeline.name
    if pipeline.keeps_progress:
        return f"'{name}' stopped. Run the same again to go on: what is complete is not done again."
    if checkpoint_path is None:
        return f"'{name}' stopped; {done} source tasks were complete. With a checkpoint_path it could be resumed."
    return f"'{name}' stopped; {done} source tasks are complete. Run it with checkpoint {checkpoint_path} to go on."


def _before_run(plan: Plan, *, resuming: bool) -> None:
    """Let every stage look at the world once; what it cannot live with stops the run before it starts."""
    mistakes = []
    for stage in plan.stages:
        try:
            stage.before_run(resuming=resuming)
        except OutputError as error:
            mistakes.append(f"stage '{stage.name}': {error}")
    if mistakes:
        raise PlanError(plan.pipeline, mistakes)
