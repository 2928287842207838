"""Which process wrote something, and whether it is still alive: to tell leftovers from work in progress."""

from __future__ import annotations

import hashlib
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """Return a short name for the set of processes that this one belongs to.

    Process numbers can be compared only where it is the same: containers on one host number theirs anew, and so does a
    host that was started again.
    """
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]


def is_alive(pid: int, since: float | None = None) -> bool:
    """Tell whether a process of this machine runs; one that began after ``since`` only has the same number."""
    import psutil  # here, because most processes that write files never ask

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return since is None or process.create_time() <= since + 1
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
