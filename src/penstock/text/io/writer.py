"""What all document writers share: names that follow from the input, files that appear whole, modes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.sizes import parse_bytes
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import MissingColumnError, OutputError, suggestion
from penstock.storage.atomic import TEMPORARY_SUFFIX, atomic_write
from penstock.storage.filesystem import filesystem_of
from penstock.storage.run_folder import FOLDER_NAME

MODES = ("ignore", "overwrite", "error")
_STEM_LENGTH = 12


class DocumentWriter(ProcessingStage[DocumentBatch, FileGroupTask]):
    """Writes each batch as one file; a subclass knows the format.

    ``mode`` says what to do with files that lie in ``path`` already, when the run begins (making a writer touches
    nothing): ``ignore`` leaves them, ``overwrite`` removes those of this format, ``error`` refuses to run. A batch of
    no documents writes no file. With a ``target_file_size`` ("256MB", before compression) a larger batch is written
    as several files, numbered.
    """

    default_extension: ClassVar[str]
    file_format: ClassVar[str]
    known_write_kwargs: ClassVar[tuple[str, ...] | None] = ("storage_options",)

    def __init__(
        self,
        path: str | Path,
        write_kwargs: dict[str, Any] | None = None,
        fields: Sequence[str] | None = None,
        mode: str = "ignore",
        file_extension: str | None = None,
        *,
        compression: str | None = None,
        target_file_size: int | str | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"{type(self).__name__}: mode={mode!r}; it is one of {', '.join(MODES)}.")
        self.path = os.fspath(path)
        self.write_kwargs = dict(write_kwargs or {})
        for key in self.write_kwargs:
            if self.known_write_kwargs is not None and key not in self.known_write_kwargs:
                raise ValueError(
                    f"{type(self).__name__}: write_kwargs has no '{key}'; it has {', '.join(self.known_write_kwargs)}."
                    f"{suggestion(key, self.known_write_kwargs)}"
                )
        self.fields = list(fields) if fields is not None else None
        self.mode = mode
        self.file_extension = (file_extension or self.default_extension).removeprefix(".")
        self.compression = compression
        self.target_file_size = parse_bytes(target_file_size) if target_file_size is not None else None

    def write_documents(self, task: DocumentBatch, stream: IO[bytes]) -> None:
        """Write the documents in the writer's format."""
        raise NotImplementedError

    def process(self, task: DocumentBatch) -> FileGroupTask | None:
        """Write one file, or several of the target size, named after where the documents come from."""
        stem = f"{self.path.rstrip('/')}/{self.stem_of(task.task_id)}"
        for field in self.fields or ():
            if task.num_items and field not in task.get_columns():
                raise MissingColumnError(self.name, field, task.get_columns())
        parts = list(self._parts(task))
        whole = f"{stem}.{self.file_extension}"
        numbered = [f"{stem}_{number}.{self.file_extension}" for number in range(len(parts))]
        targets = [whole] if len(parts) == 1 else numbered
        for target, part in zip(targets, parts, strict=True):
            with atomic_write(target, self.storage_options) as stream:
                self.write_documents(part, stream)
        # An earlier run may have had documents where now there are none, or more of them.
        if len(parts) != 1:
            self._remove_if_there(whole)
        if self.target_file_size is not None:
            number = len(parts) if len(parts) > 1 else 0
            while self._remove_if_there(f"{stem}_{number}.{self.file_extension}"):
                number += 1
        if not targets:
            return None
        return FileGroupTask(task.dataset_name, targets, _metadata={"format": self.file_format})

    def inputs(self) -> Spec:
        """Return the fields to be written, if they were named."""
        return ["data"], list(self.fields or [])

    def writes_to(self) -> str:
        """Return the output folder."""
        return self.path

    def before_run(self, *, resuming: bool) -> None:
        """Look at what lies in the output folder, and clear it or refuse, as the mode says."""
        filesystem, name = filesystem_of(self.path, self.storage_options)
        if filesystem.isfile(name):
            raise OutputError(f"{self.path}: is a file. The writer needs a folder; choose another output.")
        if not filesystem.exists(name):
            return
        below = [str(file) for file in filesystem.find(name)]
        data = [file for file in below if f"/{FOLDER_NAME}/" not in file and not file.endswith(TEMPORARY_SUFFIX)]
        if data and self.mode == "error" and not resuming:
            raise OutputError(
                f"{self.path}: there are {len(data)} files in it already, such as {data[0]}. Choose another output "
                "folder, or mode=overwrite to replace it, or mode=ignore to write beside them."
            )
        leftovers = [file for file in below if file.endswith(TEMPORARY_SUFFIX)]
        if self.mode == "overwrite" and not resuming:
            # Only where the writer itself would have put them: folders further down are somebody else's.
            own = [file for file in data if filesystem._parent(file).rstrip("/") == name.rstrip("/")]
            leftovers += [file for file in own if file.endswith(f".{self.file_extension}")]
        for file in leftovers:
            filesystem.rm(file)

    def stem_of(self, task_id: str) -> str:
        """Return what the files of a task are called, without number and extension.

        It is the same for the same input, and different for every task of a run.
        """
        return hashlib.sha256(task_id.encode()).hexdigest()[:_STEM_LENGTH]

    def own_files(self) -> list[str]:
        """Return the names in the output folder that a writer of this kind gives to its files."""
        filesystem, name = filesystem_of(self.path, self.storage_options)
        if not filesystem.isdir(name):
            return []
        endings = "|".join(re.escape(extension) for extension in self.extensions)
        own = re.compile(rf"[0-9a-f]{{{_STEM_LENGTH}}}(_\d+)?\.({endings})")
        names = [str(path).rstrip("/").rpartition("/")[2] for path in filesystem.ls(name, detail=False)]
        return sorted(name for name in names if own.fullmatch(name))

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove some files from the output folder, as far as they are there."""
        for name in names:
            self._remove_if_there(f"{self.path.rstrip('/')}/{name}")

    @property
    def extensions(self) -> tuple[str, ...]:
        """What the names of its files end in."""
        return (self.file_extension,)

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """How to reach the output, as fsspec takes it."""
        options: dict[str, Any] | None = self.write_kwargs.get("storage_options")
        return options

    def _parts(self, task: DocumentBatch) -> Iterator[DocumentBatch]:
        """Cut a batch into what goes into one file each."""
        if task.num_items == 0:
            return
        count = 1 if self.target_file_size is None else -(-task.num_bytes // self.target_file_size)
        if count <= 1:
            yield task
            return
        rows = -(-task.num_items // count)
        for first in range(0, task.num_items, rows):
            yield task.select(np.arange(first, min(first + rows, task.num_items)))

    def _remove_if_there(self, target: str) -> bool:
        filesystem, name = filesystem_of(target, self.storage_options)
        found: bool = filesystem.exists(name)
        if found:
            filesystem.rm(name)
        return found
