"""The kernel that decodes JSON lines returns the same values as a JSON parser."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.io import json_fields
from penstock.text.io.json_blocks import decode_block
from penstock.text.io.json_fields import Lines, decode_field, decode_fields
from penstock.text.io.json_lines import scan_lines

characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\/{}[],: \n\t\u00e4\U0001f600')
texts = st.text(characters, max_size=40)
keys = st.sampled_from(["text", "id", "te\u00e4xt", 'a"b', "\\"]) | texts
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)
documents = st.dictionaries(keys, values, min_size=1, max_size=5)


def lines_of(data: bytes) -> Lines:
    block = pa.py_buffer(data)
    found = scan_lines(block)
    assert not found.bad_lines
    return Lines(block, found.starts, found.ends)


def assert_same(lines: Lines, names: list[str]) -> None:
    fast = decode_block(lines, names)
    for name in names:
        field, column = decode_field(lines, name)
        assert fast[name][0].equals(field, check_metadata=True)
        assert fast[name][1].to_pylist() == column.to_pylist()
        fast[name][1].validate(full=True)


@given(st.lists(documents, min_size=1, max_size=6), st.booleans(), st.sampled_from([(",", ":"), (" ,\t", " : ")]))
def test_kernel_and_parser_return_the_same_columns(rows: list[dict[str, Any]], ascii_only: bool, between: Any) -> None:
    written = [json.dumps(row, ensure_ascii=ascii_only, separators=between) for row in rows]
    names = list(dict.fromkeys(["text", *(name for row in rows for name in row)]))
    assert_same(lines_of("\n".join(written).encode()), names)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'{"text": "\u0061\u00e4\u20ac\ud83d\ude00\\\/\"\b\f\n\r\t"}', 'a\u00e4\u20ac\U0001f600\\/"\b\f\n\r\t'),
        (rb'{"text":"first","text":"last"}', "last"),
        (rb'{"\u0074ext" : "by another spelling"}', "by another spelling"),
        (rb'{"other": {"text": "inside"}, "list": ["text", "}"], "text": ""}', ""),
        (rb'{"other": "\\", "text": "after a backslash"}', "after a backslash"),
        (rb'{"text": null}', None),
        (rb'{"txet": "1"}', None),
    ],
)
def test_ways_to_write_a_text(line: bytes, text: str | None) -> None:
    lines = lines_of(line)
    assert decode_block(lines, ["text"])["text"][1].to_pylist() == [text]
    assert_same(lines, ["text"])


def test_large_blocks_are_decoded_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(b'{"id": 1, "text": "one"}\n{"id": 2.50, "text": "two"}')
    expected = {"id": ["1", "2.50"], "text": ["one", "two"]}
    for large in (10**6, 1):
        monkeypatch.setattr(json_fields, "_MIN_KERNEL_BYTES", large)
        found = decode_fields(lines, ["id", "text"])
        assert {name: values.to_pylist() for name, (_, values) in found.items()} == expected
