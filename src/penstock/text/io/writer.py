"""The base of all document writers: stable file names, atomic writes, output modes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.sizes import parse_bytes, plural
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import MissingColumnError, OutputError, suggestion
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of
from penstock.storage.leftovers import is_temporary
from penstock.storage.run_folder import FOLDER_NAME
from penstock.text.io.output_names import NamesApart, is_name, name_of, names_of

MODES = ("ignore", "overwrite", "error")


class DocumentWriter(ProcessingStage[DocumentBatch, FileGroupTask]):
    """Write each batch as one file; a subclass implements the format.

    ``mode`` applies to files that are in ``path`` when the run begins (constructing a writer touches nothing):
    ``ignore`` keeps them, except that a run over the same input replaces its earlier output; ``overwrite`` removes
    files of this format; ``error`` refuses to run. An empty batch writes no file. With ``target_file_size`` ("256MB",
    before compression) a larger batch is written as several numbered files.
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
        self._origins: tuple[str, ...] = ()
        self._names = NamesApart()

    def write_documents(self, task: DocumentBatch, stream: IO[bytes]) -> None:
        """Write the documents in the writer's format."""
        raise NotImplementedError

    def process(self, task: DocumentBatch) -> FileGroupTask | None:
        """Write one file, or several of the target size, named after the input of the documents."""
        stem = self.stem_of(task)
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
        # Remove files of an earlier run that wrote more documents here.
        if len(parts) != 1:
            self._remove_if_there(whole)
        if self.target_file_size is not None:
            number = len(parts) if len(parts) > 1 else 0
            while self._remove_if_there(f"{stem}_{number}.{self.file_extension}"):
                number += 1
        if not targets:
            return None
        return FileGroupTask(task.dataset_name, targets, _metadata={"format": self.file_format})

    def stem_of(self, task: DocumentBatch) -> str:
        """Return the path for a batch without extension: the same for the same input, in any run."""
        return f"{self.path.rstrip('/')}/{name_of(task, self._names)}"

    def inputs(self) -> Spec:
        """Return the fields to write, if they were named."""
        return ["data"], list(self.fields or [])

    def writes_to(self) -> str:
        """Return the output folder."""
        return self.path

    def know_origins(self, origins: Sequence[str]) -> None:
        """Set the origins whose files must have different names; ``before_run`` decides how."""
        self._origins = tuple(origins)
        self._names = NamesApart()

    def before_run(self, *, resuming: bool) -> None:
        """Check the output folder, and clear it or refuse to run, depending on the mode."""
        filesystem, name = filesystem_of(self.path, self.storage_options)
        if filesystem.isfile(name):
            raise OutputError(f"{self.path}: is a file. The writer needs a folder; choose another output.")
        data = self._data_files(filesystem, name)
        if data and self.mode == "error" and not resuming:
            raise OutputError(
                f"{self.path}: already contains {plural(len(data), 'file')}, such as {data[0]}. Choose another output "
                "folder, or mode=overwrite to replace it, or mode=ignore to write beside them."
            )
        # Only directly in the folder, where the writer puts its files; subfolders are not touched.
        own = [
            file
            for file in data
            if filesystem._parent(file).rstrip("/") == name.rstrip("/") and file.endswith(f".{self.file_extension}")
        ]
        if self.mode == "overwrite" and not resuming:
            for file in own:
                filesystem.rm(file)
            own = []
        if not self._origins:
            return
        self._names = NamesApart.settle(
            self.path,
            self.file_extension,
            self._origins,
            self.storage_options,
            is_empty=not any(is_name(file.rpartition("/")[2].removesuffix(f".{self.file_extension}")) for file in own),
            resuming=resuming,
        )

    def _data_files(self, filesystem: Any, name: str) -> list[str]:  # noqa: ANN401 - fsspec has no types
        """Return the files in the output folder and below, without Penstock's own."""
        if not filesystem.exists(name):
            return []
        below = [str(file) for file in filesystem.find(name)]
        return [file for file in below if f"/{FOLDER_NAME}/" not in file and not is_temporary(file)]

    def stems_of(self, task_id: str) -> list[str]:
        """Return the possible file names of a task, without number and extension: one per origin."""
        return names_of(task_id, self._names)

    def own_files(self) -> list[str]:
        """Return the files in the output folder whose names a writer of this kind gives."""
        filesystem, name = filesystem_of(self.path, self.storage_options)
        if not filesystem.isdir(name):
            return []
        names = [str(path).rstrip("/").rpartition("/")[2] for path in filesystem.ls(name, detail=False)]
        endings = tuple(f".{extension}" for extension in self.extensions)
        return sorted(name for name in names if name.endswith(endings) and is_name(_without(name, endings)))

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove some files from the output folder, if they exist."""
        for name in names:
            self._remove_if_there(f"{self.path.rstrip('/')}/{name}")

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions of its files."""
        return (self.file_extension,)

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """The options for reaching the output, as fsspec takes them."""
        options: dict[str, Any] | None = self.write_kwargs.get("storage_options")
        return options

    def _parts(self, task: DocumentBatch) -> Iterator[DocumentBatch]:
        """Split a batch into one part per file."""
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


def _without(name: str, endings: Sequence[str]) -> str:
    return next(name.removesuffix(ending) for ending in endings if name.endswith(ending))
