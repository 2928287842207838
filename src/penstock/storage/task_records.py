"""Serialise tasks for a checkpoint without pickle: the name of the class, and its attributes as plain values.

Reading imports nothing: the class is looked up among the task classes that the program has already loaded.
"""

from __future__ import annotations

from typing import Any

from penstock.core.documents import DocumentBatch
from penstock.core.perf import StagePerfStats
from penstock.core.task import Task
from penstock.storage.plain_values import DamagedValue, NotPlain, dump, load

_TABLE, _IS_PANDAS = "table", "is_pandas"
# Attributes of a batch that are stored in another form, or are derived from the others.
_BATCH_ATTRIBUTES_NOT_STORED = ("data", "_lazy", "_index")


class UnknownTaskClass(LookupError):  # noqa: N818 - caught where tasks are read
    """A stored task is of a class that this program has not loaded."""


def dump_result(task: Task[Any]) -> bytes:
    """Serialise a task; raise ``NotPlain`` if it contains a value that cannot be stored."""
    state = dict(vars(task))
    extra: dict[str, Any] = {}
    if isinstance(task, DocumentBatch):
        state = {key: value for key, value in task.__getstate__().items() if key not in _BATCH_ATTRIBUTES_NOT_STORED}
        try:
            extra = {_TABLE: task.to_pyarrow(), _IS_PANDAS: "data" in vars(task) and task.to_pyarrow() is not task.data}
        except TypeError as error:
            raise NotPlain(str(error)) from error
        rows = state.get("_source_rows")
        state["_source_rows"] = (rows.start, rows.stop) if isinstance(rows, range) else rows
    state["_stage_perf"] = [vars(record) for record in task._stage_perf]
    try:
        return dump({"class": _name_of(type(task)), "state": state, **extra})
    except NotPlain as error:
        raise NotPlain(f"task '{task.task_id}' ({type(task).__qualname__}) holds {error}") from None


def load_result(data: bytes) -> Task[Any]:
    """Deserialise a task.

    Raise ``UnknownTaskClass`` if its class is not loaded, ``DamagedValue`` if the bytes are not a task.
    """
    stored = load(data)
    try:
        name, state = stored["class"], dict(stored["state"])
        state["_stage_perf"] = [StagePerfStats(**record) for record in state["_stage_perf"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedValue(f"not a stored task: {error}") from error
    kind = _loaded_class(name)
    task: Task[Any] = object.__new__(kind)
    if not isinstance(task, DocumentBatch):
        vars(task).update(state)
        return task
    rows = state.get("_source_rows")
    state["_source_rows"] = range(*rows) if isinstance(rows, tuple) else rows
    state["data"] = stored[_TABLE]
    task.__setstate__(state)
    if stored[_IS_PANDAS]:
        state["data"] = task.to_pandas()
        task.__setstate__(state)
    return task


def _name_of(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _loaded_class(name: str) -> type[Task[Any]]:
    """Return a loaded task class by name; the latest if there are several, as a notebook may define."""
    found: type[Task[Any]] | None = None
    to_visit: list[type[Task[Any]]] = [Task]
    while to_visit:
        kind = to_visit.pop(0)
        if _name_of(kind) == name:
            found = kind
        to_visit += kind.__subclasses__()
    if found is None:
        raise UnknownTaskClass(name)
    return found
