"""Where a workflow keeps what it needs in between, and how much memory it may use."""

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
from penstock.storage.leftovers import remove_leftovers
from penstock.storage.reach import Reach
from penstock.storage.run_folder import FOLDER_NAME, LOCK
from penstock.storage.run_lock import RunLock
from penstock.storage.whole_removal import finish_removal, remove_whole

OUTCOME = "outcome.json"
# Where it is if nobody chose a place.
INSIDE_OUTPUT = "_penstock/dedup"
_SHARE_OF_FREE_MEMORY = 0.4
# To be raised when something that lies here is written in another way: a run never goes on from the old one then.
_FORM = 1


class WorkFolder:
    """A folder for one input and one set of parameters: what is in it is whole, and right for them.

    In a ``with`` block no other run works in it, nor in the ``outputs``, which are folders. Temporary files that killed
    processes left in any of these are removed when the block begins and when it ends.
    """

    def __init__(
        self,
        cache_path: str,
        parameters: dict[str, Any],
        reach: Reach | None = None,
        *,
        output_path: str | None = None,
        outputs: Sequence[str] = (),
        generation: str | None = None,
    ) -> None:
        # Travels with the stages that write here.
        self.reach = reach
        self.folder = f"{cache_path}/{digest_of({'form': _FORM, **parameters})}"
        self._is_ours_alone = cache_path.endswith(f"/{INSIDE_OUTPUT}")
        # What is removed at the end.
        self._whole = cache_path if self._is_ours_alone else self.folder
        self._outputs = [*([output_path] if output_path else []), *outputs]
        # What an index gets from this run, if there is one.
        self._generation = generation
        self._locks = []
        if output_path is not None:
            self._locks.append(RunLock(f"{output_path}/{FOLDER_NAME}/{LOCK}", removes_folder=True))
        if not self._is_ours_alone:
            self._locks.append(RunLock(f"{self.folder}.{LOCK}"))
        if generation is not None:
            self._locks.append(RunLock(f"{generation}.{LOCK}"))

    def __enter__(self) -> Self:
        """Keep other runs out; raise if one is at work."""
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
        """Let other runs in."""
        self._remove_leftovers()
        for lock in reversed(self._locks):
            lock.release()

    def _remove_leftovers(self) -> None:
        for folder in self._outputs:
            remove_leftovers(folder, nobody_writes=True)
        for folder in [self._whole, *([self._generation] if self._generation else [])]:
            remove_leftovers(folder, below=True, nobody_writes=True)

    def plan(self, numbers: dict[str, int]) -> dict[str, int]:
        """Return the numbers that this work was begun with; these, if it begins now.

        What lies here is cut into so many partitions. A run that goes on with it must not think of another number,
        because there is more memory free today.
        """
        path = f"{self.folder}/plan.json"
        if exists(path):
            with open_stored(path) as stream:
                begun: dict[str, int] = json.loads(stream.read())
            return begun
        # It is the first file that a run writes: without it nothing tells how the others were cut.
        remove_folder(self.folder)
        with atomic_write(path) as stream:
            stream.write(json.dumps(numbers).encode())
        return numbers

    def outcome(self) -> dict[str, Any]:
        """Return the numbers of a run that has ended; zeros if there was nothing to read."""
        path = f"{self.folder}/{OUTCOME}"
        if not exists(path):
            return dict.fromkeys(("num_documents", "num_duplicates", "num_exact_duplicates"), 0)
        with open_stored(path) as stream:
            numbers: dict[str, Any] = json.loads(stream.read())
        return numbers

    def clear(self) -> None:
        """Remove it: what was wanted has been written elsewhere.

        Inside an output it is removed with what runs with other parameters, or of other files, left unfinished.
        """
        remove_whole(self._whole)


def digest_of(parameters: dict[str, Any]) -> str:
    """Return a name that follows from all of some parameters."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()[:12]


def memory_and_workers(memory_budget: int | str | None) -> tuple[int, int]:
    """Return the bytes that may be used, and by how many workers at the same time."""
    budget = parse_bytes(memory_budget) if memory_budget is not None else None
    free = int(psutil.virtual_memory().available * _SHARE_OF_FREE_MEMORY)
    return budget or free, psutil.cpu_count() or 1
