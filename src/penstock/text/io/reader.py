"""What all document readers share: a composite that lists files, and a stage that reads a group of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from penstock.core.composite import CompositeStage
from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.task import EmptyTask
from penstock.errors import suggestion
from penstock.text.io.partitioning import FilePartitioningStage


class DocumentReaderStage(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Reads a group of files into one batch; a subclass knows the format."""

    # Which read_kwargs the format knows; None: whatever its library takes.
    known_read_kwargs: ClassVar[tuple[str, ...] | None] = ("storage_options",)

    def __init__(self, fields: Sequence[str] | None = None, read_kwargs: dict[str, Any] | None = None) -> None:
        self.fields = list(fields) if fields is not None else None
        self.read_kwargs = dict(read_kwargs or {})
        for key in self.read_kwargs:
            if self.known_read_kwargs is not None and key not in self.known_read_kwargs:
                raise ValueError(
                    f"{type(self).__name__}: read_kwargs has no '{key}'; it has {', '.join(self.known_read_kwargs)}."
                    f"{suggestion(key, self.known_read_kwargs)}"
                )

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """How to reach the files, as fsspec takes it."""
        options: dict[str, Any] | None = self.read_kwargs.get("storage_options")
        return options

    def outputs(self) -> Spec:
        """Return the fields asked for; none: whatever the files have."""
        return ["data"], list(self.fields or [])


class DocumentReader(CompositeStage[EmptyTask, DocumentBatch]):
    """Lists files and reads them in groups; a subclass names the format."""

    default_extensions: ClassVar[tuple[str, ...]]
    reader_stage: ClassVar[type[DocumentReaderStage]]

    def __init__(
        self,
        file_paths: str | Path | Sequence[str | Path],
        files_per_partition: int | None = None,
        blocksize: int | str | None = None,
        fields: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        task_type: str = "document",
        file_extensions: Sequence[str] | None = None,
    ) -> None:
        if task_type != "document":
            raise ValueError(f"{type(self).__name__}: task_type={task_type!r}; it reads 'document' only.")
        self._partitioning = FilePartitioningStage(
            file_paths,
            files_per_partition,
            blocksize,
            file_extensions or self.default_extensions,
            (read_kwargs or {}).get("storage_options"),
        )
        self._reading = self.reader_stage(fields, read_kwargs)

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stage that lists and the stage that reads."""
        return [self._partitioning, self._reading]

    def reads_from(self) -> list[str]:
        """Return the paths as given."""
        return self._partitioning.reads_from()
