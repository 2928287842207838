"""One actor per machine, for information that only a local process has: GPUs, memory, how a worker ended."""

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

_MAX_LOG_LINES = 12
_MAX_LOG_BYTES = 20_000
# Lines that Ray writes to every log.
_NOISE = re.compile(r"^:(job_id|actor_name|task_name):|^\s*$")
_SIGNAL = re.compile(r"\*\*\* (SIG[A-Z]+) received")


class NodeFacts(NamedTuple):
    """Facts about a machine that Ray does not report."""

    gpus: tuple[Gpu, ...]


class ExitRecord(NamedTuple):
    """What is known about a worker that died."""

    # Its last step of the chain and the number of rows there; None if it had not started any.
    step: int | None
    rows: int
    # The signal that ended it, if its log names one: then the process itself caused it.
    signal: str | None
    # The last lines of its log.
    log: str


class NodeAgent:
    """Provide information about one machine, and act there."""

    def __init__(self, folder: str, logs: str) -> None:
        self._folder = Path(folder)
        self._logs = Path(logs)
        self._folder.mkdir(parents=True, exist_ok=True)

    def facts(self) -> NodeFacts:
        """Return the GPUs of this machine."""
        return NodeFacts(find_gpus())

    def exit_record(self, worker: str, pid: int | None) -> ExitRecord:
        """Return what is known about a worker that died."""
        step, rows = take_position(position_path(self._folder, worker))
        lines = _tail(self._logs, pid) if pid is not None else []
        found = [match[1] for line in lines if (match := _SIGNAL.search(line))]
        return ExitRecord(step, rows, found[-1] if found else None, "\n".join(_worth_showing(lines)))

    def batch_of(self, worker: str, pid: int) -> int | None:
        """Return the batch that a worker is processing; None if there is none, or it has ended or is stopped."""
        try:
            process = psutil.Process(pid)
        except psutil.Error:
            return None
        return batch_of(position_path(self._folder, worker), process)

    def kill_above_limit(self, limits: dict[int, int]) -> dict[int, int]:
        """Kill processes above their memory limit; return their bytes by pid, and the total of all under key 0."""
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
        """Remove the files of the run on this machine."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # of several nodes on one machine, the last one removes the folder of the run
            self._folder.parent.rmdir()


def _tail(logs: Path, pid: int) -> list[str]:
    lines: list[str] = []
    for path in sorted(logs.glob(f"worker-*-{pid}.*"), reverse=True):  # .out before .err, which is more informative
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _MAX_LOG_BYTES))
            lines += stream.read().decode("utf-8", "replace").splitlines()
    return [line for line in lines if not _NOISE.search(line)]


def _worth_showing(lines: list[str]) -> list[str]:
    """Return the end of a log; for a fatal error, the start of its report, which names the line of the stage."""
    for position, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            return lines[position : position + _MAX_LOG_LINES]
    return lines[-_MAX_LOG_LINES:]
