"""Split documents into segments, and join segments to documents."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import StageError
from penstock.text.text_column import text_column


class DocumentSplitter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Split documents at a separator into one row per segment, numbered from 0; other fields are repeated.

    The separator is not a pattern. A document without it is one segment; so is an empty or null document. To join the
    segments later, add an id to the documents first.

    >>> from penstock.testing import make_batch
    >>> DocumentSplitter("--").process(make_batch(["a--b", "c"])).to_pyarrow().to_pylist()[1:]
    [{'id': 'doc-0', 'text': 'b', 'segment_id': 1}, {'id': 'doc-1', 'text': 'c', 'segment_id': 0}]
    """

    name = "document_splitter"

    def __init__(self, separator: str, text_field: str = "text", segment_id_field: str = "segment_id") -> None:
        if not separator:
            raise ValueError("DocumentSplitter: the separator is empty. Set the string between segments.")
        self.separator = separator
        self.text_field = text_field
        self.segment_id_field = segment_id_field

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Split every document of the batch."""
        texts = _texts(self, task, self.text_field)
        segments = pc.split_pattern(texts, self.separator)
        counts = pc.fill_null(pc.list_value_length(segments), 1).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(texts)), counts)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        pieces = pc.if_else(pc.is_valid(texts), segments, pa.scalar([None], segments.type)).flatten()
        # Without the text, so that a long document is not copied once per segment.
        bare = task.with_columns({self.text_field: pa.nulls(len(texts), texts.type)})
        numbers = pa.array(np.arange(len(rows)) - firsts, pa.int64())
        return bare.select(rows).with_columns({self.text_field: pieces, self.segment_id_field: numbers})

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        """Return the text column and the numbers of the segments."""
        return ["data"], [self.text_field, self.segment_id_field]


class DocumentJoiner(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join the segments of each document within a batch, in the order of their numbers.

    Other fields are those of the first segment. Null segments are left out; a document of only null segments is null. A
    segment without a document id is its own document. Documents are in the order of their first segments. With
    ``max_length`` a new document is started before the length would be exceeded: the sum of ``length_field`` of the
    segments plus the separators. The resulting documents are numbered from 0.

    >>> from penstock.testing import make_batch
    >>> batch = make_batch(["b", "a", "c"], key=["x", "x", "y"], segment_id=[1, 0, 0])
    >>> DocumentJoiner(document_id_field="key", separator="+").process(batch).to_pyarrow().to_pylist()
    [{'id': 'doc-1', 'text': 'a+b', 'key': 'x'}, {'id': 'doc-2', 'text': 'c', 'key': 'y'}]
    """

    name = "document_joiner"

    def __init__(
        self,
        separator: str = "\n\n",
        text_field: str = "text",
        segment_id_field: str = "segment_id",
        document_id_field: str = "id",
        drop_segment_id_field: bool = True,
        max_length: int | None = None,
        length_field: str | None = None,
    ) -> None:
        if (max_length is None) != (length_field is None):
            raise ValueError("DocumentJoiner: max_length and length_field go together. Set both, or neither.")
        self.separator = separator
        self.text_field = text_field
        self.segment_id_field = segment_id_field
        self.document_id_field = document_id_field
        self.drop_segment_id_field = drop_segment_id_field
        self.max_length = max_length
        self.length_field = length_field

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Join the segments of each document."""
        texts = _texts(self, task, self.text_field).to_pylist()
        groups = list(self._groups(task))
        columns = {self.text_field: pa.array([self._join(texts, rows) for rows, _, _ in groups], pa.large_string())}
        if self.length_field is not None:
            columns[self.length_field] = pa.array([length for _, length, _ in groups], pa.int64())
        columns[self.segment_id_field] = pa.array([number for _, _, number in groups], pa.int64())
        joined = task.select([rows[0] for rows, _, _ in groups]).with_columns(columns)
        if self.drop_segment_id_field:
            bare = copy.copy(joined)
            bare.data = joined.to_pyarrow().drop_columns([self.segment_id_field])
            return bare
        return joined

    def inputs(self) -> Spec:
        """Return text, document, segment and, where it counts, length."""
        length = [] if self.length_field is None else [self.length_field]
        return ["data"], [self.text_field, self.segment_id_field, self.document_id_field, *length]

    def outputs(self) -> Spec:
        """Return the same columns, without the numbers of segments where those are dropped."""
        length = [] if self.length_field is None else [self.length_field]
        segment = [] if self.drop_segment_id_field else [self.segment_id_field]
        return ["data"], [self.text_field, self.document_id_field, *segment, *length]

    def _groups(self, task: DocumentBatch) -> Iterator[tuple[list[int], int, int]]:
        """Yield the rows of each resulting document, their total length, and the number of the document."""
        documents = _documents(task.column(self.document_id_field))
        segments = task.column(self.segment_id_field).to_numpy()
        order = np.lexsort((segments, documents)).tolist()
        lengths = [0] * len(order) if self.length_field is None else task.column(self.length_field).to_pylist()
        rows: list[int] = []
        length = number = 0
        for row in order:
            same = bool(rows) and documents[row] == documents[rows[0]]
            longer = length + lengths[row] + len(self.separator)
            if same and (self.max_length is None or longer <= self.max_length):
                rows.append(row)
                length = longer
                continue
            if rows:
                yield rows, length, number
            rows, length, number = [row], lengths[row], number + 1 if same else 0
        if rows:
            yield rows, length, number

    def _join(self, texts: list[str | None], rows: list[int]) -> str | None:
        there = [text for text in (texts[row] for row in rows) if text is not None]
        return self.separator.join(there) if there else None


def _documents(ids: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a number for each row: the first row of the same document."""
    first_of: dict[object, int] = {}
    return np.array(
        [row if key is None else first_of.setdefault(key, row) for row, key in enumerate(ids.to_pylist())], np.int64
    )


def _texts(stage: ProcessingStage[DocumentBatch, DocumentBatch], task: DocumentBatch, column: str) -> pa.Array:
    texts = text_column(task, column)
    if texts is None:
        kind = task.column(column).type
        raise StageError(f"stage '{stage.name}': column '{column}' holds {kind}, not text. Set text_field.")
    return texts
