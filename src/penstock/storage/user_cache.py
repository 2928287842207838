"""A folder in which this user may keep what can be made again.

It is in the home folder. In a container that is often missing or not writable; then it is a folder among the temporary
files of the machine, named after the user, which no other user can enter.
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
    """Return the first folder that can be written to, or that can be made; None if there is none at all."""
    return next((folder for folder in _candidates() if _can_be_used(folder)), None)


def temporary_cache() -> Path:
    """Return the folder that is used where no home folder can be written to."""
    try:
        parent = tempfile.gettempdir()
    except FileNotFoundError:  # nothing can be written anywhere
        parent = "/tmp"
    return Path(parent) / f"penstock-cache-{os.getuid()}"


def why_not_private(folder: Path) -> str | None:
    """Say how another user could change what is in a folder; None if none can.

    That matters for code: a user who can write it can run it as this user. The folders above count too, because a user
    who can rename a folder can put another one in its place.
    """
    with suppress(OSError):
        folder = folder.resolve()
    for place in (folder, *folder.parents):
        try:
            found = place.stat()
        except OSError as error:
            return f"{place} cannot be looked at: {error.strerror}"
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
    """Tell whether this user is the only member of a group, as many systems give every user one of their own."""
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
