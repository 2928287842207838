"""Read the records of files and make a document of each, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.json_column import json_field
from penstock.core.stage import ProcessingStage, Spec
from penstock.text.extract.guard import Guard, Outcome, extract_or_explain
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentExtractor, DocumentIterator

# The approximate size of an output batch; and how many records, and bytes, are extracted at a time.
BATCH_BYTES = 32 << 20
_RECORDS_PER_CALL, _BYTES_PER_CALL = 64, 4 << 20


class DocumentIterateExtractStage(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Turn files into batches of documents: an iterator yields records, an extractor makes text of each.

    If a file is truncated, its complete records are kept. Damaged records, and records on which the extractor fails, go
    to the dead-letter file with the reason. Skipped records are counted by reason in the stage's metrics.

    ``record_limit`` is the maximum number of documents per file. ``add_filename_column`` is the name of a column for
    the file name; True for ``file_name``, False for none. ``max_calls_per_worker`` restarts the extractor's process, if
    it has one, after this number of tasks.

    >>> import tempfile
    >>> from penstock.core.files import FileGroupTask
    >>> from penstock.testing import run_stage
    >>> class Lines(DocumentIterator):
    ...     def iterate(self, file_path):
    ...         with open(file_path) as lines:
    ...             yield from ({"text": line.strip()} for line in lines)
    ...
    ...     def output_columns(self):
    ...         return ["text"]
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("one" + chr(10) + "two")
    ...     file.flush()
    ...     stage = DocumentIterateExtractStage(Lines(), add_filename_column=False)
    ...     [batch] = run_stage(stage, FileGroupTask("demo", [file.name]))
    >>> batch.to_pyarrow().to_pylist()
    [{'text': 'one'}, {'text': 'two'}]
    """

    def __init__(
        self,
        iterator: DocumentIterator,
        extractor: DocumentExtractor | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        max_calls_per_worker: int | None = None,
    ) -> None:
        self.iterator = iterator
        self.extractor = extractor
        self.record_limit = record_limit
        self.add_filename_column = add_filename_column
        self.filename_col = "file_name" if add_filename_column is True else (add_filename_column or None)
        self.max_calls_per_worker = max_calls_per_worker
        self.name = f"iterate_{type(iterator).__name__.lower()}"
        if extractor is not None:
            self.name = f"iterate_extract_{type(iterator).__name__.lower()}_{type(extractor).__name__.lower()}"
        self._guard: Guard | None = None
        self._calls = 0

    def outputs(self) -> Spec:
        """Return the fields of a document."""
        columns = (self.extractor or self.iterator).output_columns()
        return ["data"], [*columns, *([self.filename_col] if self.filename_col else [])]

    def setup(self, worker_metadata: Any = None) -> None:  # noqa: ANN401
        """Prepare a process for an extractor that needs one."""
        if self.extractor is not None and self.extractor.cpu_limit_s is not None:
            self._guard = Guard(self.extractor, self.extractor.cpu_limit_s)

    def teardown(self) -> None:
        """End that process."""
        if self._guard is not None:
            self._guard.close()

    def process(self, task: FileGroupTask) -> Iterator[DocumentBatch]:
        """Yield the documents of the files in batches."""
        count = 0
        for rows in batched(document for path in task.data for document in self._documents(path)):
            batch = DocumentBatch(task.dataset_name, to_table(rows))
            batch.source_rows = np.arange(count, count + len(rows), dtype=np.int64)
            count += len(rows)
            yield batch
        self._calls += 1
        if self._guard is not None and self.max_calls_per_worker and self._calls % self.max_calls_per_worker == 0:
            self._guard.close()

    def _documents(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the documents of one file, at most ``record_limit``."""
        count = 0
        most = _RECORDS_PER_CALL if self.record_limit is None else max(1, min(_RECORDS_PER_CALL, self.record_limit))
        for group in batched(self._records(path), _BYTES_PER_CALL, most):
            for record, outcome in zip(group, self._extract(group), strict=True):
                if isinstance(outcome, Skipped | Damaged):
                    self._report(outcome, path, str(record.get("url") or record.get("id") or ""))
                elif outcome is None:
                    self._report(Skipped("the extractor found nothing to keep"), path)
                else:
                    if self.record_limit is not None and count >= self.record_limit:
                        return
                    count += 1
                    yield self._with_filename(dict(outcome), path)
        self._log_metric("files", 1)

    def _extract(self, group: list[dict[str, Any]]) -> Iterable[Outcome]:
        if self.extractor is None:
            return group
        if self._guard is not None:
            return self._guard.extract_all(group)
        return [extract_or_explain(self.extractor, record) for record in group]

    def _records(self, path: str) -> Iterator[dict[str, Any]]:
        number = 0
        try:
            for record in self.iterator.iterate(path) or ():
                number += 1
                if isinstance(record, Skipped | Damaged):
                    self._report(record, path)
                else:
                    yield self._with_filename(record, path)
        except Exception as error:
            if number == 0:
                raise  # nothing could be read at all: the wrong file, or the wrong iterator
            reason = f"the rest of the file cannot be read, after {number:,} records: {type(error).__name__}: {error}"
            self._report(Damaged(reason, number), path)

    def _with_filename(self, record: dict[str, Any], path: str) -> dict[str, Any]:
        if self.filename_col:
            record[self.filename_col] = path.rstrip("/").rpartition("/")[2]
        return record

    def _report(self, outcome: Skipped | Damaged, path: str, excerpt: str = "") -> None:
        if isinstance(outcome, Skipped):
            self._log_metric(f"skipped: {outcome.reason}", 1)
        else:
            self.reject(outcome.reason, source=path, position=outcome.position, excerpt=outcome.excerpt or excerpt)


def batched(
    records: Iterable[dict[str, Any]], most_bytes: int | None = None, most: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Group records until a group has ``most`` records or ``most_bytes`` bytes (by default, the bytes of a batch)."""
    group: list[dict[str, Any]] = []
    size = 0
    for record in records:
        group.append(record)
        size += sum(len(value) for value in record.values() if isinstance(value, str | bytes | list)) + 64
        if size >= (most_bytes or BATCH_BYTES) or len(group) == most:
            yield group
            group, size = [], 0
    if group:
        yield group


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Make a column of each field; values that have no one Arrow type are kept as JSON."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [_column(name, [row.get(name) for row in rows]) for name in names]
    return pa.Table.from_arrays([array for _, array in columns], schema=pa.schema([field for field, _ in columns]))


def _column(name: str, values: list[Any]) -> tuple[pa.Field, pa.Array]:
    kinds = {type(value) for value in values if value is not None}
    arrow = {str: pa.large_string(), bytes: pa.large_binary(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    if len(kinds) <= 1:
        kind = arrow.get(next(iter(kinds), str))
        try:
            if kind is not None:
                return pa.field(name, kind), pa.array(values, kind)
        except (pa.ArrowInvalid, UnicodeEncodeError, OverflowError):
            if kinds == {str}:  # a lone surrogate: text cut out of a page may be cut anywhere
                whole = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
                return pa.field(name, pa.large_string()), pa.array(whole, pa.large_string())
    texts = [None if value is None else msgspec.json.encode(value, enc_hook=str).decode() for value in values]
    return json_field(name), pa.array(texts, pa.large_string())
