"""A failure kept for later: the stages and the tasks they failed on, in a file that any Python here can open again."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from penstock.core.stage import ProcessingStage
from penstock.core.task import Task

Steps = Sequence[ProcessingStage[Any, Any]]


def keep_failure(path: Path, steps: Steps, tasks: Sequence[Task[Any]]) -> str:
    """Write a failure down, and return what to type to see it again; nothing where there is no room for it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack_failure(steps, tasks))
    except OSError:
        path.unlink(missing_ok=True)
        return ""
    return f"penstock reproduce {path}"


def pack_failure(steps: Steps, tasks: Sequence[Task[Any]]) -> bytes:
    """Return a failure as it is written."""
    body = cloudpickle.dumps((list(steps), [task.compacted() for task in tasks]))
    # Modules of the user's own are found again where they were found before.
    return pickle.dumps({"sys_path": list(sys.path), "body": body})


def load_failure(path: Path) -> tuple[list[ProcessingStage[Any, Any]], list[Task[Any]]]:
    """Return the stages and tasks of a failure."""
    kept = pickle.loads(path.read_bytes())
    sys.path[:] = list(dict.fromkeys([*sys.path, *kept["sys_path"]]))
    steps, tasks = cloudpickle.loads(kept["body"])
    return steps, tasks
