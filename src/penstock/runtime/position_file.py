"""Record the position of a worker in a small mapped file, which is still readable after the worker dies."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import psutil

# A process in one of these states makes no progress by itself.
_NOT_RUNNING = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
# The step of the chain and its number of rows; then the current batch.
_STEP = struct.Struct("<qq")
_BATCH = struct.Struct("<q")
_SIZE = _STEP.size + _BATCH.size
_NONE = -1


class PositionFile:
    """The position file, opened by its worker."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            make_position_file(path)
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), _SIZE)

    def begin_step(self, step: int, rows: int) -> None:
        """Record the step of the chain that begins, and its number of rows."""
        _STEP.pack_into(self._map, 0, step, rows)

    def work_on(self, batch: int | None) -> None:
        """Record the batch that is being processed; None: no batch."""
        _BATCH.pack_into(self._map, _STEP.size, _NONE if batch is None else batch)


def make_position_file(path: Path) -> None:
    """Create the file of a worker that has not started any step."""
    path.write_bytes(_STEP.pack(_NONE, 0) + _BATCH.pack(_NONE))


def position_path(folder: Path, worker: str) -> Path:
    """Return the path of the position file of a worker."""
    return folder / f"position_file-{worker}"


def take_position(path: Path) -> tuple[int | None, int]:
    """Return the last step of a dead worker and its number of rows, and remove the file."""
    try:
        step, rows = _STEP.unpack_from(path.read_bytes())
    except (OSError, struct.error):
        return None, 0
    path.unlink(missing_ok=True)
    return (step, rows) if step >= 0 else (None, 0)


def batch_of(path: Path, process: psutil.Process) -> int | None:
    """Return the batch that a worker is processing; None if there is none, or the process has ended or is stopped.

    A worker inside a long call cannot answer a message, so the answer comes from the file and the operating system.
    """
    try:
        if process.status() in _NOT_RUNNING:
            return None
        (batch,) = _BATCH.unpack_from(path.read_bytes(), _STEP.size)
    except (OSError, struct.error, psutil.Error):
        return None
    return batch if batch != _NONE else None
