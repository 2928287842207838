"""Fingerprint the stages of a run and their parameters: a checkpoint is valid only for the same fingerprint."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

from penstock.core.stage import ProcessingStage, WorkerLimits
from penstock.core.task import Task

# Parameters that do not change the output, so they may differ between a run and its resumption.
_WITHOUT_EFFECT = {"resources", "runtime_env", "num_workers", "num_workers_per_node", *WorkerLimits._fields}


def fingerprint(
    stages: Sequence[ProcessingStage[Any, Any]], initial_tasks: Sequence[Task[Any]] | None = None
) -> dict[str, str]:
    """Return one entry for each stage and parameter, so that a difference can be named."""
    entries: dict[str, str] = {}
    for number, stage in enumerate(stages, start=1):
        label = f"stage {number} '{stage.name}'"
        entries[label] = type(stage).__qualname__
        for key, value in sorted(stage.get_config().items()):
            if key not in _WITHOUT_EFFECT:
                entries[f"{label} {key}"] = _describe(value)
    if initial_tasks is not None:
        entries["initial tasks"] = f"{len(initial_tasks)} with digest {_digest(initial_tasks)}"
    return entries


def _digest(tasks: Sequence[Task[Any]]) -> str:
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(pickle.dumps((type(task).__qualname__, task.data), protocol=5))
    return digest.hexdigest()[:12]


def _describe(value: Any) -> str:  # noqa: ANN401 - a parameter may be anything
    """Describe a parameter by its value, never by its address in memory.

    >>> _describe({"how": [str.upper, partial(round, ndigits=2)]})
    "{'how': list(builtins.str.upper, partial(builtins.round, tuple(), {'ndigits': 2}))}"
    """
    if value is None or isinstance(value, str | int | float | bool | bytes):
        return repr(value)
    if isinstance(value, PurePath):
        return repr(str(value))  # a path keeps its value in attributes that the code below does not see
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_describe(k)}: {_describe(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_describe(part) for part in value]
        return f"{type(value).__name__}({', '.join(sorted(parts) if isinstance(value, set | frozenset) else parts)})"
    if isinstance(value, partial):
        return f"partial({_describe(value.func)}, {_describe(value.args)}, {_describe(value.keywords)})"
    if callable(value) and hasattr(value, "__qualname__"):
        # A method of a built-in type knows its type, not its module.
        owner = value if hasattr(value, "__module__") else getattr(value, "__objclass__", type(value))
        return f"{owner.__module__}.{value.__qualname__}"
    state = {key: part for key, part in getattr(value, "__dict__", {}).items() if not key.startswith("__")}
    return f"{type(value).__qualname__}({_describe(state)})" if state else type(value).__qualname__
