"""A worker process as the driver sees it: how it is reached, what it was told to do, how it ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from penstock.backends.local.messages import MessageChannel
from penstock.schedule.actions import RunBatch

# Signals that a process hardly ever sends itself: whoever did need not have meant the task.
_SENT_BY_OTHERS = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}


@dataclass
class LocalWorkerHandle:
    """A worker, and its process."""

    id: str
    pool: int
    process: ForkServerProcess
    line: MessageChannel
    threads: int
    # Where it notes which step is at work.
    crumb: Path
    orders: dict[int, RunBatch] = field(default_factory=dict)
    ending: bool = False
    # Whether it was killed because its batches go to others: what it says after that does not count.
    is_dismissed: bool = False
    hung_up: bool = False
    kill_reason: str = ""
    # Pools its process has served, this one included.
    served: frozenset[int] = frozenset()

    def how_it_ended(self) -> tuple[str, bool]:
        """Return why, and whether that came from outside: then what it worked on need not be to blame."""
        if self.kill_reason:
            return self.kill_reason, False
        exit_code = self.process.exitcode
        if exit_code is None or exit_code >= 0:
            return f"the worker process ended by itself with exit code {exit_code}", False
        name = signal.Signals(-exit_code).name
        hint = " (out of memory, if nobody killed it on purpose)" if name == "SIGKILL" else ""
        return f"the worker process was ended by {name}{hint}", -exit_code in _SENT_BY_OTHERS


def resident_bytes(pid: int | None) -> int:
    """Return how much memory a process uses; nothing if it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid is not None else 0
    except psutil.Error:
        return 0
