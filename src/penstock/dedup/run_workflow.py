"""The last steps of every deduplication workflow: write the kept documents, run the pipeline, return its counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.executor import Executor
from penstock.core.pipeline import Pipeline
from penstock.core.workflow import WorkflowRunResult
from penstock.dedup.inputs import Input, Stage, writer
from penstock.dedup.ownership import DEDUPLICATED
from penstock.dedup.stored_stage import use_folder_options
from penstock.dedup.work_folder import WorkFolder


def write_kept_documents(
    name: str, source: Input, decide: Stage, filetype: str, output_path: str, write_kwargs: dict[str, Any]
) -> list[Stage]:
    """Return the stages of the last pass: read the input again, drop what ``decide`` drops, and write the rest.

    The stage before them must emit exactly one task.
    """
    # Overwrite: files that an earlier run with other parameters wrote must not be mixed with those of this run.
    target = writer(filetype, f"{output_path}/{DEDUPLICATED}", write_kwargs=write_kwargs, mode="overwrite")
    return [*source.again(name, at_once=True, is_written_again=True), decide, target]


def run_stages(
    name: str,
    stages: Sequence[Stage],
    executor: Executor | None,
    work_folder: WorkFolder,
    started: float,
    numbers: Callable[[], dict[str, Any]],
    on_success: Callable[[], None] | None = None,
) -> WorkflowRunResult:
    """Run the stages of a workflow, return its result, and remove its work folder.

    The caller must hold the locks of the work folder. ``numbers`` is called after the run and returns metadata for
    the result. ``on_success`` is called after the run, only if nothing failed.
    """
    use_folder_options(stages, work_folder.folder_options)
    pipeline = Pipeline(name, stages=stages)
    pipeline.keeps_progress = True
    tasks = pipeline.run(executor)
    if on_success is not None:
        on_success()
    result = WorkflowRunResult(name.replace(" ", "_"))
    result.add_pipeline_tasks(name.replace(" ", "_"), tasks)
    result.extend_metadata(numbers())
    result.add_metadata("total_time", time.monotonic() - started)
    work_folder.clear()
    return result
