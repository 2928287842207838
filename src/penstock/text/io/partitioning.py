"""The source of every reader: which files there are, and which are read together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.core.files import FileGroupTask, SizedFile, group_files
from penstock.core.resources import Resources
from penstock.core.sizes import parse_bytes
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask
from penstock.storage.filesystem import list_files


class FilePartitioningStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """Lists files, folders, globs or URLs, and groups the files into tasks.

    ``files_per_partition`` counts files, ``blocksize`` bytes ("64MB"); give one of them, or none for a task per file.
    """

    name = "file_partitioning"
    resources = Resources(cpus=0.5)

    def __init__(
        self,
        file_paths: str | Path | Sequence[str | Path],
        files_per_partition: int | None = None,
        blocksize: int | str | None = None,
        file_extensions: Sequence[str] = (".jsonl", ".json", ".parquet"),
        storage_options: dict[str, Any] | None = None,
        limit: int | None = None,
    ) -> None:
        if files_per_partition is not None and blocksize is not None:
            raise ValueError(
                f"files_per_partition={files_per_partition} and blocksize={blocksize!r} exclude each other: "
                "the first counts files, the second bytes. Give one."
            )
        if files_per_partition is not None and files_per_partition < 1:
            raise ValueError(f"files_per_partition={files_per_partition}: it counts files, 1 or more.")
        self.file_paths = file_paths
        self.files_per_partition = files_per_partition
        self.blocksize = parse_bytes(blocksize) if blocksize is not None else None
        self.file_extensions = tuple(file_extensions)
        self.storage_options = storage_options
        self.limit = limit

    def process(self, task: EmptyTask) -> list[FileGroupTask]:
        """Return one task per group of files."""
        groups = self.partition_files(self.source_files())
        return [
            FileGroupTask(
                dataset_name=Path(group[0].path).parent.name or "dataset",
                data=[file.path for file in group],
                _metadata={
                    "partition_index": index,
                    "total_partitions": len(groups),
                    "source_files": [file.path for file in group],
                    "source_names": [file.name for file in group],
                },
            )
            for index, group in enumerate(groups)
        ]

    def source_files(self) -> list[SizedFile]:
        """Return every file that will be read."""
        return list_files(self.file_paths, self.file_extensions, self.storage_options)

    def partition_files(self, files: Sequence[SizedFile]) -> list[list[SizedFile]]:
        """Return the groups, of which ``limit`` keeps the first."""
        return list(group_files(files, self.files_per_partition, self.blocksize))[: self.limit]

    def reads_from(self) -> list[str]:
        """Return the paths as given."""
        given = [self.file_paths] if isinstance(self.file_paths, str | Path) else self.file_paths
        return [str(path) for path in given]

    def num_workers(self) -> int:
        """One listing is enough."""
        return 1
