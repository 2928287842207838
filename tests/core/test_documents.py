"""A batch of documents is the same in Arrow and in pandas."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock import DocumentBatch
from penstock.core.json_column import is_json
from penstock.testing import make_batch
from penstock.text.io.json_rows import parse_rows


def through_pandas(table: pa.Table) -> pa.Table:
    return DocumentBatch("d", DocumentBatch("d", table).to_pandas()).to_pyarrow()


def from_lines(*objects: Any) -> pa.Table:
    return parse_rows(b"\n".join(json.dumps(thing).encode() for thing in objects)).to_table()


def test_arrow_and_pandas_batches_have_the_same_interface() -> None:
    arrow = pa.table({"id": [1, 2], "text": ["a", "b"]})
    for data in (arrow, arrow.to_pandas()):
        batch = DocumentBatch("d", data)
        assert (batch.num_items, batch.get_columns()) == (2, ["id", "text"])
        assert batch.to_pyarrow().to_pylist() == arrow.to_pylist()
        assert batch.to_pandas().to_dict("records") == arrow.to_pylist()
        assert batch.num_bytes > 0


@pytest.mark.parametrize("data", [{"text": ["a"]}, [{"text": "a"}], None, "a"])
def test_other_data_is_refused_by_the_constructor(data: Any) -> None:
    with pytest.raises(TypeError, match=r"pyarrow\.Table or a pandas\.DataFrame, got"):
        DocumentBatch("d", data)


def test_the_index_of_a_filtered_frame_is_dropped() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})
    table = DocumentBatch("d", frame[frame["n"].isin([1, 2, 4])]).to_pyarrow()
    assert table.column_names == ["text", "n"]
    assert table.to_pylist() == [{"text": "a", "n": 1}, {"text": "b", "n": 2}, {"text": "d", "n": 4}]
    assert table.schema.metadata is None


def test_nested_and_mixed_values_are_python_objects_in_pandas_and_json_in_arrow() -> None:
    values: list[Any] = [{"a": [1, {"b": None}]}, [1, 2], "x", 3, None]
    table = from_lines(*({"meta": value} for value in values))
    assert is_json(table.schema.field("meta"))
    assert DocumentBatch("d", table).to_pandas()["meta"].tolist() == values
    back = through_pandas(table)
    assert is_json(back.schema.field("meta"))
    assert [None if text is None else json.loads(text) for text in back["meta"].to_pylist()] == values


def test_json_made_in_pandas_survives_arrow() -> None:
    frame = pd.DataFrame({"text": ["a", "b"], "meta": [{"k": 1}, None]})
    assert DocumentBatch("d", DocumentBatch("d", frame).to_pyarrow()).to_pandas()["meta"].tolist() == [{"k": 1}, None]
    assert frame["meta"].tolist() == [{"k": 1}, None], "the user's frame is not changed"


@pytest.mark.parametrize(
    "values",
    [
        [2**53 + 1, None],
        [10**40, 7],
        [True, None, False],
        ["2020-01-01", None],
        [1.5, 2.0],
        [["a"], [], None],
    ],
    ids=["integers with a null", "forty digits", "booleans with a null", "dates", "floats", "lists"],
)
def test_a_field_that_no_stage_touches_survives_a_stage_that_uses_pandas(values: list[Any]) -> None:
    table = from_lines(*({"x": value} for value in values))
    back = through_pandas(table)
    decode = json.loads if is_json(back.schema.field("x")) else lambda value: value
    found = [None if value is None else decode(value) for value in back["x"].to_pylist()]
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]


def test_numpy_numbers_inside_an_object_are_encoded_as_numbers() -> None:
    table = DocumentBatch("d", pd.DataFrame({"meta": [{"count": np.int64(3)}]})).to_pyarrow()
    assert json.loads(table["meta"][0].as_py()) == {"count": 3}


def test_a_frame_that_does_not_fit_into_arrow_raises_an_error_that_names_the_column() -> None:
    frame = pd.DataFrame({"thing": [b"bytes", 1]})
    with pytest.raises(TypeError, match="thing"):
        DocumentBatch("d", frame).to_pyarrow()


def test_the_size_of_a_slice_counts_its_own_rows_only() -> None:
    table = make_batch(["x" * 1000] * 100).to_pyarrow()
    whole, tenth = DocumentBatch("d", table).num_bytes, DocumentBatch("d", table.slice(0, 10)).num_bytes
    assert whole > 100_000
    assert tenth == pytest.approx(whole / 10, rel=0.05)


def test_the_repr_of_a_batch_shows_its_id_and_not_its_documents() -> None:
    assert repr(make_batch(["secret"])) == "DocumentBatch(not run yet, dataset='test', 1 items)"
