"""The folders of a run that are gone when it is over, however it ends: one in shared memory, one on disk."""

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
    """Where stored tasks of one run lie."""

    memory: Path
    spill: Path
    _cleaner: Cleaner

    @classmethod
    def make(cls, spill_dir: str | None) -> RunFolders:
        """Make the folders; before that, start the process that removes them when this one is gone."""
        name = owned_name()
        spill = spill_folder(spill_dir) / name.replace("penstock-", "penstock-spill-", 1)
        memory = [parent / name for parent in (SHARED_MEMORY, Path(tempfile.gettempdir())) if is_writable(parent)]
        # Python has a folder too, with the socket of the fork server: a killed process would leave it behind.
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
        """Make the first folder that can be made; in a full shared memory none can."""
        for folder in candidates:
            try:
                folder.mkdir(mode=0o700)
            except OSError:
                continue
            self.memory = folder
            with suppress(OSError):  # it only helps `penstock doctor` to find the other folder
                (folder / SPILL_LINK).symlink_to(self.spill)
            return

    def remove(self) -> None:
        """Remove everything now."""
        for folder in (self.spill, self.memory):
            shutil.rmtree(folder, ignore_errors=True)
        self._cleaner.dismiss()


def spill_folder(spill_dir: str | None) -> Path:
    """Return the folder that runs spill to, made if it is missing; raise if nothing can be written there."""
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
            f"{named} cannot be used: {reason}. Set spill_dir to a folder on a disk with room for what does not fit "
            "into memory; without it the system's folder for temporary files is used."
        ) from error
    return folder


def shared_memory_free() -> int:
    """Return how many bytes of shared memory are free."""
    folder = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    return shutil.disk_usage(folder).free
