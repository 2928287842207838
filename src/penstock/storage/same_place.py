"""Resolve paths (links, ``..``, relative names, URLs) and detect overlaps, so that no output overwrites an input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.storage.filesystem import filesystem_of, is_local


def resolved(path: str, storage_options: dict[str, Any] | None = None) -> str:
    """Return the absolute path with symbolic links resolved.

    A glob pattern resolves to the folder that contains all its matches.
    """
    filesystem, name = filesystem_of(path, storage_options)
    if is_local(filesystem):
        return os.path.realpath(name if os.path.lexists(name) else _without_pattern(name))
    return str(filesystem.unstrip_protocol(_without_pattern(name))).rstrip("/")


def overlap(one: str, other: str) -> bool:
    """Tell whether two resolved paths are the same, or one is inside the other."""
    return is_inside(one, other) or is_inside(other, one)


def is_inside(place: str, folder: str) -> bool:
    """Tell whether a resolved path is a folder, or is inside the folder.

    Names are compared, and for local paths also device and inode: with a bind mount, or on a file system that ignores
    case, one folder has several names.
    """
    if place == folder or place.startswith(f"{folder.rstrip('/')}/"):
        return True
    if "://" in place or "://" in folder:
        return False
    wanted = _identity(folder)
    return wanted is not None and any(_identity(above) == wanted for above in (place, *map(str, Path(place).parents)))


def first_inside(files: Iterable[str], folder: str) -> str | None:
    """Return the first of some listed files that is inside a resolved folder, after resolving links.

    There may be millions of files: links are resolved once per folder of the files.
    """
    folders: dict[str, bool] = {}
    for path in files:
        if "://" in path or "://" in folder:  # a listing returns URLs in canonical form
            if path.startswith(f"{folder}/"):
                return path
            continue
        above = path.rpartition("/")[0] or "/"
        if above not in folders:
            folders[above] = is_inside(os.path.realpath(above), folder)
        if folders[above] or (Path(path).is_symlink() and is_inside(os.path.realpath(path), folder)):
            return path
    return None


def _without_pattern(name: str) -> str:
    """Return the part of a path before the first wildcard, as a folder."""
    fixed = re.split(r"[*?\[]", name, maxsplit=1)[0]
    return name if fixed == name else fixed.rpartition("/")[0] or "/"


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode; None if the path does not exist, or the file system has no inodes."""
    with suppress(OSError):
        found = Path(path).stat()
        return (found.st_dev, found.st_ino) if found.st_ino else None
    return None
