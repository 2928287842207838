"""Split documents into segments and join them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import DocumentBatch
from penstock.errors import StageError
from penstock.testing import assert_stage_contract, make_batch
from penstock.text import DocumentJoiner, DocumentSplitter


def rows(batch: DocumentBatch) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = batch.to_pyarrow().to_pylist()
    return listed


def segments(texts: list[str | None], documents: list[Any], numbers: list[int], **columns: list[Any]) -> DocumentBatch:
    table = pa.table({"id": documents, "segment_id": numbers, "text": pa.array(texts, pa.large_string()), **columns})
    return DocumentBatch("test", table)


def test_each_piece_is_a_row_that_knows_its_document() -> None:
    batch = make_batch(["a||b||", "", None, "c"], url=["1", "2", "3", "4"])
    batch.source_rows = np.array([3, 5, 6, 9])
    split = DocumentSplitter("||", segment_id_field="part").process(batch)
    assert [(row["text"], row["part"], row["url"]) for row in rows(split)] == [
        ("a", 0, "1"), ("b", 1, "1"), ("", 2, "1"), ("", 0, "2"), (None, 0, "3"), ("c", 0, "4"),
    ]  # fmt: skip
    assert split.source_rows is not None
    assert split.source_rows.tolist() == [3, 3, 3, 5, 6, 9]
    assert_stage_contract(DocumentSplitter("||"), batch)


@given(st.lists(st.none() | st.text("ab|\n", max_size=8), max_size=5))
def test_joining_split_documents_restores_them(texts: list[str | None]) -> None:
    batch = make_batch(texts)
    joined = DocumentJoiner("|").process(DocumentSplitter("|").process(batch))
    assert joined.to_pyarrow().equals(batch.to_pyarrow())


def test_segments_are_joined_in_the_order_of_their_numbers() -> None:
    batch = segments(["b", "x", "a", None], ["2", "1", "2", "2"], [10, 0, 9, 8], url=["u", "v", "w", "z"])
    batch.source_rows = np.array([0, 1, 0, 0])
    joined = DocumentJoiner("-", drop_segment_id_field=False).process(batch)
    assert rows(joined) == [
        {"id": "2", "segment_id": 0, "text": "a-b", "url": "z"},
        {"id": "1", "segment_id": 0, "text": "x", "url": "v"},
    ]
    assert joined.source_rows is not None
    assert joined.source_rows.tolist() == [0, 1]
    assert_stage_contract(DocumentJoiner(), batch)


def test_a_segment_without_document_is_not_lost() -> None:
    joined = DocumentJoiner().process(segments(["a", "b", None], [None, None, "1"], [0, 0, 0]))
    assert [row["text"] for row in rows(joined)] == ["a", "b", None]


def test_a_new_document_is_started_before_the_maximum_length() -> None:
    texts: list[str | None] = ["aaa", "bb", "c", "dddddddd", "e"]
    batch = segments(texts, [1, 1, 1, 1, 2], [0, 1, 2, 3, 0], length=[3, 2, 1, 8, 1])
    joiner = DocumentJoiner("-", drop_segment_id_field=False, max_length=6, length_field="length")
    assert [(row["text"], row["length"], row["segment_id"]) for row in rows(joiner.process(batch))] == [
        ("aaa-bb", 6, 0), ("c", 1, 1), ("dddddddd", 8, 2), ("e", 1, 0),
    ]  # fmt: skip


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="separator is empty"):
        DocumentSplitter("")
    with pytest.raises(ValueError, match="go together"):
        DocumentJoiner(max_length=5)
    with pytest.raises(StageError, match="column 'n' holds int64, not text"):
        DocumentSplitter("-", text_field="n").process(make_batch(["a"], n=[1]))
