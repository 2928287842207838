"""Describe a plan as text: pools, their stages, resources, the reason for each pool boundary, expected bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.core.sizes import human_bytes, plural
from penstock.core.stage import ProcessingStage
from penstock.plan.plan import Plan, Pool, SourcePartition


def explain(plan: Plan) -> str:
    """Return the plan as text."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    yield f"Plan of '{plan.pipeline}' for {plan.cluster}"
    for source in plan.sources:
        yield f"Input: {_input(source)}"
    expected = _expected_bytes(plan)
    number = 0
    for position, (pool, expectation) in enumerate(zip(plan.pools, expected, strict=True), start=1):
        yield ""
        yield f"Pool {position}: {pool.name}"
        if pool.border:
            yield f"  apart because  {pool.border}"
        yield f"  a worker       {pool.resources}{_batch(pool)}"
        yield f"  workers        {_workers(pool)}"
        if expectation:
            yield f"  expected       {expectation}"
        width = max(len(part.name) for step in pool.steps for part in step.parts())
        for step in pool.steps:
            parts = step.parts()
            for stage, bracket in zip(parts, _bracket(len(parts)), strict=True):
                number += 1
                yield f"  {number:>3}. {stage.name:<{width}}  {bracket}{_where(stage)}".rstrip()


def _bracket(count: int) -> list[str]:
    """Draw the bracket around stages that merged into one step."""
    return [""] if count == 1 else ["┐", *["│"] * (count - 2), "┘ in one pass"]


def _input(source: SourcePartition) -> str:
    return (
        f"{plural(source.files, 'file')}, {human_bytes(source.bytes)}, in {plural(source.tasks, 'task')} "
        f"of at most {human_bytes(source.largest_task_bytes)} as stored"
    )


def _expected_bytes(plan: Plan) -> list[str]:
    """Return an upper bound for the input of each pool; how much filters keep is unknown before the run."""
    total = sum(source.bytes for source in plan.sources)
    tasks = sum(source.tasks for source in plan.sources)
    if not tasks:
        return ["" for _ in plan.pools]
    names = plural(tasks, "task")
    return [
        f"one listing, {names} out" if position == 0 else f"{names}, at most {human_bytes(total)} as stored"
        for position, _ in enumerate(plan.pools)
    ]


def _where(stage: ProcessingStage[Any, Any]) -> str:
    reads, writes = stage.reads_from(), stage.writes_to()
    return (f"reads {', '.join(reads)}" if reads else "") + (f"writes {writes}" if writes else "")


def _workers(pool: Pool) -> str:
    return "as many as keep up" if pool.num_workers is None else f"{pool.num_workers}, fixed by the stage"


def _batch(pool: Pool) -> str:
    return f", {pool.batch_size} tasks at a time" if pool.batch_size > 1 else ""
