"""Identify processes and check whether they are alive, to tell leftovers from work in progress."""

from __future__ import annotations

import hashlib
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """Return a short id of the host, its boot and the PID namespace of this process.

    Process ids can be compared only if this id is the same: containers on one host have separate process ids, and a
    reboot starts them again.
    """
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]


def is_alive(pid: int, since: float | None = None) -> bool:
    """Tell whether a process of this machine is alive; one that started after ``since`` is another process."""
    import psutil  # imported here because most processes never call this function

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return since is None or process.create_time() <= since + 1
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
