"""Ids and order of tasks, derived from lineage alone.

An id is a path. A stage that returns one task for one task keeps the id; a list appends the position
(``0_3`` becomes ``0_3_0``, ``0_3_1``); a source appends a hash of the content, so that a new file does not change the
ids of the others. A task made from several parents gets an id from all of theirs. Nothing here depends on randomness,
on time or on the order in which workers finish.
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
    """Return the tasks a run begins with and set their ids: copies of the user's tasks, or one empty task."""
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
    """Set the id of the only child of a task: it is the parent's id."""
    _inherit(_heritage((parent,)), child, parent.task_id, parent._order)


def adopt_many(parent: Task[Any], children: Sequence[Task[Any]]) -> None:
    """Set the ids of the children of one task, from their positions or, at a source, from their content."""
    name, order, heritage = parent.task_id, parent._order, _heritage((parent,))  # it may be among its own children
    suffixes = _names_by_content(children) if isinstance(parent, EmptyTask) else map(str, range(len(children)))
    for position, (child, suffix) in enumerate(zip(children, suffixes, strict=True)):
        _inherit(heritage, child, f"{name}_{suffix}", (*order, position))


def adopt_nth(parent: Task[Any], child: Task[Any], position: int) -> None:
    """Set the id of a child that an iterator yields, as it would be set in a list."""
    _inherit(_heritage((parent,)), child, f"{parent.task_id}_{position}", (*parent._order, position))


def adopt_jointly(parents: Sequence[Task[Any]], children: Sequence[Task[Any]]) -> None:
    """Set the ids of children made from several tasks together, from the ids of all parents and their positions."""
    digest = hashlib.sha256("|".join(sorted(parent.task_id for parent in parents)).encode()).hexdigest()[:12]
    order, heritage = min(parent._order for parent in parents), _heritage(parents)
    for position, child in enumerate(children):
        _inherit(heritage, child, f"{ROOT_ID}_m{digest}_{position}", (*order, position))


def adopt_anew(stage: str, parents: Sequence[Task[Any]], children: Sequence[Task[Any]]) -> None:
    """Set the ids of tasks that start a new lineage, from the stage and their content, as at a source.

    All children belong to the sources of all parents. Only the first child lists all of these sources; the others list
    one. With as many children as sources, complete lists would take quadratic memory.
    """
    order = min(parent._order for parent in parents)
    heritage = _heritage(parents)._replace(metadata={}, records=[])
    for position, (child, name) in enumerate(zip(children, _names_by_content(children), strict=True)):
        _inherit(heritage, child, f"{ROOT_ID}_{stage}_{name}", (*order, position))
        heritage = heritage._replace(sources=heritage.sources[:1])


def _names_by_content(children: Sequence[Task[Any]]) -> Iterator[str]:
    """Yield a name for each child: a hash of its content, or its position."""
    taken: set[str] = set()
    for position, child in enumerate(children):
        name = child.get_deterministic_id() or str(position)
        if name in taken:  # the same files listed twice are two tasks
            name = f"{name}-{position}"
        taken.add(name)
        yield name


class _Heritage(NamedTuple):
    """What a task inherits from its parents."""

    parents: Sequence[Task[Any]]
    sources: tuple[str, ...]
    metadata: dict[str, Any]
    records: list[StagePerfStats]


def _heritage(parents: Sequence[Task[Any]]) -> _Heritage:
    """Collect what children inherit from these parents, once for all children."""
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
    """Set the id of a child, and copy from its parents what the stage did not set."""
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
