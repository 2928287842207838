"""Values that Arrow has no exact type for are kept as their JSON text."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from penstock.core.json_column import decode_json_columns, encode_json_columns, is_json, json_field


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([{"a": 1}, None], ['{"a":1}', None]),
        ([[1, 2], []], ["[1,2]", "[]"]),
        (["x", 1], ['"x"', "1"]),
        ([1, 2.5, float("nan")], ["1", "2.5", None]),
        ([True, "true"], ["true", '"true"']),
        ([float("inf"), 1.5], ["1e999", "1.5"]),
        ([{"a": (float("-inf"), None)}], ['{"a":[-1e999,null]}']),
    ],
)
def test_objects_lists_and_mixtures_become_json(values: list[Any], texts: list[str | None]) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    encoded, names = encode_json_columns(frame)
    assert (names, encoded["x"].tolist()) == (["x"], texts)


@pytest.mark.parametrize("values", [["a", None], [1, 2], [True, None], [b"a"]])
def test_values_of_one_plain_type_are_not_encoded(values: list[Any]) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    encoded, names = encode_json_columns(frame)
    assert names == []
    assert encoded["x"].tolist() == frame["x"].tolist()


def test_only_marked_columns_are_decoded() -> None:
    text = '{"a":1}'
    schema = pa.schema([json_field("marked"), pa.field("plain", pa.large_string())])
    table = pa.table([pa.array([text], pa.large_string())] * 2, schema=schema)
    assert [is_json(field) for field in table.schema] == [True, False]
    frame = decode_json_columns(table, table.to_pandas())
    assert (frame["marked"][0], frame["plain"][0]) == ({"a": 1}, text)
