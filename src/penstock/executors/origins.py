"""Where the documents of a run come from, in words that two runs can compare: the same words, the same input."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

from penstock.core.task import Task
from penstock.plan.plan import Plan
from penstock.runtime.fingerprint import fingerprint


def origins_of(plan: Plan, initial_tasks: Sequence[Task[Any]] | None) -> list[str]:
    """Return the origins of all listed files, and last a word for everything else.

    That is a hash of what the initial tasks hold, or of the parameters of the first stage.
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
    """Hash what tasks hold; large buffers are not copied for that."""
    digest = hashlib.blake2b(digest_size=6)
    for task in tasks:
        try:
            digest.update(pickle.dumps(task.data, protocol=5, buffer_callback=lambda part: digest.update(part.raw())))
        except Exception:  # whatever a user's class raises that cannot be pickled
            digest.update(type(task).__qualname__.encode())
    return digest.hexdigest()
