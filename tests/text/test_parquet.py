"""Read and write Parquet, and keep JSON values through Parquet."""

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import DocumentBatch, FileGroupTask, InlineExecutor, Pipeline, ProcessingStage, processing_stage
from penstock.core.task import EmptyTask
from penstock.errors import InputError, MissingColumnError
from penstock.executors.planning import plan_pipeline
from penstock.runtime.machine import this_machine
from penstock.testing import run_stage
from penstock.text import JsonlReader, JsonlWriter, ParquetReader, ParquetReaderStage, ParquetWriter


def run(*stages: ProcessingStage[Any, Any]) -> list[str]:
    tasks = Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False))
    return [path for task in tasks for path in task.data]


def lines_of(paths: list[str]) -> list[Any]:
    return [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]


def test_a_table_is_unchanged_by_a_round_trip(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.uint8()),
            "text": ["a", None, ""],
            "day": pa.array([datetime.date(2020, 1, 1), None, None]),
            "tags": pa.array([["x"], [], None]),
            "vector": pa.array([[0.5, 0.25]] * 3, pa.list_(pa.float32(), 2)),
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    [path] = run(ParquetReader(tmp_path / "in"), ParquetWriter(tmp_path / "out", write_kwargs={"compression": "zstd"}))
    assert pq.read_table(path).equals(table)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_json_values_survive_a_round_trip_through_parquet(tmp_path: Path) -> None:
    rows = [{"text": "a", "meta": {"k": [1, 2.5]}, "n": 10**30}, {"text": "b", "meta": "x", "n": 1}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(JsonlReader(tmp_path / "a.jsonl"), ParquetWriter(tmp_path / "parquet"))
    assert lines_of(run(ParquetReader(tmp_path / "parquet"), JsonlWriter(tmp_path / "out"))) == rows


@pytest.mark.parametrize("json_first", [True, False])
def test_a_json_column_and_a_text_column_of_two_files_are_not_mixed_up(tmp_path: Path, json_first: bool) -> None:
    # A field that is mixed in one file and text in the next: the mark of the first must not fall on the second.
    (tmp_path / "in").mkdir()
    mixed, plain = ('{"x": "s"}\n{"x": [1]}\n', '{"x": "plain"}\n{"x": "[2]"}\n')
    (tmp_path / "in/a.jsonl").write_text(mixed if json_first else plain)
    (tmp_path / "in/b.jsonl").write_text(plain if json_first else mixed)
    run(JsonlReader(tmp_path / "in"), ParquetWriter(tmp_path / "parquet"))
    written = run(ParquetReader(tmp_path / "parquet", files_per_partition=2), JsonlWriter(tmp_path / "out"))
    found = sorted(json.dumps(row["x"]) for row in lines_of(written))
    assert found == sorted(json.dumps(value) for value in ["s", [1], "plain", "[2]"])


def test_times_of_any_precision_can_be_written_as_json(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    nanoseconds = 1577836800_000_000_001
    columns = {
        unit: pa.array([nanoseconds // 10**digits], pa.timestamp(unit))
        for unit, digits in [("ns", 0), ("us", 3), ("s", 9)]
    }
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    [row] = lines_of(run(ParquetReader(tmp_path / "in"), JsonlWriter(tmp_path / "out")))
    assert all(value.startswith("2020-01-01T00:00:00") for value in row.values())


def test_files_with_other_columns_are_read_together(tmp_path: Path) -> None:
    for name, columns in (("a", {"x": [1], "y": ["p"]}), ("b", {"y": ["q"], "z": [2.5]})):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    [batch] = run_stage(ParquetReaderStage(), FileGroupTask("d", [str(tmp_path / f"{name}.parquet") for name in "ab"]))
    assert batch.data.to_pylist() == [{"x": 1, "y": "p", "z": None}, {"x": None, "y": "q", "z": 2.5}]


def test_files_whose_columns_differ_in_type_are_read_one_after_the_other(tmp_path: Path) -> None:
    for name, values in (("a", [1]), ("b", [2]), ("c", ["one"]), ("d", [None]), ("e", [1.5])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    read = run_stage(ParquetReaderStage(), FileGroupTask("d", [f"{tmp_path}/{name}.parquet" for name in "abcde"]))
    batches = [cast("DocumentBatch", batch) for batch in read]
    assert [batch.column("x").to_pylist() for batch in batches] == [[1, 2], ["one", None], [1.5]]
    assert np.concatenate([batch.source_rows for batch in batches if batch.source_rows is not None]).tolist() == [
        *range(5)
    ]


def test_a_group_can_have_more_files_than_the_open_file_limit(tmp_path: Path) -> None:
    for number in range(60):
        pq.write_table(pa.table({"x": [number]}), tmp_path / f"{number:02}.parquet")
    script = f"""
import resource
from penstock import InlineExecutor, Pipeline
from penstock.text import ParquetReader
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
[batch] = Pipeline("p", stages=[ParquetReader(r"{tmp_path}", blocksize="64MB")]).run(InlineExecutor(show_progress=False))
print(batch.num_items)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "60", done.stderr


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_string_views_are_read_as_plain_strings(tmp_path: Path, kind: pa.DataType) -> None:
    values = ["a", None, "a text that is too long to lie within its view"]
    pq.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / "a.parquet")
    [batch] = run_stage(ParquetReaderStage(), FileGroupTask("d", [f"{tmp_path}/a.parquet"]))
    chosen = cast("DocumentBatch", batch).select([2, 1]).column("x")
    assert chosen.cast(pa.string()).to_pylist() == [values[2], None]


def test_only_the_requested_fields_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), path)
    [batch] = run_stage(ParquetReaderStage(fields=["c", "a"]), FileGroupTask("d", [path]))
    assert batch.data.to_pylist() == [{"c": 3, "a": 1}]
    with pytest.raises(MissingColumnError, match="column 'text' is missing; the batch has 'a', 'b', 'c'"):
        run_stage(ParquetReaderStage(fields=["text"]), FileGroupTask("d", [path]))


def test_a_file_without_documents_yields_no_batch(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert run_stage(ParquetReaderStage(), FileGroupTask("d", [str(tmp_path / "a.parquet")])) == []


@pytest.mark.parametrize("damage", ["cut short", "empty", "text", "spoiled in the middle"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"document {number}" for number in range(1000)]}), path)
    whole = path.read_bytes()
    spoiled = whole[:4] + b"\xff" * 2000 + whole[2004:]
    path.write_bytes(
        {"cut short": whole[:-100], "empty": b"", "text": b'{"a": 1}\n' * 10, "spoiled in the middle": spoiled}[damage]
    )
    with pytest.raises(InputError, match=str(path)):
        run_stage(ParquetReaderStage(), FileGroupTask("d", [str(path)]))


def make_groups(path: Path, groups: int = 6, rows: int = 50) -> pa.Table:
    count = groups * rows
    texts = [f"{number} {hash(number * 7919)} {'x' * (number % 50)}" for number in range(count)]
    table = pa.table({"id": range(count), "text": texts})
    pq.write_table(table, path, row_group_size=rows, compression="none", use_dictionary=False)
    return table


def batches_of(*stages: ProcessingStage[Any, Any]) -> list[Any]:
    return Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False))


def test_a_large_file_is_cut_between_its_row_groups(tmp_path: Path) -> None:
    # The incumbent groups files by blocksize and never splits one.
    table = make_groups(tmp_path / "a.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    tasks = batches_of(ParquetReader(tmp_path, blocksize=size * 2 // 5))
    assert [task.num_items for task in tasks] == [100, 100, 100]
    assert pa.concat_tables([task.to_pyarrow() for task in tasks]).equals(table)
    assert [task.source_rows.tolist() for task in tasks] == [list(range(100))] * 3
    assert len({task.task_id for task in tasks}) == 3
    plan = plan_pipeline(Pipeline("p", stages=[ParquetReader(tmp_path, blocksize=size * 2 // 5)]), this_machine())
    assert plan.sources[0].tasks == 3


def test_a_row_group_larger_than_a_block_is_read_in_pieces(tmp_path: Path) -> None:
    table = make_groups(tmp_path / "a.parquet", groups=1, rows=3000)
    tasks = batches_of(ParquetReader(tmp_path, blocksize=20_000))
    assert len(tasks) > 5
    assert all(task.num_bytes <= 30_000 for task in tasks)
    assert pa.concat_tables([task.to_pyarrow() for task in tasks]).equals(table)
    assert [row for task in tasks for row in task.source_rows.tolist()] == list(range(3000)), "the count goes on"


def test_files_that_grow_when_decompressed_are_read_in_pieces(tmp_path: Path) -> None:
    table = pa.table({"text": [f"{number:6d}" + "word " * 200 for number in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    tasks = batches_of(ParquetReader(tmp_path, blocksize=100_000))
    assert len(tasks) > 5
    assert pa.concat_tables([task.to_pyarrow() for task in tasks]).equals(table)


def test_rows_filtered_by_a_users_stage_keep_their_source_rows(tmp_path: Path) -> None:
    make_groups(tmp_path / "a.parquet", groups=1, rows=10)
    stage = processing_stage(name="odd")(lambda task: DocumentBatch("d", task.to_pandas().query("id % 2 == 1")))
    [batch] = batches_of(ParquetReader(tmp_path), stage)
    assert batch.source_rows.tolist() == [1, 3, 5, 7, 9]


def test_a_highly_compressed_file_is_split_by_its_decompressed_size(tmp_path: Path) -> None:
    # Compression makes a version of a page beside another nearly free: the size on disk says nothing.
    table = pa.table({"text": [f"{number:6d}" + "word " * 200 for number in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100, compression="zstd", use_dictionary=False)
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    tasks: list[Any] = run_stage(ParquetReader(tmp_path, blocksize=250_000).decompose()[0], EmptyTask())
    assert [task.reader_config["part"] for task in tasks] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    read = batches_of(ParquetReader(tmp_path, blocksize=250_000))
    assert pa.concat_tables([task.to_pyarrow() for task in read]).equals(table)


def test_small_files_are_not_opened_to_find_row_groups(tmp_path: Path) -> None:
    for number in range(3):
        make_groups(tmp_path / f"{number}.parquet", groups=2, rows=10)
    files = ParquetReader(tmp_path, blocksize="1GB").decompose()[0].source_files()
    assert files is not None
    assert [file.pieces for file in files] == [(), (), ()]


def test_files_read_together_fit_a_block_once_they_are_read(tmp_path: Path) -> None:
    for number in range(4):
        pq.write_table(pa.table({"text": ["word " * 20_000] * 2}), tmp_path / f"{number}.parquet", use_dictionary=False)
    tasks = run_stage(ParquetReader(tmp_path, blocksize=450_000).decompose()[0], EmptyTask())
    assert [len(task.data) for task in tasks] == [2, 2]


def test_rows_with_a_repeated_value_are_read_in_pieces_too(tmp_path: Path) -> None:
    # In the file the text is there once, and each row is a number that points to it: decompressed, a few bytes.
    table = pa.table({"text": ["word " * 2000] * 5000})
    pq.write_table(table, tmp_path / "a.parquet")
    tasks = batches_of(ParquetReader(tmp_path, blocksize="5MB"))
    assert len(tasks) == 5
    assert max(task.num_bytes for task in tasks) < 15_000_000, "a batch of rows is the least that is read"
    assert sum(task.num_items for task in tasks) == 5000


def test_a_file_without_the_text_column_is_one_error_that_lists_the_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "body": ["x"]}), tmp_path / "a.parquet")
    task = FileGroupTask("d", [str(tmp_path / "a.parquet")])
    with pytest.raises(
        Exception, match=r"column 'text' is missing; the batch has 'id', 'body'\. Set text_field='body'"
    ):
        run_stage(ParquetReaderStage(text_field="text"), task)
    [batch] = run_stage(ParquetReaderStage(text_field="body"), task)
    assert batch.num_items == 1


def test_long_texts_are_written_without_a_dictionary_and_short_values_with_one(tmp_path: Path) -> None:
    table = pa.table({"site": ["a"] * 100, "text": [f"{i} " + "word " * 100 for i in range(100)]})
    run_stage(ParquetWriter(str(tmp_path / "out")), DocumentBatch("d", table))
    [path] = (tmp_path / "out").glob("*.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [group.column(at).has_dictionary_page for at in range(2)] == [True, False]
    assert pq.read_table(path).equals(table)


def test_pages_of_long_documents_are_written_as_soon_as_they_are_full(tmp_path: Path) -> None:
    """Otherwise the writer holds a thousand documents as one page, and again compressed, and so does every reader."""
    texts = [f"{number:04d}" * 50_000 for number in range(100)]
    [path] = run_stage(ParquetWriter(tmp_path), DocumentBatch("d", pa.table({"text": texts})))[0].data
    before = pa.default_memory_pool().bytes_allocated()
    batches = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16).iter_batches(batch_size=1)
    assert next(batches).num_rows == 1
    assert pa.default_memory_pool().bytes_allocated() - before < 5_000_000
    assert pq.read_table(path)["text"].to_pylist() == texts
