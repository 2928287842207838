"""Store a failure in a file that reproduces it: the stages, and the tasks that they failed on.

Such a file is a pickle, because it holds the user's own stages. Opening a pickle runs the code in it, so a file is
opened only if the user says that it is to be trusted, and only if it belongs to that user.
"""

from __future__ import annotations

import os
import pickle
import pwd
import shlex
import stat
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.errors import InputError
from penstock.runtime import by_value

Steps = Sequence[ProcessingStage[Any, Any]]


def keep_failure(path: Path, steps: Steps, tasks: Sequence[Task[Any]]) -> str:
    """Store a failure, and return the command that reproduces it; an empty string if it cannot be stored."""
    packed = pack_failure(steps, tasks)
    if packed is None:
        return ""
    try:
        write_failure(path, packed)
    except OSError:
        path.unlink(missing_ok=True)
        return ""
    return how_to_reproduce(path)


def write_failure(path: Path, packed: bytes) -> None:
    """Write a packed failure into a file that only this user can read or change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # of an earlier run, perhaps with other permissions
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(packed)


def how_to_reproduce(path: Path | str) -> str:
    """Return the command that reproduces a stored failure.

    >>> how_to_reproduce("out dir/w0-1.pickle")
    "penstock reproduce --trust 'out dir/w0-1.pickle'"
    """
    return f"penstock reproduce --trust {shlex.quote(str(path))}"


def pack_failure(steps: Steps, tasks: Sequence[Task[Any]]) -> bytes | None:
    """Return a failure as bytes; None if it cannot be pickled, such as that of a stage that holds a connection."""
    try:
        body = by_value.dumps((list(steps), [task.compacted() for task in tasks]))
    except Exception:  # a stage may hold anything after its setup()
        return None
    # With the module search path, so that the user's own modules are found again.
    return pickle.dumps({"sys_path": list(sys.path), "body": body})


def load_failure(
    path: Path, *, trusted: bool = False, owner: str | None = None
) -> tuple[list[ProcessingStage[Any, Any]], list[Task[Any]]]:
    """Return the stages and tasks of a failure, if the user has said that the file is to be trusted.

    A file that another user owns, or that every user may change, is opened only if ``owner`` names its owner.
    """
    with path.open("rb") as stream:
        facts = os.fstat(stream.fileno())  # of the open file: the path may name another one by now
        _require_trust(path, facts, trusted=trusted, owner=owner)
        kept = pickle.load(stream)
    sys.path[:] = list(dict.fromkeys([*sys.path, *kept["sys_path"]]))
    steps, tasks = pickle.loads(kept["body"])
    return steps, tasks


def _require_trust(path: Path, facts: os.stat_result, *, trusted: bool, owner: str | None) -> None:
    written_by = _user_name(facts.st_uid)
    when = datetime.fromtimestamp(facts.st_mtime).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    foreign = facts.st_uid != os.getuid()
    open_to_all = bool(facts.st_mode & stat.S_IWOTH)
    to_type = how_to_reproduce(path) + (f" --owner {written_by}" if foreign or open_to_all else "")
    if trusted and (not (foreign or open_to_all) or owner == written_by):
        return
    why = ""
    if foreign:
        why = f" You are {_user_name(os.getuid())}, so another user has written what would run as you."
    elif open_to_all:
        why = " Every user of this machine may change it, so any of them may have written what would run as you."
    raise InputError(
        f"{path}: was not opened. It is a pickle: opening it runs whatever code is in it. It belongs to user "
        f"{written_by} and was last changed on {when}.{why} If it is from a run that you trust, type:\n  {to_type}"
    )


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
