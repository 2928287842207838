"""The work folder of a workflow for intermediate files, and the memory that a workflow may use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Self

import psutil

from penstock.core.sizes import parse_bytes
from penstock.dedup.phases import exists
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_stored, remove_folder
from penstock.storage.folder_options import FolderOptions
from penstock.storage.leftovers import remove_leftovers
from penstock.storage.run_folder import FOLDER_NAME, LOCK
from penstock.storage.run_lock import RunLock
from penstock.storage.whole_removal import finish_removal, remove_whole

OUTCOME = "outcome.json"
# Default location, relative to the output folder.
INSIDE_OUTPUT = "_penstock/dedup"
_SHARE_OF_FREE_MEMORY = 0.4
# Increase this when the format of an intermediate file changes, so that no run resumes from files in the old format.
_FORMAT_VERSION = 1


class WorkFolder:
    """A folder of intermediate files for one input and one set of parameters; every file in it is complete.

    A ``with`` block locks it and the ``outputs``, which are folders, against other runs. Temporary files that killed
    processes left in any of these are removed when the block begins and when it ends.
    """

    def __init__(
        self,
        cache_path: str,
        parameters: dict[str, Any],
        folder_options: FolderOptions | None = None,
        *,
        output_path: str | None = None,
        outputs: Sequence[str] = (),
        generation: str | None = None,
    ) -> None:
        # Storage options for the stages that write here.
        self.folder_options = folder_options
        self.folder = f"{cache_path}/{digest_of({'form': _FORMAT_VERSION, **parameters})}"
        self._is_inside_output = cache_path.endswith(f"/{INSIDE_OUTPUT}")
        # Folder that is removed at the end.
        self._whole = cache_path if self._is_inside_output else self.folder
        self._outputs = [*([output_path] if output_path else []), *outputs]
        # Folder of the generation that this run adds to an index, if there is one.
        self._generation = generation
        self._locks = []
        if output_path is not None:
            self._locks.append(RunLock(f"{output_path}/{FOLDER_NAME}/{LOCK}", removes_folder=True))
        if not self._is_inside_output:
            self._locks.append(RunLock(f"{self.folder}.{LOCK}"))
        if generation is not None:
            self._locks.append(RunLock(f"{generation}.{LOCK}"))

    def __enter__(self) -> Self:
        """Take the locks; raise ``OutputError`` if another run holds one."""
        taken: list[RunLock] = []
        try:
            for lock in self._locks:
                lock.take()
                taken.append(lock)
        except BaseException:
            for lock in reversed(taken):
                lock.release()
            raise
        finish_removal(self._whole)
        self._remove_leftovers()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the locks."""
        self._remove_leftovers()
        for lock in reversed(self._locks):
            lock.release()

    def _remove_leftovers(self) -> None:
        for folder in self._outputs:
            remove_leftovers(folder, no_other_writer=True)
        for folder in [self._whole, *([self._generation] if self._generation else [])]:
            remove_leftovers(folder, below=True, no_other_writer=True)

    def plan(self, numbers: dict[str, int]) -> dict[str, int]:
        """Return the numbers that the interrupted run stored here; store and return ``numbers`` if there is none.

        The files here are divided into a certain number of partitions. A run that resumes must use the same number,
        even if another amount of memory is free now.
        """
        path = f"{self.folder}/plan.json"
        if exists(path):
            with open_stored(path) as stream:
                begun: dict[str, int] = json.loads(stream.read())
            return begun
        # This is the first file that a run writes. Without it, the number of partitions of the others is not known.
        remove_folder(self.folder)
        with atomic_write(path) as stream:
            stream.write(json.dumps(numbers).encode())
        return numbers

    def outcome(self) -> dict[str, Any]:
        """Return the counts of a finished run; zeros if the input was empty."""
        path = f"{self.folder}/{OUTCOME}"
        if not exists(path):
            return dict.fromkeys(("num_documents", "num_duplicates", "num_exact_duplicates"), 0)
        with open_stored(path) as stream:
            numbers: dict[str, Any] = json.loads(stream.read())
        return numbers

    def clear(self) -> None:
        """Remove the folder. Inside an output, this includes the folders of unfinished runs with other parameters."""
        remove_whole(self._whole)


def digest_of(parameters: dict[str, Any]) -> str:
    """Return a short hash of some parameters, for the name of a folder."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()[:12]


def memory_and_workers(memory_budget: int | str | None) -> tuple[int, int]:
    """Return the memory budget in bytes, and the number of workers that share it."""
    budget = parse_bytes(memory_budget) if memory_budget is not None else None
    free = int(psutil.virtual_memory().available * _SHARE_OF_FREE_MEMORY)
    return budget or free, psutil.cpu_count() or 1
