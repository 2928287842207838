"""Remove a folder so that a killed process never leaves a part of it under its name.

A local folder is renamed first, which is atomic. An object store cannot rename; there a marker is written first and
removed last. The next run finishes a removal that was interrupted.
"""

from __future__ import annotations

import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, is_local, remove_folder

_RENAMED = re.compile(r"\.removed-[0-9a-f]{32}")
_MARKER = "being-removed"


def remove_whole(folder: str) -> None:
    """Remove a folder if it exists."""
    filesystem, name = filesystem_of(folder)
    if not is_local(filesystem):
        if filesystem.exists(name):
            with atomic_write(f"{folder}/{_MARKER}") as stream:
                stream.write(b"")
            finish_removal(folder)
        return
    renamed = f"{name.rstrip('/')}.removed-{uuid.uuid4().hex}"
    with suppress(FileNotFoundError):
        Path(name).rename(renamed)
        remove_folder(renamed)


def finish_removal(folder: str) -> None:
    """Finish the removal of a folder that an interrupted ``remove_whole`` began."""
    filesystem, name = filesystem_of(folder)
    if not is_local(filesystem):
        if filesystem.exists(f"{name}/{_MARKER}"):
            for path in filesystem.find(name):
                if not path.endswith(f"/{_MARKER}"):
                    filesystem.rm(path)
            filesystem.rm(name, recursive=True)
        return
    folder_itself = Path(name)
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in list(folder_itself.parent.iterdir()):
            own, added = entry.name[: len(folder_itself.name)], entry.name[len(folder_itself.name) :]
            if own == folder_itself.name and _RENAMED.fullmatch(added):
                shutil.rmtree(entry, ignore_errors=True)
