"""Reading and writing Parquet."""

from __future__ import annotations

from typing import IO, ClassVar

import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.json_column import agree_on_json
from penstock.errors import InputError, MissingColumnError
from penstock.storage.filesystem import open_input
from penstock.text.io.reader import DocumentReader, DocumentReaderStage
from penstock.text.io.writer import DocumentWriter


class ParquetReaderStage(DocumentReaderStage):
    """Reads a group of Parquet files into one batch."""

    name = "parquet_reader_stage"
    known_read_kwargs: ClassVar[tuple[str, ...] | None] = None

    def process(self, task: FileGroupTask) -> DocumentBatch | None:
        """Read the files; None if they hold no document."""
        tables = [self._read(path) for path in task.data]
        try:
            table = pa.concat_tables(agree_on_json(tables), promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(
                f"{', '.join(task.data[:3])}: read together, but their columns differ in type: {error}. "
                "Read them one by one (files_per_partition=1), or name the fields you need."
            ) from error
        return DocumentBatch(task.dataset_name, table) if table.num_rows else None

    def _read(self, path: str) -> pa.Table:
        import pyarrow.parquet as pq

        options = {key: value for key, value in self.read_kwargs.items() if key != "storage_options"}
        with open_input(path, self.storage_options) as stream:
            try:
                file = pq.ParquetFile(stream)
                for field in self.fields or ():
                    if field not in file.schema_arrow.names:
                        raise MissingColumnError(self.name, field, file.schema_arrow.names)
                return file.read(columns=self.fields, **options)
            except pa.ArrowInvalid as error:
                raise InputError(f"{path}: not a whole Parquet file: {error}") from error


class ParquetReader(DocumentReader):
    """Reads documents from Parquet files."""

    name = "parquet_reader"
    default_extensions: ClassVar[tuple[str, ...]] = (".parquet",)
    reader_stage = ParquetReaderStage


class ParquetWriter(DocumentWriter):
    """Writes each batch as a Parquet file; ``write_kwargs`` are those of ``pyarrow.parquet.write_table``."""

    name = "parquet_writer"
    default_extension: ClassVar[str] = "parquet"
    file_format: ClassVar[str] = "parquet"
    known_write_kwargs: ClassVar[tuple[str, ...] | None] = None

    def write_table(self, table: pa.Table, stream: IO[bytes]) -> None:
        """Write the documents."""
        import pyarrow.parquet as pq

        options = {key: value for key, value in self.write_kwargs.items() if key != "storage_options"}
        pq.write_table(table, stream, **options)
