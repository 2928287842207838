"""Input and output of deduplication workflows: readers and writers by file type, and checks for overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.core.composite import expand
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.dedup.input_survey import InputSurvey, look_at
from penstock.dedup.ownership import DEDUPLICATED, TABLES
from penstock.dedup.phases import Again, AgainAtOnce
from penstock.dedup.work_folder import memory_and_workers
from penstock.errors import InputError
from penstock.storage.same_place import first_inside, is_inside, overlap, resolved
from penstock.text.io.jsonl import JsonlReader, JsonlWriter
from penstock.text.io.parquet import ParquetReader, ParquetWriter
from penstock.text.io.partitioning import FilePartitioningStage
from penstock.text.io.reader import DocumentReader, DocumentReaderStage
from penstock.text.io.writer import DocumentWriter

Stage = ProcessingStage[Any, Any]

_READERS: dict[str, type[DocumentReader]] = {"parquet": ParquetReader, "jsonl": JsonlReader}
_WRITERS: dict[str, type[DocumentWriter]] = {"parquet": ParquetWriter, "jsonl": JsonlWriter}
# Small files are grouped into tasks of this many bytes, so that there are fewer intermediate files.
_GROUPED_BYTES = 1 << 20


@dataclass
class Input:
    """The files to read. Returns new reading stages for each pass over them."""

    input_path: str | Sequence[str] | None
    filetype: str = "parquet"
    blocksize: int | str | None = None
    file_extensions: Sequence[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    files_per_partition: int | None = None
    # Limits the block size if ``blocksize`` is not set.
    memory_budget: int | str | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if the file type is unknown."""
        if self.filetype not in _READERS:
            raise ValueError(f"input_filetype={self.filetype!r}; it is one of {', '.join(_READERS)}.")

    @property
    def given(self) -> list[str]:
        """The paths as the user wrote them."""
        given = [self.input_path] if isinstance(self.input_path, str | Path) else self.input_path or ()
        return [str(path) for path in given]

    def or_tasks(self, initial_tasks: Sequence[Task[Any]] | None, workflow: str) -> Input:
        """Return this input, or an input of the files that ``initial_tasks`` name."""
        if initial_tasks is not None:
            files = [path for task in initial_tasks if isinstance(task, FileGroupTask) for path in task.data]
            return replace(self, input_path=files)
        if self.input_path is None:
            raise ValueError(f"{workflow}: input_path is missing: files or folders to read.")
        return self

    def stages(
        self, fields: Sequence[str] | None = None, *, is_written_again: bool = False
    ) -> tuple[FilePartitioningStage, Stage]:
        """Return the stage that lists files and the stage that reads them.

        With ``is_written_again`` small files are not grouped, so that each input file becomes one output file.
        """
        assert self.input_path is not None
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
        if self.memory_budget is not None:
            budget, workers = memory_and_workers(self.memory_budget)
            partitioning.memory_per_worker = budget / workers
        if not is_written_again:
            partitioning.together_bytes = _GROUPED_BYTES
        return partitioning, reading

    def again(
        self, name: str, fields: Sequence[str] | None = None, *, at_once: bool = False, is_written_again: bool = False
    ) -> tuple[Again, Stage]:
        """Return the stages for another pass over the input, which begins when all earlier stages have ended.

        With ``at_once`` the stage before emits exactly one task, so no barrier is needed.
        """
        listing, reading = self.stages(fields, is_written_again=is_written_again)
        reading = reading.with_(name=f"{name}_documents")
        reading.is_repetition = True
        return (AgainAtOnce if at_once else Again)(name, listing), reading

    def look(
        self, output_path: str, text_field: str, parameter: str = "text_field", others: Sequence[str | None] = ()
    ) -> InputSurvey:
        """Survey the input, after checking that no output overlaps with it.

        ``parameter`` is the parameter that names the text column, for error messages. ``others`` are further folders
        that are written, such as a cache or an index.
        """
        listing, options = self.stages()[0], (self.read_kwargs or {}).get("storage_options")
        files = listing.source_files()
        # Checked before anything is written: the next run would read what is written into the input.
        self.keep_apart(output_path, others, [file.path for file in files])
        return look_at(files, self.filetype, text_field, parameter, options)

    def keep_apart(self, output_path: str, others: Sequence[str | None] = (), files: Sequence[str] = ()) -> None:
        """Raise ``InputError`` if an output folder overlaps with the input, after resolving symbolic links."""
        options = (self.read_kwargs or {}).get("storage_options")
        read = {path: resolved(path, options) for path in self.given}
        output = resolved(output_path)
        # Folders in the output may be links to other folders.
        tables = (resolved(f"{output_path}/{name}") for name in (DEDUPLICATED, *TABLES.values()))
        for written in [output, *(table for table in tables if not is_inside(table, output))]:
            for path, place in read.items():
                if overlap(place, written):
                    raise InputError(f"{output_path} and {path}, which is read, overlap: one is inside the other. "
                                     "Give the output a folder of its own.")  # fmt: skip
            if (inside := first_inside(files, written)) is not None:
                raise InputError(f"{inside}, which is read, is stored in the output {output_path}. "
                                 "Give the output a folder of its own.")  # fmt: skip
        for other in filter(None, others):
            for path, place in read.items():
                if is_inside(resolved(other), place):
                    raise InputError(f"{other} is inside {path}, which is read. Give it a folder of its own.")


def writer(filetype: str, path: str, **settings: Any) -> Stage:  # noqa: ANN401 - those of the writer
    """Return a writer stage for a file type."""
    if filetype not in _WRITERS:
        raise ValueError(f"output_filetype={filetype!r}; it is one of {', '.join(_WRITERS)}.")
    return _WRITERS[filetype](path, **settings)
