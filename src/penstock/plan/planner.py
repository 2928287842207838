"""Stages in, plan out: check, partition, fuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.cluster import Cluster
from penstock.core.files import SizedFile
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.errors import PlanError
from penstock.plan.check import check
from penstock.plan.fuse import fuse
from penstock.plan.partition import partition
from penstock.plan.plan import Plan


def make_plan(
    name: str,
    stages: Sequence[ProcessingStage[Any, Any]],
    cluster: Cluster,
    *,
    listing: Mapping[int, Sequence[SizedFile]] | None = None,
    initial_tasks: Sequence[Task[Any]] | None = None,
    with_checkpoint: bool = False,
    known_mistakes: Sequence[str] = (),
) -> Plan:
    """Return the plan, or raise one error that lists every mistake.

    ``listing`` is what was found at the sources, by position of their stage, and ``known_mistakes`` what went wrong
    in looking: this function itself looks nowhere.
    """
    found = check(stages, cluster, initial_tasks, with_checkpoint=with_checkpoint)
    mistakes = list(dict.fromkeys([*known_mistakes, *found]))
    if mistakes:
        raise PlanError(name, mistakes)
    pools = fuse(stages, begins_with_source=initial_tasks is None)
    return Plan(name, pools, cluster, partition(stages, listing or {}), listing or {})
