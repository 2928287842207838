"""Commands that see small or read-only file systems where others do not: in a mount namespace, if this user may make one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest


@cache
def can_mount() -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


needs_mounts = pytest.mark.skipif(not can_mount(), reason="this user may not mount file systems")


def with_small_disk(folder: Path, size: str, command: Sequence[str]) -> list[str]:
    """Return a command that sees an empty file system of some size at a folder."""
    return _mounted(f"mount -t tmpfs -o size={size} none {folder}", command)


def with_read_only(folder: Path, command: Sequence[str]) -> list[str]:
    """Return a command that cannot write to a folder, whoever runs it."""
    return _mounted(f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}", command)


def _mounted(mount: str, command: Sequence[str]) -> list[str]:
    return ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
