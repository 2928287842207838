"""How a workflow ends: what stays is written, the pipeline runs, its numbers are told, its workplace is cleared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.executor import Executor
from penstock.core.pipeline import Pipeline
from penstock.core.workflow import WorkflowRunResult
from penstock.dedup.inputs import Input, Stage, writer
from penstock.dedup.ownership import DEDUPLICATED
from penstock.dedup.work_folder import WorkFolder


def write_what_stays(
    name: str, source: Input, decide: Stage, filetype: str, output_path: str, write_kwargs: dict[str, Any]
) -> list[Stage]:
    """Return the stages of the last pass: read everything, let a stage decide, and write what it leaves.

    They stand behind a stage that gives one task.
    """
    # Its own folder: what an earlier run with other parameters left there must not be taken for this one's.
    target = writer(filetype, f"{output_path}/{DEDUPLICATED}", write_kwargs=write_kwargs, mode="overwrite")
    return [*source.again(name, at_once=True, is_written_again=True), decide, target]


def run_to_end(
    name: str,
    stages: Sequence[Stage],
    executor: Executor | None,
    place: WorkFolder,
    started: float,
    numbers: Callable[[], dict[str, Any]],
    when_all_is_well: Callable[[], None] | None = None,
) -> WorkflowRunResult:
    """Run the stages of a workflow, and return what came of it; ``numbers`` are asked for when it is over.

    The workplace must be held. ``when_all_is_well`` is done at last, and only if nothing failed.
    """
    for stage in stages:
        stage.__dict__["_reach"] = place.reach  # known in every process that one of them gets to
    pipeline = Pipeline(name, stages=stages)
    pipeline.keeps_progress = True
    tasks = pipeline.run(executor)
    if when_all_is_well is not None:
        when_all_is_well()
    result = WorkflowRunResult(name.replace(" ", "_"))
    result.add_pipeline_tasks(name.replace(" ", "_"), tasks)
    result.extend_metadata(numbers())
    result.add_metadata("total_time", time.monotonic() - started)
    place.clear()
    return result
