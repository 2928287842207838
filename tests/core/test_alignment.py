"""Rows that went through a table and back are matched to their origin, or the origin is reported as unknown."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock import DocumentBatch


def parent(**columns: list[Any]) -> DocumentBatch:
    batch = DocumentBatch("d", pa.table(columns))
    batch.source_rows = np.arange(batch.num_items) + 100
    return batch


def rows_of(made_from: DocumentBatch, data: Any) -> list[int] | None:
    child = DocumentBatch("d", data)
    child.descend_from(made_from)
    return None if child.source_rows is None else (child.source_rows - 100).tolist()


FOUR = parent(id=["a", "b", "c", "d"], text=["w", "x", "y", "z"], lang=["en", "en", "en", "en"])


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [1, 3], [0], [], [3, 2, 1, 0], [2, 2, 2, 2, 2]])
def test_rows_are_matched_by_their_values(rows: list[int]) -> None:
    assert rows_of(FOUR, FOUR.data.take(pa.array(rows, pa.int64()))) == rows


def test_rows_of_a_frame_are_matched_by_index_labels_when_every_value_changed() -> None:
    frame = FOUR.to_pandas()[["text", "lang"]].iloc[[1, 3]]
    assert rows_of(FOUR, frame.assign(lang="en")) == [1, 3]


def test_a_reset_index_is_not_used_for_matching() -> None:
    frame = FOUR.to_pandas().iloc[[2, 3]].reset_index(drop=True)
    assert rows_of(FOUR, frame) == [2, 3]


def test_an_equal_number_of_rows_is_matched_by_position_when_every_value_changed() -> None:
    table = pa.table({"text": ["W", "X", "Y", "Z"]})
    assert rows_of(FOUR, table) == [0, 1, 2, 3]
    assert rows_of(FOUR, table.slice(1)) is None


def test_a_constant_column_is_not_used_for_matching() -> None:
    assert rows_of(FOUR, pa.table({"lang": ["en", "en"], "text": ["?", "!"]})) is None


def test_a_renumbered_id_column_does_not_mislead_the_matching() -> None:
    texts = [f"a document about {letter}" for letter in "wxyz"]
    numbered = parent(rank=[0, 1, 2, 3], text=texts)
    assert rows_of(numbered, pa.table({"rank": [0, 1], "text": texts[2:]})) == [2, 3]


def test_rows_without_a_unique_column_are_matched_by_their_order() -> None:
    twins = parent(host=["a", "a", "b", "b", "c"], words=[1, 2, 1, 1, 1])
    assert rows_of(twins, twins.data.take([1, 4])) == [1, 4]
    assert rows_of(twins, twins.data.take([0, 2, 3])) == [0, 2, 3]


def test_the_match_of_equal_rows_is_uncertain() -> None:
    twins = parent(host=["a", "b", "b", "c"], words=[1, 1, 1, 1])
    assert rows_of(twins, twins.data.take([0, 1])) is None


def test_a_replaced_table_is_matched_with_the_old_one() -> None:
    batch = parent(id=["a", "b", "c"], text=["x", "y", "z"])
    batch.data = batch.data.slice(1)
    assert batch.source_rows is not None
    assert batch.source_rows.tolist() == [101, 102]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_the_origin_of_rows_is_unknown_after_a_frame_is_cut_in_place() -> None:
    batch = DocumentBatch("d", pd.DataFrame({"id": ["a", "b", "c"]}))
    batch.source_rows = np.arange(3)
    batch.data.drop(index=1, inplace=True)
    assert batch.num_items == 2
    assert batch.source_rows is None
    assert batch.select([0]).source_rows is None
