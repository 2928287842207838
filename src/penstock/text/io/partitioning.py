"""List the input files, group small ones into tasks, and split large ones: the source of every reader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

from penstock.core.files import FileGroupTask, SizedFile, cut_by_bytes, cut_by_pieces, group_files
from penstock.core.resources import Resources
from penstock.core.sizes import parse_bytes
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask
from penstock.storage.compression import compression_of
from penstock.storage.formats import JSONL, PARQUET
from penstock.storage.listing import NOT_READ, describe, list_files

# The default block size; halved until a block fits into the memory of a worker.
DEFAULT_BLOCKSIZE = 64 << 20
SMALLEST_BLOCKSIZE = 1 << 20
# The memory a worker needs per block, in blocks: raw bytes, parsed rows, copies made by filters, output.
_BLOCKS_HELD_PER_WORKER = 8

_CUTS: dict[str, Callable[[SizedFile, int], Iterator[SizedFile]]] = {"lines": cut_by_bytes, "row groups": cut_by_pieces}


class FilePartitioningStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """List files, folders, globs or URLs, and group the files into tasks.

    ``files_per_partition`` is a number of files, ``blocksize`` a number of bytes ("64MB"). Set one of them; with
    neither, each file is a task. ``cut`` says where a file larger than a block may be split, for readers that can read
    a part: at "lines" (not in compressed files) or between "row groups" (whose decompressed size counts). ``limit``
    keeps the first tasks only.

    >>> import pathlib, tempfile
    >>> from penstock import EmptyTask
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
    ...         pathlib.Path(folder, name).touch()
    ...     tasks = FilePartitioningStage(folder, files_per_partition=2).process(EmptyTask())
    >>> [[path.rpartition("/")[2] for path in task.data] for task in tasks]
    [['a.jsonl', 'b.jsonl'], ['c.jsonl']]
    """

    name = "file_partitioning"
    resources = Resources(cpus=0.5)
    reusable_process = True
    preload = ("penstock.text.io.parquet", "penstock.text.io.row_groups")

    def __init__(
        self,
        file_paths: str | Path | Sequence[str | Path],
        files_per_partition: int | None = None,
        blocksize: int | str | None = None,
        file_extensions: Sequence[str] = (*JSONL, *PARQUET),
        storage_options: dict[str, Any] | None = None,
        limit: int | None = None,
        cut: str | None = None,
    ) -> None:
        if files_per_partition is not None and blocksize is not None:
            raise ValueError(
                f"files_per_partition={files_per_partition} and blocksize={blocksize!r} exclude each other: "
                "the first counts files, the second bytes. Give one."
            )
        if files_per_partition is not None and files_per_partition < 1:
            raise ValueError(f"files_per_partition={files_per_partition}: it counts files, 1 or more.")
        if cut is not None and cut not in _CUTS:
            raise ValueError(f"cut={cut!r}; a file is cut at {' or '.join(map(repr, _CUTS))}.")
        self.file_paths = file_paths
        self.files_per_partition = files_per_partition
        self.blocksize = parse_bytes(blocksize) if blocksize is not None else None
        self.file_extensions = tuple(file_extensions)
        self.storage_options = storage_options
        self.limit = limit
        self.cut = cut
        # An additional limit on the memory of a worker, set by the stage that uses this one.
        self.memory_per_worker = inf
        # Small files are grouped up to this many bytes if the user set no size; None: each file is a task.
        self.together_bytes: int | None = None
        self._default_blocksize = DEFAULT_BLOCKSIZE
        # Files that the last listing found and that are not read: their number by reason.
        self._not_read: dict[str, int] = {}

    def process(self, task: EmptyTask) -> list[FileGroupTask]:
        """Return one task per group of files, or part of a file."""
        tasks = self.source_tasks(self.source_files())
        for reason, count in self._not_read.items():
            self._log_metric(f"{NOT_READ}{reason}", count)
        return tasks

    def source_tasks(self, files: Sequence[SizedFile]) -> list[FileGroupTask]:
        """Return the tasks for some files."""
        groups = self.partition_files(files)
        return [
            FileGroupTask(
                dataset_name=Path(group[0].path).parent.name or "dataset",
                data=[file.path for file in group],
                reader_config=self._reader_config(group),
                _metadata={
                    "partition_index": index,
                    "total_partitions": len(groups),
                    "source_files": [file.path for file in group],
                    "source_names": [file.part_name for file in group],
                },
            )
            for index, group in enumerate(groups)
        ]

    def source_files(self) -> list[SizedFile]:
        """Return every file that will be read."""
        files, not_read = listing = list_files(self.file_paths, self.file_extensions, self.storage_options)
        self._not_read = listing.notes() if not_read else {}
        if self.cut != "row groups" or self.files_per_partition is not None:
            return files
        from penstock.text.io.row_groups import with_row_groups

        return with_row_groups(files, self._block, self.storage_options)

    def partition_files(self, files: Sequence[SizedFile]) -> list[list[SizedFile]]:
        """Group the files into tasks; ``limit`` keeps the first groups."""
        parts = [part for file in files for part in self._parts(file)]
        blocksize = self.blocksize if self.files_per_partition or self.blocksize else self.together_bytes
        return list(group_files(parts, self.files_per_partition, blocksize))[: self.limit]

    def fit_to(self, memory_per_worker: float, memory_budget: int | None = None) -> None:
        """Choose the block size, unless the user set one, so that a worker has enough memory for it.

        It is a power of two, so that machines of slightly different size split files alike and name their output alike.
        """
        bound = min(memory_per_worker, self.memory_per_worker) / _BLOCKS_HELD_PER_WORKER
        if memory_budget is not None:
            bound = min(bound, memory_budget / _BLOCKS_HELD_PER_WORKER)
        block = DEFAULT_BLOCKSIZE
        while block > bound and block > SMALLEST_BLOCKSIZE:
            block //= 2
        self._default_blocksize = block

    def before_run(self, *, resuming: bool) -> None:
        """Print which files are not read; planning the run has listed them."""
        if self._not_read:
            print(f"{', '.join(self.reads_from())}: {describe(self._not_read)}", file=sys.stderr)

    def get_config(self) -> dict[str, Any]:
        """Return the parameters and the actual block size: another block size leads to other tasks."""
        return {**super().get_config(), "blocksize": self._block}

    def reads_from(self) -> list[str]:
        """Return the paths as given."""
        given = [self.file_paths] if isinstance(self.file_paths, str | Path) else self.file_paths
        return [str(path) for path in given]

    def num_workers(self) -> int:
        """Return 1: the input is listed once."""
        return 1

    @property
    def _block(self) -> int:
        return self.blocksize if self.blocksize is not None else self._default_blocksize

    def _parts(self, file: SizedFile) -> Iterator[SizedFile]:
        if self.cut is None or self.files_per_partition is not None or compression_of(file.path):
            return iter([file])
        return _CUTS[self.cut](file, self._block)

    def _reader_config(self, group: Sequence[SizedFile]) -> dict[str, Any]:
        if self.cut is None:
            return {}
        part = group[0].part
        return {"blocksize": self._block} | ({} if part is None else {"part": part})
