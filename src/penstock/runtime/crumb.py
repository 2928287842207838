"""Where a worker is: a few bytes in a file that it rewrites at every step, and that outlive it if it dies."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_CRUMB = struct.Struct("<qq")


class Crumb:
    """The file, as the worker sees it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            make_crumb(path)
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), _CRUMB.size)

    def leave(self, step: int, rows: int) -> None:
        """Note which step of the chain begins, on how many rows."""
        _CRUMB.pack_into(self._map, 0, step, rows)


def make_crumb(path: Path) -> None:
    """Make the file of a worker that is nowhere yet."""
    path.write_bytes(_CRUMB.pack(-1, 0))


def crumb_path(folder: Path, worker: str) -> Path:
    """Return the file of a worker."""
    return folder / f"crumb-{worker}"


def take_crumb(path: Path) -> tuple[int | None, int]:
    """Return where a dead worker was, the step of its chain and the rows there, and remove the file."""
    try:
        step, rows = _CRUMB.unpack(path.read_bytes())
    except (OSError, struct.error):
        return None, 0
    path.unlink(missing_ok=True)
    return (step, rows) if step >= 0 else (None, 0)
