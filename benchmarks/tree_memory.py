"""Sample the resident memory of a process and all its descendants."""

from __future__ import annotations

import threading
from contextlib import suppress

import psutil


class TreeMemory(threading.Thread):
    """Sample the resident memory of the process tree ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[int] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        me = psutil.Process()
        while not self.stopped.wait(0.1):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                with suppress(psutil.Error):
                    total += process.memory_info().rss
            self.samples.append(total)
