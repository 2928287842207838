"""Fields and documents that a stage does not change keep their spelling."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, processing_stage
from penstock.runtime.transport import dump_task, joined, load, size_of
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter

# Everything that a detour through tables or frames is known to spoil.
LINES = [
    rb'{"id": "00123", "text": "caf\u00e9 \ud83d\ude00 one", "day": "2020-01-01", "n": 1.0, "x": null}',
    rb'{"text":"two \/ words","id":"7","n":1.00,"big":123456789012345678901234567890,"meta":{"b":[1.10,{}],"a":"\u0041"}}',
    rb'{ "id" : "8", "text" : "three", "n" : 1E+2, "meta" : "text now", "x" : [ 1 , 2 ], "key\u0020a":-0 }',
    rb'{"id":"9","text":"four","n":1e400,"twice":1,"twice":2,"x":true,"y":9007199254740993,"table":0}',
    rb'{"id":"10","text":"","n":-0.0,"x":{"k":null},"y":null}',
]


def through(
    folder: Path, *stages: ProcessingStage[Any, Any], lines: list[bytes] = LINES, **options: Any
) -> list[bytes]:
    """Run a file of these lines through some stages, and return the lines that come out."""
    (folder / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    writer = JsonlWriter(folder / "out", mode="overwrite", **options)
    written = Pipeline("p", stages=[JsonlReader(folder / "in.jsonl"), *stages, writer]).run(
        InlineExecutor(show_progress=False)
    )
    return [line for task in written for path in task.data for line in Path(path).read_bytes().splitlines()]


def with_value(line: bytes, old: bytes, new: bytes) -> bytes:
    assert line.count(old) == 1
    return line.replace(old, new)


@processing_stage(name="pandas")
def pandas(task: DocumentBatch) -> DocumentBatch:
    return DocumentBatch(task.dataset_name, task.to_pandas())


@processing_stage(name="arrow")
def arrow(task: DocumentBatch) -> DocumentBatch:
    return DocumentBatch(task.dataset_name, task.to_pyarrow())


@processing_stage(name="assigned")
def assigned(task: DocumentBatch) -> DocumentBatch:
    task.data = task.to_pandas()
    return task


@processing_stage(name="sliced")
def sliced(task: DocumentBatch) -> list[DocumentBatch]:
    table = task.to_pyarrow()
    return [DocumentBatch(task.dataset_name, table.slice(0, 2)), DocumentBatch(task.dataset_name, table.slice(2))]


@pytest.mark.parametrize(
    "stages", [[], [arrow], [pandas], [assigned], [pandas, arrow, pandas], [sliced], [sliced, pandas]]
)
def test_stages_that_change_nothing_change_no_byte(tmp_path: Path, stages: list[Any]) -> None:
    assert through(tmp_path, *stages) == LINES


NUMBERS = [
    "1e400", "1E400", "-1e400", "-1E+999", "1.7976931348623159e308", "[1e400]", '{"a":[-1e400,null]}', "1e-400", "5e-324",
    "-0", "-0.0", "0.1000000000000000055511151231257827", "9223372036854775808", "9" * 30, "9" * 400, "9" * 5000, "7", "1.5",
    "null", "true", '"1e400"',
]  # fmt: skip


@pytest.mark.parametrize("stage", [arrow, pandas, assigned], ids=["arrow", "pandas", "assigned"])
@pytest.mark.parametrize("beside", ["alone", "1.5", "7", '"text"'])
def test_numbers_beyond_every_type_keep_their_spelling(tmp_path: Path, stage: Any, beside: str) -> None:
    for number in NUMBERS:
        values = [number] if beside == "alone" else [number, beside, "1"]
        lines = [f'{{"id":{row},"n":{value},"text":"t"}}'.encode() for row, value in enumerate(values)]
        assert through(tmp_path, stage, lines=lines) == lines


def test_an_infinite_number_is_not_lost_where_rows_cannot_be_told_apart(tmp_path: Path) -> None:
    @processing_stage(name="rows without an origin")
    def stage(task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas()
        return DocumentBatch(
            "d", pd.DataFrame({"n": pd.Series([frame["n"][0], 2, "x"], dtype=object), "row": [7, 8, 9]})
        )

    lines = [b'{"id":1,"n":-1e400}', b'{"id":2,"n":"x"}']
    found = [json.loads(line)["n"] for line in through(tmp_path, stage, lines=lines)]
    assert found == [-float("inf"), 2, "x"]


KEEP: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "by mask": lambda frame: frame[frame["id"] != "8"],
    "with a new index": lambda frame: frame[frame["id"] != "8"].reset_index(drop=True),
    "by drop": lambda frame: frame.drop(index=2),
    "by query": lambda frame: frame.query("id != '8'"),
}


@pytest.mark.parametrize("keep", KEEP.values(), ids=KEEP)
def test_a_pandas_filter_writes_kept_lines_byte_for_byte(tmp_path: Path, keep: Any) -> None:
    @processing_stage(name="keep")
    def stage(task: DocumentBatch) -> DocumentBatch:
        return DocumentBatch(task.dataset_name, keep(task.to_pandas()))

    assert through(tmp_path, stage) == [*LINES[:2], *LINES[3:]]


def test_an_arrow_filter_writes_kept_lines_byte_for_byte(tmp_path: Path) -> None:
    @processing_stage(name="keep")
    def stage(task: DocumentBatch) -> DocumentBatch:
        return DocumentBatch(task.dataset_name, task.to_pyarrow().take([0, 3]))

    assert through(tmp_path, stage) == [LINES[0], LINES[3]]


def test_a_score_filter_copies_kept_lines_and_appends_its_score(tmp_path: Path) -> None:
    kept = through(tmp_path, ScoreFilter(WordCountFilter(min_words=3), score_field="words"))
    assert kept == [LINES[0][:-1] + b',"words":3}', LINES[1][:-1] + b',"words":3}']


CHANGES: dict[str, Callable[[DocumentBatch], DocumentBatch]] = {
    "with_columns": lambda task: task.with_columns(
        {"text": pa.array([f"{text}!" if text == "three" else text for text in task.column("text").to_pylist()])}
    ),
    "pandas": lambda task: DocumentBatch(
        "d", task.to_pandas().assign(text=lambda frame: frame["text"].str.replace("three", "three!"))
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_one_changed_value_changes_only_its_bytes_in_the_line(
    tmp_path: Path, change: Callable[[DocumentBatch], DocumentBatch]
) -> None:
    stage = processing_stage(name="change")(change)
    expected = [line.replace(b'"three"', b'"three!"') for line in LINES]
    assert through(tmp_path, stage) == expected


def test_a_column_replaced_twice_is_not_mistaken_for_the_value_in_the_line(tmp_path: Path) -> None:
    there_and_back = [
        processing_stage(name="there")(lambda task: task.with_columns({"text": pa.array(["x"] * task.num_items)})),
        processing_stage(name="back")(CHANGES["with_columns"]),
    ]
    texts = {json.loads(line)["text"] for line in through(tmp_path, *there_and_back)}
    assert texts == {"x"}


def test_a_new_value_is_added_and_a_removed_value_becomes_null(tmp_path: Path) -> None:
    @processing_stage(name="days")
    def days(task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas()
        return DocumentBatch("d", frame.assign(day=pd.Series([None, "2021-02-03", None, None, None], dtype=object)))

    out = through(tmp_path, days)
    assert out[0] == with_value(LINES[0], b'"2020-01-01"', b"null")
    assert out[1] == LINES[1][:-1] + b',"day":"2021-02-03"}'
    assert out[2:] == LINES[2:]


def test_a_removed_column_leaves_the_spelling_of_the_others(tmp_path: Path) -> None:
    @processing_stage(name="leave out")
    def leave_out(task: DocumentBatch) -> DocumentBatch:
        return DocumentBatch("d", task.to_pandas().drop(columns=["text", "x"]))

    assert through(tmp_path, leave_out) == [
        rb'{"id":"00123","day":"2020-01-01","n":1.0}',
        rb'{"id":"7","n":1.00,"big":123456789012345678901234567890,"meta":{"b":[1.10,{}],"a":"\u0041"}}',
        rb'{"id":"8","n":1E+2,"meta":"text now","key a":-0}',
        rb'{"id":"9","n":1e400,"twice":2,"y":9007199254740993,"table":0}',
        rb'{"id":"10","n":-0.0,"y":null}',
    ]


@pytest.mark.parametrize("stages", [[], [pandas]])
def test_the_requested_fields_are_written_in_order_with_their_spelling(tmp_path: Path, stages: list[Any]) -> None:
    out = through(tmp_path, *stages, fields=["n", "id"])
    assert out[:2] == [b'{"n":1.0,"id":"00123"}', b'{"n":1.00,"id":"7"}']
    assert through(tmp_path, fields=["day"])[1] == b'{"day":null}', "an empty object would be no document"


def test_reordered_columns_are_written_in_the_new_order(tmp_path: Path) -> None:
    @processing_stage(name="order")
    def order(task: DocumentBatch) -> DocumentBatch:
        return DocumentBatch("d", task.to_pyarrow().select(["n", "id"]))

    assert through(tmp_path, order)[1] == b'{"n":1.00,"id":"7"}'


def test_sorted_or_repeated_rows_keep_their_lines(tmp_path: Path) -> None:
    @processing_stage(name="sort")
    def sort(task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas().sort_values("text")
        return DocumentBatch("d", pd.concat([frame, frame.head(1)], ignore_index=True))

    assert through(tmp_path, sort) == [LINES[4], LINES[0], LINES[3], LINES[2], LINES[1], LINES[4]]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_data_frame_changed_in_place_is_written_with_the_change(tmp_path: Path) -> None:
    @processing_stage(name="in place")
    def in_place(task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas()
        frame.sort_values("id", inplace=True, ignore_index=True)
        frame.loc[0, "text"] = "first"
        return task

    out = [json.loads(line) for line in through(tmp_path, pandas, in_place)]
    assert [row["id"] for row in out] == ["00123", "10", "7", "8", "9"]
    assert [row["text"] for row in out][:2] == ["first", ""]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=4,
)
ROW = st.dictionaries(st.sampled_from(["a", "b", "é", 'q"', ""]), JSON, max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=6),
    ascii_only=st.booleans(),
    spaced=st.booleans(),
    kept=st.lists(st.booleans(), min_size=6, max_size=6),
    kind=st.sampled_from(["lazy", "arrow", "pandas"]),
)
def test_any_filter_in_any_style_writes_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    ascii_only: bool,
    spaced: bool,
    kept: list[bool],
    kind: str,
) -> None:
    chosen = [number for number in range(len(rows)) if kept[number]]

    @processing_stage(name="choose")
    def choose(task: DocumentBatch) -> DocumentBatch:
        if kind == "lazy":
            return task.select(chosen)
        if kind == "arrow":
            return DocumentBatch("d", task.to_pyarrow().take(pa.array(chosen, pa.int64())))
        return DocumentBatch("d", task.to_pandas().iloc[chosen])

    separators = (", ", ": ") if spaced else (",", ":")
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    lines = [json.dumps(row, ensure_ascii=ascii_only, separators=separators).encode() for row in numbered]
    folder = tmp_path_factory.mktemp("any")
    assert through(folder, choose, lines=lines) == [lines[number] for number in chosen]


def lazy_batch(folder: Path, lines: list[bytes]) -> DocumentBatch:
    (folder / "in.jsonl").write_bytes(b"\n".join(lines))
    [batch] = Pipeline("p", stages=[JsonlReader(folder / "in.jsonl")]).run(InlineExecutor(show_progress=False))
    assert isinstance(batch, DocumentBatch)
    return batch


def test_a_batch_that_was_read_looks_like_any_other(tmp_path: Path) -> None:
    batch = lazy_batch(tmp_path, LINES)
    assert (batch.num_items, batch.get_columns()[:4]) == (5, ["id", "text", "day", "n"])
    assert batch.column("id").to_pylist() == ["00123", "7", "8", "9", "10"]
    assert batch.data.num_rows == 5
    assert batch.source_rows is not None
    assert batch.select([3, 1]).source_rows is not None
    assert batch.select([3, 1]).to_pyarrow()["id"].to_pylist() == ["9", "7"]
    assert batch.with_columns({"k": pa.array(range(5))}).select([4]).to_pyarrow()["k"].to_pylist() == [4]
    assert batch.holds_json("n")
    assert not batch.holds_json("text")
    with pytest.raises(KeyError, match="nowhere"):
        batch.column("nowhere")
    with pytest.raises(ValueError, match="'k' has 2 values for 5 documents"):
        batch.with_columns({"k": pa.array([1, 2])})
    assert pickle.loads(pickle.dumps(batch)).to_pyarrow().equals(batch.to_pyarrow())


def test_remaining_rows_are_sent_without_the_rest_of_their_block(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number, "text": "x" * 10_000}).encode() for number in range(100)]
    batch = lazy_batch(tmp_path, lines)
    assert batch.num_bytes == pytest.approx(1_000_000, rel=0.05)
    one = batch.select([7]).with_columns({"score": pa.array([0.5])})
    assert one.num_bytes < 11_000
    parts = dump_task(one)
    assert size_of(parts) < 13_000
    back = load(joined(parts))
    assert isinstance(back, DocumentBatch)
    assert back.source_rows is not None
    assert (back.source_rows.tolist(), back.column("score").to_pylist()) == ([7], [0.5])
    assert back.column("text").to_pylist() == ["x" * 10_000]
    # The block of a whole batch lies beside the pickle: it is mapped by the reader, not copied.
    parts = dump_task(batch)
    assert any(isinstance(part, memoryview) and part.nbytes > 900_000 for part in parts)


@pytest.mark.parametrize("stage", [arrow, pandas, assigned])
def test_source_rows_survive_a_conversion_to_a_table(tmp_path: Path, stage: Any) -> None:
    second = processing_stage(name="every second")(lambda task: DocumentBatch("d", task.to_pandas().iloc[::2]))
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(LINES))
    stages = [JsonlReader(tmp_path / "in.jsonl"), stage, second, stage]
    [batch] = Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False))
    assert isinstance(batch, DocumentBatch)
    assert batch.source_rows is not None
    assert batch.source_rows.tolist() == [0, 2, 4]


def test_a_data_frame_keeps_its_source_rows_in_another_process(tmp_path: Path) -> None:
    batch = lazy_batch(tmp_path, LINES)
    child = DocumentBatch("d", batch.to_pandas().iloc[[1, 3]])
    child.descend_from(batch)
    for other in (copy.copy(child), pickle.loads(pickle.dumps(child)), load(joined(dump_task(child)))):
        assert isinstance(other, DocumentBatch)
        assert other.source_rows is not None
        assert other.source_rows.tolist() == [1, 3]
        assert other.to_lazy() is not None
        assert other.select([1]).source_rows is not None


def test_internal_columns_are_not_visible(tmp_path: Path) -> None:
    batch = lazy_batch(tmp_path, [b'{"id":1,"text":"a"}', b'{"id":2,"text":"b"}'])
    assert batch.to_pandas().columns.tolist() == batch.to_pyarrow().column_names == ["id", "text"]
    assert batch.to_pandas().index.tolist() == [0, 1]
    assert isinstance(batch.source_rows, np.ndarray)
