"""Values and tasks are stored without pickle and restored unchanged; unsupported types raise an error."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import DocumentBatch, Task
from penstock.core.files import FileGroupTask
from penstock.core.perf import StagePerfStats
from penstock.storage.plain_values import DamagedValue, NotPlain, dump, load
from penstock.storage.task_records import UnknownTaskClass, dump_result, load_result
from penstock.testing import make_batch

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary()
)
KEYS = st.text() | st.integers() | st.tuples(st.text(), st.integers())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.frozensets(st.text(), max_size=1)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_plain_values_are_restored_unchanged(value: Any) -> None:
    assert repr(load(dump(value))) == repr(value)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_value_or_an_error(data: bytes) -> None:
    with suppress(DamagedValue):
        load(data)


def test_arrays_tables_and_paths_are_restored(tmp_path: Path) -> None:
    array = np.array([(1, 2.5)], dtype=[("a", "<i8"), ("b", "<f4")])
    table = pa.table({"a": [[1], None]})
    found = load(
        dump({"array": array, "one": np.float32(2), "table": table, "path": tmp_path, "none": np.zeros((2, 0))})
    )
    assert found["array"].dtype == array.dtype
    assert found["array"].tolist() == array.tolist()
    assert (found["one"], type(found["one"])) == (np.float32(2), np.float32)
    assert found["table"].equals(table)
    assert found["path"] == tmp_path
    assert found["none"].shape == (2, 0)


@pytest.mark.parametrize("value", [object(), {"a": [lambda: 1]}, np.array([object()]), pickle.PickleBuffer(b"")])
def test_other_types_are_rejected(value: Any) -> None:
    with pytest.raises(NotPlain):
        dump(value)


@dataclass(repr=False)
class Clip(Task[dict[str, Any]]):
    frames: Any = field(default=None)


def named(task: Task[Any]) -> Task[Any]:
    task.task_id, task._order, task._sources = "0_a_1", (0, 1), ("0_a",)
    task._metadata = {"source_files": ["/in/\udcff.jsonl"], "part": (0, 5)}
    task.add_stage_perf(StagePerfStats("read", 0.5, custom_metrics={"m": 1.0}))
    return task


@pytest.mark.parametrize(
    "task",
    [
        FileGroupTask("files", ["/out/a.jsonl"], reader_config={"part": (0, 10)}),
        Clip("clips", {"a": 1}, frames=[1, 2]),
    ],
)
def test_tasks_are_restored_unchanged(task: Task[Any]) -> None:
    found = load_result(dump_result(named(task)))
    assert type(found) is type(task)
    assert vars(found) == vars(task)


def test_batches_are_restored_with_source_rows_and_data_format() -> None:
    batch = named(make_batch(["a", "b"]))
    assert isinstance(batch, DocumentBatch)
    batch.source_rows = np.array([3, 7])
    found = load_result(dump_result(batch))
    assert isinstance(found, DocumentBatch)
    assert found.data.equals(batch.data)
    assert found.source_rows is not None
    assert found.source_rows.tolist() == [3, 7]
    frame = pd.DataFrame({"a": [1, 2], "mixed": [{"k": 1}, "x"]})
    of_pandas = load_result(dump_result(DocumentBatch("frames", frame)))
    assert isinstance(of_pandas.data, pd.DataFrame)
    pd.testing.assert_frame_equal(of_pandas.data, frame)


def test_class_that_is_not_loaded_is_not_imported() -> None:
    stored = msgspec.msgpack.decode(dump_result(Clip("clips", {})))
    [pair] = [pair for pair in stored[1] if pair[0] == "class"]
    pair[1] = "antigravity:Clip"
    with pytest.raises(UnknownTaskClass, match="antigravity:Clip"):
        load_result(msgspec.msgpack.encode(stored))
