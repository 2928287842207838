"""Plan a pipeline: do the I/O, such as listing input files, that the pure planner must not do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.core.cluster import Cluster
from penstock.core.files import SizedFile
from penstock.core.pipeline import Pipeline
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.errors import InputError, PlanError
from penstock.plan.check import say_overlap
from penstock.plan.plan import Plan
from penstock.plan.planner import make_plan
from penstock.runtime.machine import GB
from penstock.storage.same_place import first_inside, overlap, resolved


def plan_pipeline(
    pipeline: Pipeline,
    cluster: Cluster,
    initial_tasks: Sequence[Task[Any]] | None = None,
    *,
    with_checkpoint: bool = False,
    memory_budget: int | None = None,
) -> Plan:
    """Decompose composite stages, list the input files, and make a plan; report all mistakes in one error."""
    try:
        stages = pipeline.build()
    except ValueError as error:
        raise PlanError(pipeline.name, [str(error)]) from error
    memory_per_worker = min((node.memory_gb / max(node.cpus, 1) for node in cluster.nodes), default=0.0) * GB
    for stage in stages:
        stage.fit_to(memory_per_worker, memory_budget)
    listing, unreadable = _look_up_sources(stages)
    return make_plan(
        pipeline.name,
        stages,
        cluster,
        listing=listing,
        initial_tasks=initial_tasks,
        with_checkpoint=with_checkpoint,
        known_mistakes=[*unreadable, *_overwritten(stages, listing)],
    )


def _overwritten(
    stages: Sequence[ProcessingStage[Any, Any]], listing: Mapping[int, Sequence[SizedFile]]
) -> Iterator[str]:
    """Yield a message for each output that overlaps with an input, after resolving symbolic links."""
    for stage in stages:
        target = stage.writes_to()
        if target is None:
            continue
        try:
            place = resolved(target, _options(stage))
            for position, reader in enumerate(stages):
                given = (resolved(path, _options(reader)) for path in reader.reads_from())
                files = (file.path for file in listing.get(position, ()))
                if any(overlap(place, path) for path in given) or first_inside(files, place):
                    yield say_overlap(stage.name, target, reader.name)
        except InputError as error:
            yield f"stage '{stage.name}': {error}"


def _options(stage: ProcessingStage[Any, Any]) -> dict[str, Any] | None:
    options: dict[str, Any] | None = getattr(stage, "storage_options", None)
    return options


def _look_up_sources(
    stages: Sequence[ProcessingStage[Any, Any]],
) -> tuple[dict[int, list[SizedFile]], list[str]]:
    """Return the files of each source by the position of its stage, and error messages of unreadable sources."""
    listing: dict[int, list[SizedFile]] = {}
    mistakes: list[str] = []
    for position, stage in enumerate(stages):
        try:
            files = stage.source_files()
        except InputError as error:
            mistakes.append(f"stage '{stage.name}': {error}")
            continue
        if files is not None:
            listing[position] = files
    return listing, mistakes
