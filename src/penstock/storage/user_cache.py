"""The cache folder of this user, for files that can be created again.

It is in the home folder. In a container the home folder is often missing or not writable; then the cache is a folder in
the temporary folder of the machine, named after the user, which no other user can enter.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.storage.filesystem import is_writable


def user_cache() -> Path | None:
    """Return the first candidate folder that is writable or can be created; None if there is none."""
    return next((folder for folder in _candidates() if _can_be_used(folder)), None)


def temporary_cache() -> Path:
    """Return the folder that is used if the home folder is not writable."""
    try:
        parent = tempfile.gettempdir()
    except FileNotFoundError:  # nothing can be written anywhere
        parent = "/tmp"
    return Path(parent) / f"penstock-cache-{os.getuid()}"


def why_not_private(folder: Path) -> str | None:
    """Return why another user could change files in a folder; None if no other user can.

    This matters for code: a user with write access can make this user run other code. Parent folders are checked too,
    because renaming a folder is enough to replace it.
    """
    with suppress(OSError):
        folder = folder.resolve()
    for place in (folder, *folder.parents):
        try:
            found = place.stat()
        except OSError as error:
            return f"{place} cannot be inspected: {error.strerror}"
        if found.st_uid != os.getuid() and (place == folder or found.st_uid != 0):
            return f"{place} belongs to another user"
        is_sticky = place != folder and bool(found.st_mode & stat.S_ISVTX)
        if found.st_mode & stat.S_IWOTH and not is_sticky:
            return f"{place} can be changed by every user"
        if found.st_mode & stat.S_IWGRP and not is_sticky and not _is_own_group(found.st_gid):
            return f"{place} can be changed by all members of a group"
    return None


def _candidates() -> Iterator[Path]:
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen and Path(chosen).is_absolute():
        yield Path(chosen) / "penstock"
    with suppress(RuntimeError):  # no HOME, and no home in the list of users
        yield Path.home() / ".cache" / "penstock"
    yield temporary_cache()


def _can_be_used(folder: Path) -> bool:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if folder == temporary_cache() and existing == folder and why_not_private(folder) is not None:
        return False
    return is_writable(existing)


def _is_own_group(number: int) -> bool:
    """Tell whether a group is the private group of this user, which many systems create for every user."""
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
