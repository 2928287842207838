"""Where a worker is: a few bytes in a file that it rewrites at every step, and that outlive it if it dies."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import psutil

# A process in such a state does nothing, and will not by itself.
_NOT_RUNNING = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
# The step of the chain and the rows there; and the batch, which is known as long as the worker works on it.
_STEP = struct.Struct("<qq")
_BATCH = struct.Struct("<q")
_SIZE = _STEP.size + _BATCH.size
_NONE = -1


class PositionFile:
    """The file, as the worker sees it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            make_position_file(path)
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), _SIZE)

    def leave(self, step: int, rows: int) -> None:
        """Note which step of the chain begins, on how many rows."""
        _STEP.pack_into(self._map, 0, step, rows)

    def work_on(self, batch: int | None) -> None:
        """Note which batch is being worked on; None: none is."""
        _BATCH.pack_into(self._map, _STEP.size, _NONE if batch is None else batch)


def make_position_file(path: Path) -> None:
    """Make the file of a worker that is nowhere yet."""
    path.write_bytes(_STEP.pack(_NONE, 0) + _BATCH.pack(_NONE))


def position_path(folder: Path, worker: str) -> Path:
    """Return the file of a worker."""
    return folder / f"crumb-{worker}"


def take_position(path: Path) -> tuple[int | None, int]:
    """Return where a dead worker was, the step of its chain and the rows there, and remove the file."""
    try:
        step, rows = _STEP.unpack_from(path.read_bytes())
    except (OSError, struct.error):
        return None, 0
    path.unlink(missing_ok=True)
    return (step, rows) if step >= 0 else (None, 0)


def batch_of(path: Path, process: psutil.Process) -> int | None:
    """Return the batch a worker works on; None: on none, or its process has ended or was stopped by a signal.

    A worker in the middle of a long call can't answer for itself, so it is the file and the system that are asked.
    """
    try:
        if process.status() in _NOT_RUNNING:
            return None
        (batch,) = _BATCH.unpack_from(path.read_bytes(), _STEP.size)
    except (OSError, struct.error, psutil.Error):
        return None
    return batch if batch != _NONE else None
