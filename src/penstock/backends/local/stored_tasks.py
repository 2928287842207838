"""Track the tasks in flight on this machine, and where each is stored."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.transport import StoredTask


class StoredTasks:
    """The tasks in flight, each in a file or as bytes."""

    def __init__(self) -> None:
        self._by_key: dict[str, StoredTask] = {}

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._by_key)

    def add(self, key: str, stored: StoredTask, made_from: Sequence[str] = ()) -> bool:
        """Add a task; return False, because no task of this machine is ever lost."""
        self._by_key[key] = stored
        return False

    def stored(self, key: str) -> StoredTask:
        """Return a task by its key."""
        return self._by_key[key]

    def drop(self, key: str) -> None:
        """Remove a task that was consumed, with its file."""
        stored = self._by_key.pop(key, None)
        if stored is not None:
            stored.remove()
