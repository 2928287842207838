"""Create the temporary folders of a run, in shared memory and on disk, and remove them however it ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.util import get_temp_dir
from pathlib import Path

from penstock.errors import OutputError
from penstock.storage.cleaner import Cleaner
from penstock.storage.filesystem import is_writable
from penstock.storage.owned_folders import SPILL_LINK, owned_name

SHARED_MEMORY = Path("/dev/shm")


@dataclass
class RunFolders:
    """The folders that hold the stored tasks of one run."""

    memory: Path
    spill: Path
    _cleaner: Cleaner

    @classmethod
    def make(cls, spill_dir: str | None) -> RunFolders:
        """Create the folders, after starting a process that removes them if this one dies."""
        name = owned_name()
        spill = spill_folder(spill_dir) / name.replace("penstock-", "penstock-spill-", 1)
        memory = [parent / name for parent in (SHARED_MEMORY, Path(tempfile.gettempdir())) if is_writable(parent)]
        # Python's own folder holds the socket of the fork server: it would remain after this process is killed.
        cleaner = Cleaner((spill, *memory), of_process=[Path(get_temp_dir())])
        folders = cls(spill, spill, cleaner)
        try:
            spill.mkdir(mode=0o700)
            folders._make_memory(memory)
        except OSError as error:
            folders.remove()
            raise OutputError(
                f"a run needs a temporary folder, which cannot be made: {error}. Free some space there, or choose "
                "another place with the environment variable TMPDIR or with StreamingExecutor(spill_dir=...)."
            ) from error
        return folders

    def _make_memory(self, candidates: Sequence[Path]) -> None:
        """Create the first folder that can be created; none can in a full shared memory."""
        for folder in candidates:
            try:
                folder.mkdir(mode=0o700)
            except OSError:
                continue
            self.memory = folder
            with suppress(OSError):  # the link only helps `penstock doctor` to find the other folder
                (folder / SPILL_LINK).symlink_to(self.spill)
            return

    def remove(self) -> None:
        """Remove the folders."""
        for folder in (self.spill, self.memory):
            shutil.rmtree(folder, ignore_errors=True)
        self._cleaner.dismiss()


def spill_folder(spill_dir: str | None) -> Path:
    """Return the folder that runs spill to, created if missing; raise if it is not writable."""
    folder = Path(spill_dir) if spill_dir is not None else None
    try:
        folder = (folder or Path(tempfile.gettempdir())).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if not is_writable(folder):
            raise PermissionError("not writable by this user")
    except OSError as error:
        reason = "it is a file, or inside one" if isinstance(error, FileExistsError | NotADirectoryError) else error
        named = f"spill_dir={spill_dir!r}" if spill_dir is not None else "the system's folder for temporary files"
        raise OutputError(
            f"{named} cannot be used: {reason}. Set spill_dir to a folder on a disk with space for data that does "
            "not fit into memory; without it the system's folder for temporary files is used."
        ) from error
    return folder


def shared_memory_free() -> int:
    """Return the free bytes of shared memory."""
    folder = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    return shutil.disk_usage(folder).free
