"""Read WARC and WET files as documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.errors import MissingColumnError
from penstock.storage.formats import WARC
from penstock.text.extract.charset import decode_page
from penstock.text.extract.iterate import batched, to_table
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.pages import archive_documents
from penstock.text.io.reader import DocumentReader, DocumentReaderStage

_COLUMNS = ("url", "warc_id", "date", "content_type", "source_id")


class WarcReaderStage(DocumentReaderStage):
    r"""Read WARC or WET files record by record into batches of bounded size.

    A document has ``url``, ``warc_id``, ``date``, ``content_type``, ``source_id`` (the file's name), and the decoded
    page in ``html``, or from a WET file the text in ``text``. A damaged record goes to the dead-letter file with its
    position in the archive, and the rest is read. Records that are not pages are counted by reason.

    >>> from penstock.core.files import FileGroupTask
    >>> from penstock.testing import run_stage
    >>> import tempfile
    >>> record = b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: https://example.org/\r\n"
    >>> record += b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nHello\r\n\r\n"
    >>> with tempfile.NamedTemporaryFile(suffix=".warc.wet") as file:
    ...     _ = file.write(record)
    ...     file.flush()
    ...     [batch] = run_stage(WarcReaderStage(fields=["url", "text"]), FileGroupTask("demo", [file.name]))
    >>> batch.to_pyarrow().to_pylist()
    [{'url': 'https://example.org/', 'text': 'Hello'}]
    """

    name = "warc_reader_stage"

    def process(self, task: FileGroupTask) -> Iterator[DocumentBatch]:
        """Yield the documents of the files in batches."""
        count = 0
        for rows in batched(document for path in task.data for document in self._documents(path)):
            batch = DocumentBatch(task.dataset_name, self._table(rows))
            batch.source_rows = np.arange(count, count + len(rows), dtype=np.int64)
            count += len(rows)
            yield batch

    def is_fanout_stage(self) -> bool:
        """Return True: archives are few and large, and processing a page costs far more than moving it."""
        return True

    def _documents(self, path: str) -> Iterator[dict[str, Any]]:
        source = path.rpartition("/")[2]
        for found in archive_documents(path, self.storage_options):
            if isinstance(found, Skipped):
                self._log_metric(f"skipped: {found.reason}", 1)
            elif isinstance(found, Damaged):
                self.reject(found.reason, source=path, position=found.position, excerpt=found.excerpt)
            else:
                content = "html" if "html" in found else "text"
                text = decode_page(found[content], found["content_type"])
                if text is None:
                    self.reject("no encoding fits the page", source=path, excerpt=found["url"])
                    continue
                about = {name: found.get(name) for name in _COLUMNS if name != "source_id"}
                yield {**about, "source_id": source, content: text}

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        table = to_table(rows)
        for field in self.fields or ():
            if field not in table.column_names:
                raise MissingColumnError(self.name, field, table.column_names)
        return table.select(self.fields) if self.fields else table


class WarcReader(DocumentReader):
    """Read pages from WARC files, and texts from WET files, compressed or not.

    >>> from penstock.core.composite import expand
    >>> [stage.name for stage in expand([WarcReader("crawl/*.warc.gz")])]
    ['file_partitioning', 'warc_reader_stage']
    """

    name = "warc_reader"
    default_extensions: ClassVar[tuple[str, ...]] = WARC
    reader_stage = WarcReaderStage
    # A file is not split: its records can only be found by reading it from the start.
    cut: ClassVar[str | None] = None
