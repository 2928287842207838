"""The driver's handle of a worker process: its connection, its orders, and how it ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from penstock.backends.local.messages import MessageChannel
from penstock.schedule.actions import RunBatch

# Signals that usually come from another process, so that the task need not be the cause.
_SENT_BY_OTHERS = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}


@dataclass
class LocalWorkerHandle:
    """A worker and its process."""

    id: str
    pool: int
    process: ForkServerProcess
    line: MessageChannel
    threads: int
    # The file where it records its position.
    position_file: Path
    orders: dict[int, RunBatch] = field(default_factory=dict)
    ending: bool = False
    # Whether it was killed after its batches were given to other workers: its later messages are ignored.
    is_dismissed: bool = False
    hung_up: bool = False
    kill_reason: str = ""
    # The pools that its process has served, including this one.
    served: frozenset[int] = frozenset()

    def how_it_ended(self) -> tuple[str, bool]:
        """Return why it ended, and whether another process ended it, so that its task need not be the cause."""
        if self.kill_reason:
            return self.kill_reason, False
        exit_code = self.process.exitcode
        if exit_code is None or exit_code >= 0:
            return f"the worker process ended by itself with exit code {exit_code}", False
        name = signal.Signals(-exit_code).name
        hint = " (out of memory, unless it was killed on purpose)" if name == "SIGKILL" else ""
        return f"the worker process was ended by {name}{hint}", -exit_code in _SENT_BY_OTHERS


def resident_bytes(pid: int | None) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid is not None else 0
    except psutil.Error:
        return 0
