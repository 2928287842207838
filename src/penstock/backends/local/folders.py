"""The folders of a run that are gone when it is over, however it ends: one in shared memory, one on disk."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


@dataclass
class RunFolders:
    """Where stored tasks of one run lie."""

    memory: Path
    spill: Path
    _janitor: ForkServerProcess
    _lifeline: Connection

    @classmethod
    def make(cls, context: ForkServerContext, spill_dir: str | None) -> RunFolders:
        """Make the folders, and somebody who removes them when this process is gone."""
        parent = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        memory = Path(tempfile.mkdtemp(prefix=f"penstock-{os.getpid()}-", dir=parent))
        if spill_dir is not None:
            Path(spill_dir).mkdir(parents=True, exist_ok=True)
        spill = Path(tempfile.mkdtemp(prefix=f"penstock-spill-{os.getpid()}-", dir=spill_dir))
        theirs, ours = multiprocessing.Pipe(duplex=False)
        janitor = context.Process(target=_clean_up_after, args=(theirs, (memory, spill)), daemon=False)
        janitor.start()
        theirs.close()
        return cls(memory, spill, janitor, ours)

    def remove(self) -> None:
        """Remove everything now."""
        self._lifeline.close()
        self._janitor.join(timeout=10)
        for folder in (self.memory, self.spill):
            shutil.rmtree(folder, ignore_errors=True)


def shared_memory_free() -> int:
    """Return how many bytes of shared memory are free."""
    folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    return shutil.disk_usage(folder).free


def _clean_up_after(lifeline: Connection, folders: tuple[Path, ...]) -> None:
    """Wait until the other end of a pipe is closed, which also happens when its process is killed; then remove."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        lifeline.recv_bytes()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
