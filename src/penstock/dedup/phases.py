"""Phases of a deduplication: a phase lists the files that all tasks of the phase before it have written."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from penstock.core.files import FileGroupTask
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask, Task
from penstock.dedup.stored_stage import StoredStage
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, open_stored, remove_folder

LISTING = "files.json"
# Effectively unlimited: a phase takes all tasks of the phase before it in one batch.
_ALL_TASKS = 1_000_000_000
# Writing a list takes almost no time, and must not occupy a CPU that the next phase needs.
_NO_CPU = Resources(cpus=0.0)


@dataclass(repr=False)
class Partition(FileGroupTask):
    """One partition of all files of a phase."""

    noun: ClassVar[str] = "partitions"


@dataclass(repr=False)
class ListedFiles(FileGroupTask):
    """Files to process next. They do not descend from the tasks that the barrier waited for."""

    noun: ClassVar[str] = "listed files"


class Phase(StoredStage, ProcessingStage[Task[Any], FileGroupTask]):
    """Wait for all upstream tasks, write a list of the files they made, and emit one task per partition.

    Each task names the list and the number of its partition. ``followers`` are folders with results that an earlier
    run derived from its list. They are removed if that list is missing or differs, for example because a file could
    not be read then and can be read now.
    """

    is_barrier = True
    batch_size = _ALL_TASKS
    resources = _NO_CPU
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, name: str, folder: str, partitions: int, followers: Sequence[str] = ()) -> None:
        self.name = name
        self.folder = folder
        self.partitions = partitions
        self.followers = list(followers)

    def num_workers(self) -> int:
        """Return 1: a single worker writes the list."""
        return 1

    def is_fanout_stage(self) -> bool:
        """Tell whether it emits several tasks."""
        return self.partitions > 1

    def process_batch(self, tasks: list[Task[Any]]) -> list[FileGroupTask]:
        """Write the list, and return one task per partition."""
        files = [path for task in tasks if isinstance(task, FileGroupTask) for path in task.data]
        manifest = f"{self.folder}/{LISTING}"
        contents = {"files": files, "counts": _added_up(tasks)}
        if self.followers and not (exists(manifest) and listed(manifest) == contents):
            for folder in self.followers:
                remove_folder(folder)
        with atomic_write(manifest, durable=False) as stream:  # every run writes it again
            stream.write(json.dumps(contents).encode())
        return [
            Partition(self.name, [manifest], reader_config={"partition": number}) for number in range(self.partitions)
        ]


class Spread(Phase):
    """A phase after a stage that emits exactly one task: no barrier is needed."""

    is_barrier = False
    batch_size = 1
    reusable_process = True


class Again(StoredStage, ProcessingStage[Task[Any], FileGroupTask]):
    """Wait for all upstream tasks, then list the input again for another pass."""

    is_barrier = True
    begins_anew = True
    batch_size = _ALL_TASKS
    resources = _NO_CPU
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, name: str, partitioning: ProcessingStage[EmptyTask, FileGroupTask]) -> None:
        self.name = name
        self.partitioning = partitioning

    def num_workers(self) -> int:
        """Return 1: a single worker lists the input."""
        return 1

    def fit_to(self, memory_per_worker: float, memory_budget: int | None = None) -> None:
        """Use the same block size as the first pass."""
        self.partitioning.fit_to(memory_per_worker, memory_budget)

    def process_batch(self, tasks: list[Task[Any]]) -> list[FileGroupTask]:
        """List the input again. The incoming tasks are only a signal to start."""
        listed = self.partitioning.process(EmptyTask())
        assert isinstance(listed, list)
        return [
            ListedFiles(task.dataset_name, task.data, _metadata=task._metadata, reader_config=task.reader_config)
            for task in listed
        ]


class AgainAtOnce(Again):
    """List the input again after a stage that emits exactly one task: no barrier is needed."""

    is_barrier = False
    batch_size = 1
    reusable_process = True


class AllInOne(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """A stage that gets a single task for all files. It runs in one worker with the phases around it."""

    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def num_workers(self) -> int:
        """Return 1: there is a single task."""
        return 1


class EachFile(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Emit one task for every file that an earlier phase listed, and for every file in ``others``."""

    resources = _NO_CPU
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, name: str, folder: str, others: Sequence[str] = (), below: str = "") -> None:
        self.name = name
        self.folder = folder
        self.others = list(others)
        # Prefix of the files inside the folder.
        self.below = below

    def process(self, task: FileGroupTask) -> list[FileGroupTask]:
        """Return one task per file."""
        own = [f"{self.folder}/{self.below}{file}" for file in listed(f"{self.folder}/{LISTING}")["files"]]
        return [ListedFiles(self.name, [path]) for path in [*own, *self.others]]


def files_of(task: FileGroupTask) -> tuple[list[str], int]:
    """Return the files that a task of a phase reads, and the number of its partition."""
    [manifest] = task.data
    return listed(manifest)["files"], int(task.reader_config["partition"])


def listed(manifest: str) -> dict[str, Any]:
    """Read the list that a phase wrote: files, and counts of documents."""
    with open_stored(manifest) as stream:
        found: dict[str, Any] = json.loads(stream.read())
    return found


def _added_up(tasks: Sequence[Task[Any]]) -> dict[str, Any]:
    """Add up the documents per input file that the tasks counted."""
    documents: Counter[str] = Counter()
    for counts in (task._metadata.get("counts", {}) for task in tasks):
        documents.update({str(file): count for file, count in counts.get("documents", {}).items()})
    return {"documents": documents}


def file_name(task: Task[Any], documents: npt.NDArray[np.int64] | None = None) -> str:
    """Return a file name for the result of a task: the same name for the same task and documents.

    The documents are part of the name because a task may be processed in part: one of its files may be unreadable, or
    it may be split to find the row that crashed a worker. Its id does not change then.
    """
    digest = hashlib.sha256(task.task_id.encode("utf-8", "surrogateescape"))
    if documents is not None:
        digest.update(documents.tobytes())
    return digest.hexdigest()[:16]


def exists(path: str) -> bool:
    """Tell whether a file exists. Writes are atomic, so an existing file is complete."""
    filesystem, name = filesystem_of(path)
    return bool(filesystem.exists(name))
