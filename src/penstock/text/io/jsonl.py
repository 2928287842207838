"""Reading and writing JSON lines."""

from __future__ import annotations

from typing import IO, ClassVar

import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.errors import InputError, MissingColumnError
from penstock.storage.filesystem import open_input
from penstock.text.io.json_lines import Records, parse_lines, to_table, write_lines
from penstock.text.io.reader import DocumentReader, DocumentReaderStage
from penstock.text.io.writer import DocumentWriter


class JsonlReaderStage(DocumentReaderStage):
    """Reads a group of JSONL files into one batch.

    A line that is no JSON object goes to the dead-letter file with file, line number and reason, and the rest is read;
    a file without a single good line is taken for something else and stops the run.
    """

    name = "jsonl_reader_stage"

    def process(self, task: FileGroupTask) -> DocumentBatch | None:
        """Read the files; None if they hold no document."""
        objects = []
        for path in task.data:
            with open_input(path, self.storage_options) as stream:
                records = parse_lines(stream)
            self._set_aside(path, records)
            objects += records.objects
        if not objects:
            return None
        if self.fields is not None:
            present = dict.fromkeys(name for row in objects for name in row)
            for field in self.fields:
                if field not in present:
                    raise MissingColumnError(self.name, field, present)
        return DocumentBatch(task.dataset_name, to_table(objects, self.fields))

    def _set_aside(self, path: str, records: Records) -> None:
        if records.bad_lines and not records.objects:
            first = records.bad_lines[0]
            raise InputError(
                f"{path}: not a JSON Lines file: none of its {len(records.bad_lines)} lines is an object. "
                f"Line {first.number}: {first.reason}: {first.line[:60].decode('utf-8', 'replace')!r}. "
                "Expected one JSON object per line."
            )
        for bad in records.bad_lines:
            self.reject(
                bad.reason, source=path, position=bad.number, excerpt=bad.line.decode("utf-8", "backslashreplace")
            )


class JsonlReader(DocumentReader):
    """Reads documents from JSONL files, compressed or not.

    >>> from penstock.core.composite import expand
    >>> [stage.name for stage in expand([JsonlReader("crawl/*.jsonl.gz", files_per_partition=8)])]
    ['file_partitioning', 'jsonl_reader_stage']
    """

    name = "jsonl_reader"
    default_extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".json")
    reader_stage = JsonlReaderStage


class JsonlWriter(DocumentWriter):
    """Writes each batch as a JSONL file, one object a line."""

    name = "jsonl_writer"
    default_extension: ClassVar[str] = "jsonl"
    file_format: ClassVar[str] = "jsonl"

    def write_table(self, table: pa.Table, stream: IO[bytes]) -> None:
        """Write the documents."""
        write_lines(table, stream)
