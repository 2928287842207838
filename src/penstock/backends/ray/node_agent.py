"""One actor per machine, which knows what only a process there can know: its GPUs, its memory, how a worker ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from penstock.core.cluster import Gpu
from penstock.runtime.machine import find_gpus
from penstock.runtime.position_file import batch_of, position_path, take_position

_TAIL_LINES = 12
_TAIL_BYTES = 20_000
# What Ray writes into every log by itself.
_NOISE = re.compile(r"^:(job_id|actor_name|task_name):|^\s*$")
_SIGNAL = re.compile(r"\*\*\* (SIG[A-Z]+) received")


class NodeFacts(NamedTuple):
    """What a machine has, as far as Ray does not say."""

    gpus: tuple[Gpu, ...]


class ExitRecord(NamedTuple):
    """What is left of a worker that died."""

    # Where it was: the step of its chain and the rows there, if it had begun anything.
    step: int | None
    rows: int
    # The signal that ended it, if the process could still write that down: then nobody else sent it.
    signal: str | None
    # The last lines it wrote.
    log: str


class NodeAgent:
    """Answers for one machine."""

    def __init__(self, folder: str, logs: str) -> None:
        self._folder = Path(folder)
        self._logs = Path(logs)
        self._folder.mkdir(parents=True, exist_ok=True)

    def facts(self) -> NodeFacts:
        """Say what this machine has."""
        return NodeFacts(find_gpus())

    def last_words(self, worker: str, pid: int | None) -> ExitRecord:
        """Return what is left of a worker that died."""
        step, rows = take_position(position_path(self._folder, worker))
        lines = _tail(self._logs, pid) if pid is not None else []
        found = [match[1] for line in lines if (match := _SIGNAL.search(line))]
        return ExitRecord(step, rows, found[-1] if found else None, "\n".join(_worth_showing(lines)))

    def batch_of(self, worker: str, pid: int) -> int | None:
        """Return the batch a worker works on; None: on none, or its process has ended or was stopped by a signal."""
        try:
            process = psutil.Process(pid)
        except psutil.Error:
            return None
        return batch_of(position_path(self._folder, worker), process)

    def end_what_exceeds(self, limits: dict[int, int]) -> dict[int, int]:
        """Kill processes that use more memory than they may; return how much those had, and all together under 0."""
        used = {}
        exceeding = {}
        for pid, limit in limits.items():
            with suppress(psutil.Error):
                used[pid] = int(psutil.Process(pid).memory_info().rss)
                if limit and used[pid] > limit:
                    exceeding[pid] = used[pid]
                    os.kill(pid, signal.SIGKILL)
        return {0: sum(used.values()), **exceeding}

    def clean_up(self) -> None:
        """Remove what the run has left on this machine."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # of several nodes on one machine, the last one removes the folder of the run
            self._folder.parent.rmdir()


def _tail(logs: Path, pid: int) -> list[str]:
    lines: list[str] = []
    for path in sorted(logs.glob(f"worker-*-{pid}.*"), reverse=True):  # .out before .err, which says more
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines += stream.read().decode("utf-8", "replace").splitlines()
    return [line for line in lines if not _NOISE.search(line)]


def _worth_showing(lines: list[str]) -> list[str]:
    """Return the end of a log; of a fatal error, its beginning, which names the line of the stage."""
    for position, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            return lines[position : position + _TAIL_LINES]
    return lines[-_TAIL_LINES:]
