"""Temporary files of killed processes: how they are named, and when they may be removed."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.storage.filesystem import filesystem_of, is_local
from penstock.storage.process_identity import is_alive, machine

TEMPORARY_SUFFIX = ".penstock-tmp"
_TEMPORARY = re.compile(r"\..*\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}" + re.escape(TEMPORARY_SUFFIX), re.DOTALL)
# Part of the target's name that is used in the temporary name: file systems limit the length of names.
_NAME_CHARACTERS = 60


def temporary_name(name: str) -> str:
    """Return a hidden name for a file that is being written; it is unique among all processes and machines."""
    return f".{name[:_NAME_CHARACTERS]}.{machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}{TEMPORARY_SUFFIX}"


def is_temporary(path: str) -> bool:
    """Tell whether a path has a temporary name.

    >>> is_temporary("out/" + temporary_name("a.jsonl")), is_temporary("out/.mine.penstock-tmp")
    (True, False)
    """
    return _TEMPORARY.fullmatch(path.rpartition("/")[2]) is not None


def remove_leftovers(
    folder: str,
    storage_options: dict[str, Any] | None = None,
    *,
    below: bool = False,
    no_other_writer: bool = False,
) -> None:
    """Remove temporary files in a folder; with ``below`` also in its subfolders.

    By default only files of dead processes of this machine are removed. A caller that holds the lock of the folder and
    has no workers left sets ``no_other_writer``: then files from other machines are removed as well. Object stores have
    no such files, because an object becomes visible only when it is complete.
    """
    filesystem, name = filesystem_of(folder, storage_options)
    if not is_local(filesystem):
        return
    for path, found in _temporary_files(name, below=below):
        its_machine, pid = found.group(1), int(found.group(2))
        with suppress(FileNotFoundError):
            if no_other_writer or (its_machine == machine() and not is_alive(pid, Path(path).lstat().st_mtime)):
                Path(path).unlink()


def _temporary_files(folder: str, *, below: bool) -> Iterator[tuple[str, re.Match[str]]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if (found := _TEMPORARY.fullmatch(entry.name)) is not None:
                yield entry.path, found
            elif below and entry.is_dir(follow_symlinks=False):
                yield from _temporary_files(entry.path, below=True)
