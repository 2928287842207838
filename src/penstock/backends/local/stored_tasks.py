"""The tasks that are on their way on this machine, and where each lies."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.transport import StoredTask


class StoredTasks:
    """The tasks that are on their way: files, or the bytes themselves."""

    def __init__(self) -> None:
        self._by_key: dict[str, StoredTask] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_key)

    def add(self, key: str, stored: StoredTask, made_from: Sequence[str] = ()) -> bool:
        """Take a task in."""
        self._by_key[key] = stored
        return False

    def stored(self, key: str) -> StoredTask:
        """Return where a task lies."""
        return self._by_key[key]

    def drop(self, key: str) -> None:
        """Remove a task that was consumed."""
        stored = self._by_key.pop(key, None)
        if stored is not None:
            stored.remove()
