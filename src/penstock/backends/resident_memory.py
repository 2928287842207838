"""Measure the memory of this process, at most four times per second: a measurement costs more than a small task."""

from __future__ import annotations

import time

import psutil

_MAX_AGE_S = 0.25


class ResidentMemory:
    """The resident memory of this process, cached for a short time."""

    def __init__(self) -> None:
        self._myself = psutil.Process()
        self._bytes = 0
        self._next_look = 0.0

    def bytes(self) -> int:
        """Return the resident memory in bytes."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _MAX_AGE_S
            self._bytes = int(self._myself.memory_info().rss)
        return self._bytes
