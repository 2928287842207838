"""Who descends from whom: ids and order of tasks, from lineage alone.

An id is a path. A stage that gives one task for one task keeps the id; a list appends the position
(``0_3`` gives ``0_3_0``, ``0_3_1``); a source appends what its content hashes to, so that a new file renames
nobody. A task made from several parents is named after all of them. Nothing here depends on chance, on time or
on the order in which workers finish.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.core.perf import StagePerfStats
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
    _inherit(_heritage((parent,)), child, parent.task_id, parent._order)


def adopt_many(parent: Task[Any], children: Sequence[Task[Any]]) -> None:
    """Name the children of one task after their position, or, at a source, after their content."""
    name, order, heritage = parent.task_id, parent._order, _heritage((parent,))  # it may be among its own children
    suffixes = _names_by_content(children) if isinstance(parent, EmptyTask) else map(str, range(len(children)))
    for position, (child, suffix) in enumerate(zip(children, suffixes, strict=True)):
        _inherit(heritage, child, f"{name}_{suffix}", (*order, position))


def adopt_nth(parent: Task[Any], child: Task[Any], position: int) -> None:
    """Name a child that comes alone, as it would be named in a list."""
    _inherit(_heritage((parent,)), child, f"{parent.task_id}_{position}", (*parent._order, position))


def adopt_jointly(parents: Sequence[Task[Any]], children: Sequence[Task[Any]]) -> None:
    """Name the children of several tasks taken together: after all the parents, and their position."""
    digest = hashlib.sha256("|".join(sorted(parent.task_id for parent in parents)).encode()).hexdigest()[:12]
    order, heritage = min(parent._order for parent in parents), _heritage(parents)
    for position, child in enumerate(children):
        _inherit(heritage, child, f"{ROOT_ID}_m{digest}_{position}", (*order, position))


def adopt_anew(stage: str, parents: Sequence[Task[Any]], children: Sequence[Task[Any]]) -> None:
    """Name children that only waited for their parents: after the stage and their content, as at a source.

    All of them belong to the sources of all parents. It is enough that the first one says so and the others name one of
    these sources: where there are as many children as sources, nobody could hold all names for each.
    """
    order = min(parent._order for parent in parents)
    heritage = _heritage(parents)._replace(metadata={}, records=[])
    for position, (child, name) in enumerate(zip(children, _names_by_content(children), strict=True)):
        _inherit(heritage, child, f"{ROOT_ID}_{stage}_{name}", (*order, position))
        heritage = heritage._replace(sources=heritage.sources[:1])


def _names_by_content(children: Sequence[Task[Any]]) -> Iterator[str]:
    """Return a name for each child from what it holds, or its position."""
    taken: set[str] = set()
    for position, child in enumerate(children):
        name = child.get_deterministic_id() or str(position)
        if name in taken:  # the same files listed twice are two tasks
            name = f"{name}-{position}"
        taken.add(name)
        yield name


class _Heritage(NamedTuple):
    """What the parents of a task hand down to it."""

    parents: Sequence[Task[Any]]
    sources: tuple[str, ...]
    metadata: dict[str, Any]
    records: list[StagePerfStats]


def _heritage(parents: Sequence[Task[Any]]) -> _Heritage:
    """Put together what parents hand down: once for all their children, of which there may be as many."""
    if len(parents) == 1:
        [parent] = parents
        return _Heritage(parents, parent._sources, parent._metadata, list(parent._stage_perf))
    sources = dict.fromkeys(source for parent in parents for source in parent._sources)
    metadata: dict[str, Any] = {}
    # One record per stage: with one per stage and parent, every barrier would multiply them.
    records: dict[str, StagePerfStats] = {}
    for parent in parents:
        metadata.update(parent._metadata)
        for record in parent._stage_perf:
            known = records.get(record.stage_name)
            records[record.stage_name] = record if known is None else known + record
    return _Heritage(parents, tuple(sources), metadata, list(records.values()))


def _inherit(heritage: _Heritage, child: Task[Any], task_id: str, order: tuple[int, ...]) -> None:
    """Give a child its name, and whatever its parents carry that the stage did not set itself."""
    parents = heritage.parents
    child.task_id, child._order = task_id, order
    child._sources = heritage.sources or (task_id,)
    if any(child is parent for parent in parents):
        return
    child.dataset_name = child.dataset_name or parents[0].dataset_name
    child._metadata = {**heritage.metadata, **child._metadata}
    # A copy: siblings that share their parent's list would count each other's stages.
    child._stage_perf = list(child._stage_perf) or list(heritage.records)
    if len(parents) == 1:
        child.descend_from(parents[0])
