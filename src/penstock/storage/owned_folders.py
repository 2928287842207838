"""Temporary folders whose names identify the owning process, so that folders of dead processes can be found.

The owner is part of the name and not a file inside, because a folder and its name are created in one step: a killed
process never leaves a folder without an owner. The format of a name is
``penstock-spill-<pid>-<start of the process>-<machine>-<boot>-<random>``.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

# Link inside the folder in shared memory to the spill folder of the same run, which may be anywhere.
SPILL_LINK = "spill"
_NAME = re.compile(r"penstock(?:-[a-z]+)*-(\d+)-(\d+)-([0-9a-f]{8})-([0-9a-f]{8})-[0-9a-f]{8}")


@dataclass(frozen=True)
class Leftover:
    """A folder of a process that has ended."""

    path: Path
    # Identity of the process, as in the names of its folders.
    owner: str
    size: int


def owned_name(kind: str = "") -> str:
    """Return a new name for a folder of this process; ``kind`` is one lower-case word.

    >>> is_owner_dead(Path("/anywhere") / owned_name("spill"))
    False
    """
    pid = os.getpid()
    prefix = f"penstock-{kind}" if kind else "penstock"
    return f"{prefix}-{pid}-{_start_of(pid) or 0}-{_machine()}-{_boot()}-{secrets.token_hex(4)}"


def make_owned_folder(kind: str, parent: Path | None = None) -> Path:
    """Create a folder of this process that only its user may enter; by default in the temporary folder."""
    folder = (parent or Path(tempfile.gettempdir())) / owned_name(kind)
    folder.mkdir(mode=0o700)
    return folder


def is_owner_dead(path: Path) -> bool:
    """Tell whether the process that a folder is named after has ended; False if this machine cannot know."""
    named = _NAME.fullmatch(path.name)
    if named is None or named[3] != _machine():
        return False
    if named[4] != _boot():
        # From an earlier boot of this machine, unless another machine of the same name is still using the folder.
        try:
            return path.lstat().st_mtime < psutil.boot_time()
        except OSError:
            return False
    started = int(named[2])
    return started > 0 and _start_of(int(named[1])) != started


def find_leftovers(parents: Iterable[Path]) -> list[Leftover]:
    """Return the folders of dead processes of this user inside some folders, and the spill folders they link to."""
    found: dict[Path, Leftover] = {}
    for parent in parents:
        for path in _dead_in(parent):
            for folder in (path, *_linked_from(path)):
                found[folder] = Leftover(folder, _owner(folder) or "", _size_of(folder))
    return sorted(found.values(), key=lambda leftover: (leftover.owner, str(leftover.path)))


def _dead_in(parent: Path) -> Iterator[Path]:
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for name in sorted(names):
        if _is_own_folder(parent / name) and is_owner_dead(parent / name):
            yield parent / name


def _linked_from(path: Path) -> Iterator[Path]:
    """Yield the spill folder of a leftover in shared memory, if it has the same owner and still exists."""
    try:
        target = (path / SPILL_LINK).readlink()
    except OSError:
        return
    if _owner(target) == _owner(path) and _is_own_folder(target):
        yield target


def _owner(path: Path) -> str | None:
    named = _NAME.fullmatch(path.name)
    return "-".join(named.groups()) if named is not None else None


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _size_of(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(parent) / name).st_size
            except OSError:  # another process removes it at this moment
                continue
    return total


def _start_of(pid: int) -> int | None:
    """Return the start time of a process, in a unit of the system; None if there is no such process."""
    try:
        # Clock ticks since the machine started: unlike a time of day they do not move when the clock is set.
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        pass
    try:
        return int(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


@cache
def _machine() -> str:
    """Return an id for this machine and its PID namespace: containers on one machine have separate process ids."""
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - the link is followed on purpose
    except OSError:
        numbers = 0
    return _digest(f"{socket.gethostname()} {numbers}")


@cache
def _boot() -> str:
    """Return an id for the current boot of this machine."""
    try:
        return _digest(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    except OSError:
        return _digest("")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
