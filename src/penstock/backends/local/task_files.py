"""Write a task between two stages to shared memory if it fits there, otherwise to the spill folder.

Shared memory may be as small as 64 MB, as in most containers, and other runs and programs use it too. So the free space
is checked at every write, and a write that fails for lack of space is repeated on disk.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from penstock.errors import OutputError
from penstock.runtime.transport import size_of, store
from penstock.storage.atomic import explain_write

# Left free for other programs: this share of shared memory, up to the maximum in bytes.
_RESERVED_SHARE = 0.05
_MAX_RESERVED_BYTES = 2**28
_NO_SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})


def write_task(parts: list[Any], name: str, memory: Path, spill: Path) -> str:
    """Write a serialized task to shared memory, or to disk if it does not fit; return the path."""
    if has_room(memory, size_of(parts)):
        path = memory / name
        try:
            store(parts, path)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno not in _NO_SPACE_ERRORS:
                raise OutputError(f"{path}: a task between two stages cannot be stored: {error}") from error
        else:
            return str(path)
    return write_spilled(parts, name, spill)


def write_spilled(parts: list[Any], name: str, spill: Path) -> str:
    """Write a serialized task to disk; return the path."""
    path = spill / name
    with explain_write(str(path)):
        try:
            store(parts, path)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno in _NO_SPACE_ERRORS:
                raise OutputError(
                    f"{spill}: the disk is full, and tasks between two stages that do not fit into shared memory are "
                    "stored there. Free some space, or choose another folder with StreamingExecutor(spill_dir=...)."
                ) from error
            raise
    return str(path)


def has_room(folder: Path, size: int) -> bool:
    """Tell whether a file fits into a folder and leaves the reserved space free."""
    found = os.statvfs(folder)
    reserved = min(_RESERVED_SHARE * found.f_blocks * found.f_frsize, _MAX_RESERVED_BYTES)
    has_names = found.f_files == 0 or found.f_favail > 0  # 0: unlimited
    return has_names and found.f_bavail * found.f_frsize - size >= reserved
