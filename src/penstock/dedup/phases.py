"""Phases of a deduplication: what all tasks of one have written is handed to the next, as names."""

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
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, open_stored, remove_folder

LISTING = "files.json"
# All there are: a phase begins when the one before it has ended.
_ALL = 1_000_000_000
# Writing a list down takes no time, and whoever has done it must not stand in the way of those who work on it.
_NOTHING = Resources(cpus=0.0)


@dataclass(repr=False)
class Partition(FileGroupTask):
    """The part of all files of a phase that one task looks at."""

    noun: ClassVar[str] = "partitions"


@dataclass(repr=False)
class ListedFiles(FileGroupTask):
    """Files to look at next, which have nothing to do with those that were waited for."""

    noun: ClassVar[str] = "listed files"


class Phase(ProcessingStage[Task[Any], FileGroupTask]):
    """Waits for everything in front of it, writes down which files that made, and begins the next phase.

    The next phase gets one task per partition, which names the list and the number of the partition. ``followers`` are
    folders of what an earlier run made of its list. If this list is another one, because that run could not read a file
    which can be read now, or if that list is missing, they are removed.
    """

    is_barrier = True
    batch_size = _ALL
    resources = _NOTHING
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, name: str, folder: str, partitions: int, followers: Sequence[str] = ()) -> None:
        self.name = name
        self.folder = folder
        self.partitions = partitions
        self.followers = list(followers)

    def num_workers(self) -> int:
        """One list is enough."""
        return 1

    def is_fanout_stage(self) -> bool:
        """Tell whether there is work for several behind it."""
        return self.partitions > 1

    def process_batch(self, tasks: list[Task[Any]]) -> list[FileGroupTask]:
        """Write the list, and return a task per partition."""
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
    """Begins the next phase behind a stage that makes one thing of all there is: nobody need be waited for."""

    is_barrier = False
    batch_size = 1
    reusable_process = True


class Again(ProcessingStage[Task[Any], FileGroupTask]):
    """Waits for everything in front of it, and then reads the input again from its beginning."""

    is_barrier = True
    begins_anew = True
    batch_size = _ALL
    resources = _NOTHING
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, name: str, partitioning: ProcessingStage[EmptyTask, FileGroupTask]) -> None:
        self.name = name
        self.partitioning = partitioning

    def num_workers(self) -> int:
        """One listing is enough."""
        return 1

    def fit_to(self, memory_per_worker: float, memory_budget: int | None = None) -> None:
        """Read in blocks of the size that the first reading has."""
        self.partitioning.fit_to(memory_per_worker, memory_budget)

    def process_batch(self, tasks: list[Task[Any]]) -> list[FileGroupTask]:
        """List the input again; what came in is only a sign that it is time."""
        listed = self.partitioning.process(EmptyTask())
        assert isinstance(listed, list)
        return [
            ListedFiles(task.dataset_name, task.data, _metadata=task._metadata, reader_config=task.reader_config)
            for task in listed
        ]


class AgainAtOnce(Again):
    """Reads the input again behind a stage that makes one thing of all there is: nobody need be waited for."""

    is_barrier = False
    batch_size = 1
    reusable_process = True


class AllInOne(ProcessingStage[FileGroupTask, FileGroupTask]):
    """A stage that gets one task, which names everything: it stays with the phases around it in one worker."""

    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def num_workers(self) -> int:
        """There is work for one."""
        return 1


class EachFile(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Makes a task of every file that an earlier phase wrote, and of some others."""

    resources = _NOTHING
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, name: str, folder: str, others: Sequence[str] = (), below: str = "") -> None:
        self.name = name
        self.folder = folder
        self.others = list(others)
        # Where in the folder the files are meant.
        self.below = below

    def process(self, task: FileGroupTask) -> list[FileGroupTask]:
        """List them."""
        own = [f"{self.folder}/{self.below}{file}" for file in listed(f"{self.folder}/{LISTING}")["files"]]
        return [ListedFiles(self.name, [path]) for path in [*own, *self.others]]


def files_of(task: FileGroupTask) -> tuple[list[str], int]:
    """Return the files a phase is to look at, and the partition of them."""
    [manifest] = task.data
    return listed(manifest)["files"], int(task.reader_config["partition"])


def listed(manifest: str) -> dict[str, Any]:
    """Return what a phase wrote down: the files that were made, and counts."""
    with open_stored(manifest) as stream:
        found: dict[str, Any] = json.loads(stream.read())
    return found


def _added_up(tasks: Sequence[Task[Any]]) -> dict[str, Any]:
    """Add up what the tasks counted: documents per file."""
    documents: Counter[str] = Counter()
    for counts in (task._metadata.get("counts", {}) for task in tasks):
        documents.update({str(file): count for file, count in counts.get("documents", {}).items()})
    return {"documents": documents}


def file_name(task: Task[Any], documents: npt.NDArray[np.int64] | None = None) -> str:
    """Return a name for what is made of a task: the same whenever it is made again of the same documents.

    A task keeps its own name when only a part of it is looked at: because one of its files cannot be read, or while it
    is searched for the row that a worker died of.
    """
    digest = hashlib.sha256(task.task_id.encode("utf-8", "surrogateescape"))
    if documents is not None:
        digest.update(documents.tobytes())
    return digest.hexdigest()[:16]


def exists(path: str) -> bool:
    """Tell whether a file was written; files appear whole, so then it need not be written again."""
    filesystem, name = filesystem_of(path)
    return bool(filesystem.exists(name))
