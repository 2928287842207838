"""Rows that went through a table and back are recognised, or nobody claims to know them."""

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
def test_rows_are_known_by_their_values(rows: list[int]) -> None:
    assert rows_of(FOUR, FOUR.data.take(pa.array(rows, pa.int64()))) == rows


def test_a_frame_is_known_by_its_labels_although_every_value_changed() -> None:
    frame = FOUR.to_pandas()[["text", "lang"]].iloc[[1, 3]]
    assert rows_of(FOUR, frame.assign(lang="en")) == [1, 3]


def test_labels_made_anew_are_not_believed() -> None:
    frame = FOUR.to_pandas().iloc[[2, 3]].reset_index(drop=True)
    assert rows_of(FOUR, frame) == [2, 3]


def test_with_every_value_changed_the_same_number_of_rows_is_the_same_rows() -> None:
    table = pa.table({"text": ["W", "X", "Y", "Z"]})
    assert rows_of(FOUR, table) == [0, 1, 2, 3]
    assert rows_of(FOUR, table.slice(1)) is None


def test_a_column_that_is_the_same_everywhere_is_no_evidence() -> None:
    assert rows_of(FOUR, pa.table({"lang": ["en", "en"], "text": ["?", "!"]})) is None


def test_a_numbering_made_anew_does_not_mislead() -> None:
    texts = [f"a document about {letter}" for letter in "wxyz"]
    numbered = parent(rank=[0, 1, 2, 3], text=texts)
    assert rows_of(numbered, pa.table({"rank": [0, 1], "text": texts[2:]})) == [2, 3]


def test_rows_without_a_key_are_known_by_their_order() -> None:
    twins = parent(host=["a", "a", "b", "b", "c"], words=[1, 2, 1, 1, 1])
    assert rows_of(twins, twins.data.take([1, 4])) == [1, 4]
    assert rows_of(twins, twins.data.take([0, 2, 3])) == [0, 2, 3]


def test_of_twins_nobody_can_tell_which_was_kept() -> None:
    twins = parent(host=["a", "b", "b", "c"], words=[1, 1, 1, 1])
    assert rows_of(twins, twins.data.take([0, 1])) is None


def test_a_table_put_in_place_of_another_is_compared_with_it() -> None:
    batch = parent(id=["a", "b", "c"], text=["x", "y", "z"])
    batch.data = batch.data.slice(1)
    assert batch.source_rows is not None
    assert batch.source_rows.tolist() == [101, 102]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_frame_cut_in_place_is_no_longer_known() -> None:
    batch = DocumentBatch("d", pd.DataFrame({"id": ["a", "b", "c"]}))
    batch.source_rows = np.arange(3)
    batch.data.drop(index=1, inplace=True)
    assert batch.num_items == 2
    assert batch.source_rows is None
    assert batch.select([0]).source_rows is None
