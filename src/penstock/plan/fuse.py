"""Group stages into pools: neighbours share a worker unless separating them has a benefit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.plan.plan import Pool


def fuse(stages: Sequence[ProcessingStage[Any, Any]], *, begins_with_source: bool = False) -> tuple[Pool, ...]:
    """Group stages into pools, with the reason for each boundary.

    ``begins_with_source`` says that the first stage creates the tasks.
    """
    groups: list[tuple[str, list[ProcessingStage[Any, Any]]]] = []
    for stage in stages:
        is_source = begins_with_source and len(groups) == 1 and len(groups[0][1]) == 1
        reason = _border(groups[-1][1], stage, is_source=is_source) if groups else ""
        if reason is None:
            groups[-1][1].append(stage)
        else:
            groups.append((reason, [stage]))
    pools = [_make_pool(members, reason) for reason, members in groups]
    return tuple(_with_unique_names(pools))


def _border(
    pool: Sequence[ProcessingStage[Any, Any]], stage: ProcessingStage[Any, Any], *, is_source: bool
) -> str | None:
    """Return why a stage cannot run in the workers of the pool before it, or None if it can."""
    last = pool[-1]
    need = _together([member.resources for member in pool])
    if is_source:
        return f"'{last.name}' is the source: its tasks spread over workers"
    if last.is_fanout_stage():
        return f"'{last.name}' turns one task into many, which spread over workers"
    if stage.is_barrier:
        return f"'{stage.name}' needs all of its input before it emits any output"
    if _fixed_workers(last) != _fixed_workers(stage):
        fixed = last if any(_fixed_workers(last)) else stage
        count = next(count for count in _fixed_workers(fixed) if count)
        return f"'{fixed.name}' asks for a fixed number of workers ({count:g})"
    if not _compatible(need, stage.resources):
        return f"a worker needs {stage.resources} from here on, {need} before"
    if stage.runtime_env != last.runtime_env:
        return f"'{stage.name}' runs in another environment than '{last.name}'"
    if stage.batch_size > 1 and stage.batch_size != _batch_size(pool):
        return f"'{stage.name}' takes {stage.batch_size} tasks at a time"
    if stage.worker_limits() != last.worker_limits():
        return f"'{stage.name}' replaces its workers at other limits than '{last.name}'"
    return None


def _fixed_workers(stage: ProcessingStage[Any, Any]) -> tuple[float | None, float | None]:
    return stage.num_workers(), stage.num_workers_per_node()


def _compatible(one: Resources, other: Resources) -> bool:
    """Tell whether one worker can serve both: the needs are equal, or both are at most one core and nothing else."""
    if one == other:
        return True
    both_small = one.cpus <= 1 and other.cpus <= 1
    return both_small and replace(one, cpus=0) == replace(other, cpus=0) and not one.requires_gpu


def _together(needs: Sequence[Resources]) -> Resources:
    return max(needs, key=lambda need: need.cpus)


def _batch_size(stages: Sequence[ProcessingStage[Any, Any]]) -> int:
    return max(stage.batch_size for stage in stages)


def _make_pool(stages: Sequence[ProcessingStage[Any, Any]], border: str) -> Pool:
    name = stages[0].name if len(stages) == 1 else f"{stages[0].name} … {stages[-1].name}"
    workers = {stage.num_workers() for stage in stages} - {None}
    return Pool(
        name=name,
        stages=tuple(stages),
        steps=tuple(_merge_neighbours(stages)),
        resources=_together([stage.resources for stage in stages]),
        batch_size=_batch_size(stages),
        num_workers=max((count for count in workers if count is not None), default=None),
        border=border,
    )


def _merge_neighbours(stages: Sequence[ProcessingStage[Any, Any]]) -> list[ProcessingStage[Any, Any]]:
    """Merge each stage with its neighbour where it supports that."""
    steps = [stages[0]]
    for stage in stages[1:]:
        merged = steps[-1].merge(stage)
        if merged is None:
            steps.append(stage)
        else:
            steps[-1] = merged
    return steps


def _with_unique_names(pools: Sequence[Pool]) -> list[Pool]:
    seen: dict[str, int] = {}
    unique = []
    for pool in pools:
        seen[pool.name] = seen.get(pool.name, 0) + 1
        unique.append(pool if seen[pool.name] == 1 else replace(pool, name=f"{pool.name} #{seen[pool.name]}"))
    return unique
