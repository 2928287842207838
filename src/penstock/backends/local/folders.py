"""The folders of a run that are gone when it is over, however it ends: one in shared memory, one on disk."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

from penstock.backends.local.fork_server import start

_SHARED_MEMORY = Path("/dev/shm")


@dataclass
class RunFolders:
    """Where stored tasks of one run lie."""

    memory: Path
    spill: Path
    _lifeline: Connection | None = None

    @classmethod
    def make(cls, spill_dir: str | None) -> RunFolders:
        """Make the folders."""
        parent = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        memory = Path(tempfile.mkdtemp(prefix=f"penstock-{os.getpid()}-", dir=parent))
        if spill_dir is not None:
            Path(spill_dir).mkdir(parents=True, exist_ok=True)
        spill = Path(tempfile.mkdtemp(prefix=f"penstock-spill-{os.getpid()}-", dir=spill_dir))
        return cls(memory, spill)

    def guard(self, context: ForkServerContext) -> None:
        """Have somebody who removes them when this process is gone; called when there may be something in them."""
        if self._lifeline is None:
            theirs, self._lifeline = multiprocessing.Pipe(duplex=False)
            arguments = (theirs, (self.memory, self.spill))
            start(context.Process(target=_clean_up_after, args=arguments, daemon=False))
            theirs.close()

    def remove(self) -> None:
        """Remove everything now, and let the other one go home."""
        for folder in (self.memory, self.spill):
            shutil.rmtree(folder, ignore_errors=True)
        if self._lifeline is not None:
            self._lifeline.close()


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
