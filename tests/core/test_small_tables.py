"""Small tables are sent as Arrow messages and restored without a change."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock import DocumentBatch
from penstock.core.small_tables import packed, unpacked

DICTIONARY = pa.array(["a", "b", "a"]).dictionary_encode()

SMALL = {
    "text": pa.table({"id": [1, 2], "text": ["ä\0", None]}),
    "times and numbers": pa.table(
        {"at": [datetime(2026, 1, 1, tzinfo=UTC)], "d": [Decimal("1.10")], "f": [float("inf")], "b": [True]}
    ),
    "bytes": pa.table({"raw": [b"\xff\x00", b""]}),
    "marks": pa.table(
        [pa.array(["x"])], schema=pa.schema([pa.field("t", pa.string(), metadata={b"a": b"b"})], {b"c": b"d"})
    ),
    "a slice": pa.table({"n": list(range(100)), "t": [str(i) for i in range(100)]}).slice(7, 3),
}
OTHERS = {
    "nothing in it": pa.table({"text": pa.array([], pa.string())}),
    "no columns": pa.table({}),
    "several pieces": pa.concat_tables([pa.table({"a": [1]}), pa.table({"a": [2]})]),
    "a dictionary": pa.table({"a": DICTIONARY}),
    "a dictionary inside": pa.table({"a": pa.ListArray.from_arrays([0, 2, 3], DICTIONARY)}),
    "large": pa.table({"text": ["x" * 10_000]}),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_table_survives_packing_and_unpacking(name: str) -> None:
    table = SMALL[name]
    parcel = packed(table)
    assert parcel is not None
    assert unpacked(parcel).equals(table, check_metadata=True)


@pytest.mark.parametrize("name", OTHERS)
def test_large_or_complex_tables_are_not_packed(name: str) -> None:
    assert packed(OTHERS[name]) is None


@pytest.mark.parametrize("name", [*SMALL, *OTHERS])
def test_a_batch_is_the_same_in_another_process_and_as_a_copy(name: str) -> None:
    batch = DocumentBatch("d", (SMALL | OTHERS)[name])
    for twin in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert isinstance(twin.data, pa.Table)
        assert twin.data.equals(batch.data, check_metadata=True)


def test_schemas_that_differ_only_in_metadata_are_kept_apart() -> None:
    plain = pa.table({"t": ["x"]})
    marked = plain.replace_schema_metadata({b"origin": b"here"})
    for table in (plain, marked, plain):
        assert pickle.loads(pickle.dumps(DocumentBatch("d", table))).data.schema.metadata == table.schema.metadata
