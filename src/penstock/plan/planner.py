"""Make a plan from stages: check, fuse into pools, partition the sources."""

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

    ``listing`` holds the files of each source by the position of its stage, and ``known_mistakes`` the errors found
    while listing them: this function reads no file system.
    """
    found = check(stages, cluster, initial_tasks, with_checkpoint=with_checkpoint)
    mistakes = list(dict.fromkeys([*known_mistakes, *found]))
    if mistakes:
        raise PlanError(name, mistakes)
    pools = fuse(stages, begins_with_source=initial_tasks is None)
    return Plan(name, pools, cluster, partition(stages, listing or {}), listing or {})
