"""How much memory this process uses, looked up now and then: asking costs more than a small task."""

from __future__ import annotations

import time

import psutil

_LOOK_EVERY_S = 0.25


class ResidentMemory:
    """The memory of this process, not older than a moment."""

    def __init__(self) -> None:
        self._myself = psutil.Process()
        self._bytes = 0
        self._next_look = 0.0

    def bytes(self) -> int:
        """Return it."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_EVERY_S
            self._bytes = int(self._myself.memory_info().rss)
        return self._bytes
