"""What a workflow reads and writes: readers and writers by file type, and the list of files with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.composite import expand
from penstock.core.stage import ProcessingStage
from penstock.dedup.places import FileTable
from penstock.text.io.jsonl import JsonlReader, JsonlWriter
from penstock.text.io.parquet import ParquetReader, ParquetWriter
from penstock.text.io.partitioning import FilePartitioningStage
from penstock.text.io.reader import DocumentReader, DocumentReaderStage
from penstock.text.io.writer import DocumentWriter

Stage = ProcessingStage[Any, Any]

_READERS: dict[str, type[DocumentReader]] = {"parquet": ParquetReader, "jsonl": JsonlReader}
_WRITERS: dict[str, type[DocumentWriter]] = {"parquet": ParquetWriter, "jsonl": JsonlWriter}
# A compressed file holds about so much more text than it has bytes.
_UNPACKED = {".gz": 4, ".zst": 4, ".bz2": 5, ".xz": 5, ".parquet": 4}


@dataclass
class Input:
    """Files to read, as stages; each pass over them gets stages of its own."""

    input_path: str | Sequence[str]
    filetype: str = "parquet"
    blocksize: int | str | None = None
    file_extensions: Sequence[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    files_per_partition: int | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown type at once."""
        if self.filetype not in _READERS:
            raise ValueError(f"input_filetype={self.filetype!r}; it is one of {', '.join(_READERS)}.")

    def stages(self, fields: Sequence[str] | None = None) -> tuple[FilePartitioningStage, Stage]:
        """Return the stage that lists and the stage that reads."""
        reader = _READERS[self.filetype](
            list(self.input_path) if not isinstance(self.input_path, str) else self.input_path,
            files_per_partition=self.files_per_partition,
            blocksize=self.blocksize,
            fields=fields,
            read_kwargs=self.read_kwargs,
            file_extensions=self.file_extensions,
        )
        partitioning, reading = expand([reader])
        assert isinstance(partitioning, FilePartitioningStage)
        assert isinstance(reading, DocumentReaderStage)
        reading.rows_are_places = True
        return partitioning, reading

    def look(self) -> tuple[FileTable, int, list[tuple[str, int]]]:
        """Return the files with their numbers, about how much text they hold, and their names and sizes."""
        files = self.stages()[0].source_files()
        text = sum(file.size * _unpacked(file.path) for file in files)
        return FileTable.of(files), text, [(file.name, file.size) for file in files]


def _unpacked(path: str) -> int:
    return next((factor for ending, factor in _UNPACKED.items() if path.endswith(ending)), 1)


def writer(filetype: str, path: str, **settings: Any) -> Stage:  # noqa: ANN401 - those of the writer
    """Return a writer of some type."""
    if filetype not in _WRITERS:
        raise ValueError(f"output_filetype={filetype!r}; it is one of {', '.join(_WRITERS)}.")
    return _WRITERS[filetype](path, **settings)
