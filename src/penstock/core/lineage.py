"""Who descends from whom: ids and order of tasks, from lineage alone.

An id is a path. A stage that gives one task for one task keeps the id; a list appends the position
(``0_3`` gives ``0_3_0``, ``0_3_1``); a source appends what its content hashes to, so that a new file renames
nobody. A task made from several parents is named after all of them. Nothing here depends on chance, on time or
on the order in which workers finish.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

from penstock.core.task import EmptyTask, Task

ROOT_ID = "0"


def root_tasks(initial_tasks: Sequence[Task[Any]] | None) -> list[Task[Any]]:
    """Return the tasks a run begins with, named: copies of the user's own, or one empty task."""
    if initial_tasks is None:
        root = EmptyTask()
        root.task_id, root._order = ROOT_ID, (0,)
        return [root]
    roots = []
    for position, given in enumerate(initial_tasks):
        task = copy.copy(given)
        task._metadata, task._stage_perf = dict(given._metadata), list(given._stage_perf)
        task.task_id, task._order = f"{ROOT_ID}_{position}", (0, position)
        task._sources = (task.task_id,)
        roots.append(task)
    return roots


def adopt_one(parent: Task[Any], child: Task[Any]) -> None:
    """Name the only child of a task: it keeps the parent's name."""
    _inherit((parent,), child, parent.task_id, parent._order)


def adopt_many(parent: Task[Any], children: Sequence[Task[Any]]) -> None:
    """Name the children of one task after their position, or, at a source, after their content."""
    taken: set[str] = set()
    name, order = parent.task_id, parent._order  # a task may be among its own children
    for position, child in enumerate(children):
        suffix = str(position)
        if isinstance(parent, EmptyTask):
            suffix = child.get_deterministic_id() or suffix
            if suffix in taken:  # the same files listed twice are two tasks
                suffix = f"{suffix}-{position}"
            taken.add(suffix)
        _inherit((parent,), child, f"{name}_{suffix}", (*order, position))


def adopt_nth(parent: Task[Any], child: Task[Any], position: int) -> None:
    """Name a child that comes alone, as it would be named in a list."""
    _inherit((parent,), child, f"{parent.task_id}_{position}", (*parent._order, position))


def adopt_jointly(parents: Sequence[Task[Any]], children: Sequence[Task[Any]]) -> None:
    """Name the children of several tasks taken together: after all the parents, and their position."""
    digest = hashlib.sha256("|".join(sorted(parent.task_id for parent in parents)).encode()).hexdigest()[:12]
    order = min(parent._order for parent in parents)
    for position, child in enumerate(children):
        _inherit(parents, child, f"{ROOT_ID}_m{digest}_{position}", (*order, position))


def _inherit(parents: Sequence[Task[Any]], child: Task[Any], task_id: str, order: tuple[int, ...]) -> None:
    """Give a child its name, and whatever its parents carry that the stage did not set itself."""
    child.task_id, child._order = task_id, order
    inherited = dict.fromkeys(source for parent in parents for source in parent._sources)
    child._sources = tuple(inherited) or (task_id,)
    if any(child is parent for parent in parents):
        return
    child.dataset_name = child.dataset_name or parents[0].dataset_name
    for parent in parents:
        child._metadata = {**parent._metadata, **child._metadata}
    # A copy: siblings that share their parent's list would count each other's stages.
    child._stage_perf = list(child._stage_perf) or [record for parent in parents for record in parent._stage_perf]
    if len(parents) == 1:
        child.descend_from(parents[0])
