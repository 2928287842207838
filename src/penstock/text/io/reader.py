"""The base of all document readers: a composite that lists files, and a stage that reads a group of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.composite import CompositeStage
from penstock.core.documents import DocumentBatch
from penstock.core.files import FILE_STARTS, PLACE_BITS, FileGroupTask
from penstock.core.lazy_rows import LazyRows
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.task import EmptyTask
from penstock.errors import suggestion
from penstock.text.io.partitioning import DEFAULT_BLOCKSIZE, FilePartitioningStage


class ReadBatch(NamedTuple):
    """Documents of a task, at most one block of them."""

    documents: LazyRows | pa.Table
    # The place of each document: the number of its file in the task, and the byte or row in that file.
    places: npt.NDArray[np.int64]
    # True if these are the last documents of the task.
    is_last: bool


class DocumentReaderStage(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Read a group of files into one batch, or into several if the files are larger than a block.

    A subclass implements the format. With ``rows_are_places`` a document's source row is its byte (or row) in its file,
    which does not depend on the files read together with it, instead of its number among the documents of the task.
    """

    # The read_kwargs of the format; None: any that its library takes.
    known_read_kwargs: ClassVar[tuple[str, ...] | None] = ("storage_options",)

    def __init__(
        self,
        fields: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        *,
        rows_are_places: bool = False,
    ) -> None:
        self.rows_are_places = rows_are_places
        self.fields = list(fields) if fields is not None else None
        self.read_kwargs = dict(read_kwargs or {})
        for key in self.read_kwargs:
            if self.known_read_kwargs is not None and key not in self.known_read_kwargs:
                raise ValueError(
                    f"{type(self).__name__}: read_kwargs has no '{key}'; it has {', '.join(self.known_read_kwargs)}."
                    f"{suggestion(key, self.known_read_kwargs)}"
                )

    def read_pieces(self, task: FileGroupTask, blocksize: int) -> Iterator[ReadBatch]:
        """Read the documents of a task, one block at a time."""
        raise NotImplementedError

    def process(self, task: FileGroupTask) -> DocumentBatch | Iterator[DocumentBatch] | None:
        """Read the files; return None if they hold no document, one batch if it holds them all."""
        pieces = self.read_pieces(task, task.reader_config.get("blocksize", DEFAULT_BLOCKSIZE))
        first = next(pieces, None)
        if first is None:
            return None
        if first.is_last:
            return self._batch(task, first, 0, {})
        return self._batches(task, first, pieces)

    def is_fanout_stage(self) -> bool:
        """Return False: a block costs more to move than to filter, so it stays in the worker that read it."""
        return False

    def _batches(self, task: FileGroupTask, first: ReadBatch, others: Iterator[ReadBatch]) -> Iterator[DocumentBatch]:
        piece: ReadBatch | None = first
        del first  # keep no reference to a block after it was yielded
        count = 0
        file_starts: dict[int, int] = {}
        while piece is not None:
            batches = [self._batch(task, piece, count, file_starts)]
            count += batches[0].num_items
            piece = None
            yield batches.pop()
            piece = next(others, None)

    def _batch(self, task: FileGroupTask, piece: ReadBatch, already: int, file_starts: dict[int, int]) -> DocumentBatch:
        """Make a batch; ``file_starts`` holds the first document of each file so far."""
        batch = DocumentBatch(task.dataset_name, piece.documents)
        numbers = np.arange(already, already + batch.num_items, dtype=np.int64)
        batch.source_rows = piece.places if self.rows_are_places else numbers
        if self.rows_are_places:
            batch._metadata[FILE_STARTS] = None
        elif len(task.data) > 1:
            files, first_rows = np.unique(piece.places >> PLACE_BITS, return_index=True)
            for file, row in zip(files.tolist(), first_rows.tolist(), strict=True):
                file_starts.setdefault(file, already + row)
            batch._metadata[FILE_STARTS] = sorted((row, file) for file, row in file_starts.items())
        return batch

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """The options for reaching the files, as fsspec takes them."""
        options: dict[str, Any] | None = self.read_kwargs.get("storage_options")
        return options

    def outputs(self) -> Spec:
        """Return the requested fields; empty for all fields of the files."""
        return ["data"], list(self.fields or [])


def places(file: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of rows in one file of a task: file number and position in one integer."""
    return positions + (file << PLACE_BITS)


class DocumentReader(CompositeStage[EmptyTask, DocumentBatch]):
    """List files and read them in groups; a subclass names the format."""

    default_extensions: ClassVar[tuple[str, ...]]
    reader_stage: ClassVar[type[DocumentReaderStage]]
    # Where a file of this format can be split.
    cut: ClassVar[str | None] = None

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
            cut=self.cut,
        )
        self._reading = self.reader_stage(fields, read_kwargs)

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stage that lists files and the stage that reads them."""
        return [self._partitioning, self._reading]

    def reads_from(self) -> list[str]:
        """Return the paths as given."""
        return self._partitioning.reads_from()
