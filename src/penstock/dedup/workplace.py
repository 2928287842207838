"""Where a workflow keeps what it needs in between, and how much memory it may use."""

from __future__ import annotations

import fcntl
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from penstock.core.sizes import parse_bytes
from penstock.dedup.phases import exists
from penstock.errors import InputError
from penstock.storage.atomic import atomic_write, explain_write
from penstock.storage.filesystem import filesystem_of, is_local, open_stored, remove_folder
from penstock.storage.reach import Reach

OUTCOME = "outcome.json"
# Where it is if nobody chose a place.
INSIDE_OUTPUT = "_penstock/dedup"
_SHARE_OF_FREE_MEMORY = 0.4
# To be raised when something that lies here is written in another way: a run never goes on from the old one then.
_FORM = 1


class Workplace:
    """A folder for one input and one set of parameters: what is in it is whole, and right for them."""

    def __init__(self, cache_path: str, parameters: dict[str, Any], reach: Reach | None = None) -> None:
        # Travels with the stages that write here.
        self.reach = reach
        self.folder = f"{cache_path}/{digest_of({'form': _FORM, **parameters})}"
        self._is_ours_alone = cache_path.endswith(f"/{INSIDE_OUTPUT}")
        self._claim: IO[str] | None = None

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
        """Remove it: what was wanted has been written elsewhere."""
        cache = self.folder.rpartition("/")[0]
        if not self._is_ours_alone:
            remove_folder(self.folder)
            return
        # Ours alone: what a run with other parameters, or of other files, left unfinished is of no use to this output.
        remove_folder(cache)
        if is_local(filesystem_of(cache)[0]):
            with suppress(OSError):
                Path(cache).parent.rmdir()

    def claim(self) -> None:
        """Keep other processes out until it is released, or this process ends; remote file systems have no locks."""
        folder = self.folder.rpartition("/")[0] if self._is_ours_alone else self.folder
        filesystem, name = filesystem_of(folder)
        if self._claim is not None or not is_local(filesystem):
            return
        with explain_write(folder):
            Path(name).mkdir(parents=True, exist_ok=True)
            self._claim = (Path(name) / "lock").open("a")
        try:
            fcntl.lockf(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise InputError(
                f"{folder}: another run is at work there. Let it end, or stop it and run again; or give another output."
            ) from None

    def release(self) -> None:
        """Let others work here."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None


def digest_of(parameters: dict[str, Any]) -> str:
    """Return a name that follows from all of some parameters."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()[:12]


def memory_and_workers(memory_budget: int | str | None) -> tuple[int, int]:
    """Return the bytes that may be used, and by how many workers at the same time."""
    budget = parse_bytes(memory_budget) if memory_budget is not None else None
    free = int(psutil.virtual_memory().available * _SHARE_OF_FREE_MEMORY)
    return budget or free, psutil.cpu_count() or 1
