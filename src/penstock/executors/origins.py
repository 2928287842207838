"""Describe the input of a run as strings: two runs with equal strings have the same input."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

from penstock.core.task import Task
from penstock.plan.plan import Plan
from penstock.runtime.fingerprint import fingerprint


def origins_of(plan: Plan, initial_tasks: Sequence[Task[Any]] | None) -> list[str]:
    """Return the origins of all listed files, and last a string for the rest of the input.

    The last string is a hash of the data of the initial tasks, or of the parameters of the first stage.
    """
    listed = sorted({origin for source in plan.sources for origin in source.origins})
    if initial_tasks is not None:
        return [*listed, f"initial tasks {_digest(initial_tasks)}"]
    if listed:
        return [*listed, f"other tasks {_short('|'.join(listed))}"]
    return [f"stage '{plan.stages[0].name}' {_short(repr(fingerprint(plan.stages[:1])))}"]


def _short(words: str) -> str:
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _digest(tasks: Sequence[Task[Any]]) -> str:
    """Hash the data of tasks, without copying large buffers."""
    digest = hashlib.blake2b(digest_size=6)
    for task in tasks:
        try:
            digest.update(pickle.dumps(task.data, protocol=5, buffer_callback=lambda part: digest.update(part.raw())))
        except Exception:  # a class that cannot be pickled may raise any exception
            digest.update(type(task).__qualname__.encode())
    return digest.hexdigest()
