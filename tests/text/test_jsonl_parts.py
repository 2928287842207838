"""A file larger than a block is read in parts: every line is in exactly one of them."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock import DocumentBatch, FileGroupTask, InlineExecutor, Pipeline, StreamingExecutor
from penstock.core.cluster import Cluster, Node
from penstock.core.rejection import Rejection
from penstock.executors.planning import plan_pipeline
from penstock.plan.explain import explain
from penstock.testing import run_stage_with_rejections
from penstock.text import JsonlReader, JsonlReaderStage, JsonlWriter, ScoreFilter, WordCountFilter
from penstock.text.io.blocks import read_blocks, read_part
from penstock.text.io.partitioning import DEFAULT_BLOCKSIZE, FilePartitioningStage


def lines_of(count: int, width: int = 40) -> list[bytes]:
    return [json.dumps({"id": number, "text": "x" * (number * 7 % width)}).encode() for number in range(count)]


def run(*stages: Any, executor: Any = None) -> list[Any]:
    return Pipeline("p", stages=stages).run(executor or InlineExecutor(show_progress=False))


def ids(tasks: list[Any]) -> list[list[int]]:
    return [task.to_pyarrow()["id"].to_pylist() for task in tasks]


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    ends_in_newline=st.booleans(),
    blocksize=st.integers(1, 30),
)
@example(lines=[b"x" * 50, b"", b"y"], ends_in_newline=False, blocksize=7)
@example(lines=[b"abc", b"def"], ends_in_newline=True, blocksize=4)
def test_every_line_is_in_exactly_one_part_and_one_block(
    lines: list[bytes], ends_in_newline: bool, blocksize: int
) -> None:
    content = b"\n".join(lines) + (b"\n" if ends_in_newline and lines else b"")
    cuts = [*range(0, len(content), blocksize), len(content)]
    parts = [block for start, end in pairwise(cuts) for block in read_part(io.BytesIO(content), start, end, 100)]
    blocks = list(read_blocks(io.BytesIO(content), blocksize, 100))
    mark = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    for pieces in (parts, blocks):
        assert b"".join(piece.data.to_pybytes() for piece in pieces) == content[mark:]
        for piece in pieces:
            assert content[piece.offset :].startswith(piece.data.to_pybytes())
        assert all(piece.data.to_pybytes().endswith(b"\n") for piece in pieces[:-1])
    assert [block.is_last for block in blocks] == [False] * (len(blocks) - 1) + [True] * bool(blocks)


def test_a_large_file_becomes_many_tasks_and_nothing_else_changes(tmp_path: Path) -> None:
    lines = lines_of(500)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/big.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "in/small.jsonl").write_bytes(b'{"id": -1, "text": "small"}\n')
    tasks = run(JsonlReader(tmp_path / "in", blocksize=1000))
    assert len(tasks) > 20
    assert [number for part in ids(tasks) for number in part] == [*range(500), -1]
    assert all(task.num_bytes <= 1100 for task in tasks)
    assert len({task.task_id for task in tasks}) == len(tasks)
    assert [task.task_id for task in tasks] == [
        task.task_id for task in run(JsonlReader(tmp_path / "in", blocksize=1000))
    ]
    for task in tasks:
        assert task.source_rows.tolist() == list(range(task.num_items)), "counted within the part"


def test_output_is_the_same_with_every_executor(tmp_path: Path) -> None:
    lines = lines_of(300)
    (tmp_path / "big.jsonl").write_bytes(b"\n".join(lines))
    outputs = {}
    for name, executor in {
        "inline": InlineExecutor(show_progress=False),
        "workers": StreamingExecutor(show_progress=False, cpus=2),
    }.items():
        run(JsonlReader(tmp_path / "big.jsonl", blocksize="2kB"), JsonlWriter(tmp_path / name), executor=executor)
        outputs[name] = {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.jsonl")}
    assert outputs["inline"] == outputs["workers"]
    assert sorted(line for content in outputs["inline"].values() for line in content.splitlines()) == sorted(lines)


def test_a_stopped_run_resumes_with_the_remaining_parts(tmp_path: Path) -> None:
    (tmp_path / "big.jsonl").write_bytes(b"\n".join(lines_of(100)))

    class Stops(JsonlWriter):
        def process(self, task: DocumentBatch) -> Any:
            if not (tmp_path / "go").exists() and 60 in task.column("id").to_pylist():
                raise KeyboardInterrupt
            return super().process(task)

    stages: list[Any] = [JsonlReader(tmp_path / "big.jsonl", blocksize=500), Stops(tmp_path / "out")]
    with pytest.raises(KeyboardInterrupt):
        Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), checkpoint_path=tmp_path / "checkpoint")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.jsonl")}
    assert before
    (tmp_path / "go").touch()
    Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), checkpoint_path=tmp_path / "checkpoint")
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.jsonl")}
    assert before.items() <= after.items(), "what was complete was not written again"
    assert sum(len(path.read_bytes().splitlines()) for path in after) == 100


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_compressed_file_is_read_in_pieces(tmp_path: Path, ending: str, members: int) -> None:
    lines = lines_of(300)
    content = b"\n".join(lines)
    step = len(content) // members + 1
    stored = b"".join(COMPRESS[ending](content[at : at + step]) for at in range(0, len(content), step))
    (tmp_path / f"a.jsonl{ending}").write_bytes(stored)
    tasks = run(JsonlReader(tmp_path, blocksize=3000))
    assert len(tasks) > 3
    assert [number for part in ids(tasks) for number in part] == list(range(300))
    assert [row for task in tasks for row in task.source_rows.tolist()] == list(range(300)), "the count goes on"
    [whole] = run(JsonlReader(tmp_path))
    assert whole.num_items == 300
    assert tasks[0].task_id == f"{whole.task_id}_0"


def test_pieces_go_through_filters_and_are_written_one_by_one(tmp_path: Path) -> None:
    lines = [json.dumps({"text": "word " * (number % 5)}).encode() for number in range(200)]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    for name, executor in {"inline": None, "workers": StreamingExecutor(show_progress=False, cpus=2)}.items():
        reader = JsonlReader(tmp_path / "a.jsonl.gz", blocksize=500)
        written = run(
            reader, ScoreFilter(WordCountFilter(min_words=3)), JsonlWriter(tmp_path / name), executor=executor
        )
        assert len(written) > 3
        out = [line for task in written for path in task.data for line in Path(path).read_bytes().splitlines()]
        assert out == [line for number, line in enumerate(lines) if number % 5 >= 3]


@pytest.mark.parametrize("ending", COMPRESS)
def test_the_complete_lines_of_a_truncated_file_are_read(tmp_path: Path, ending: str) -> None:
    lines = [
        json.dumps({"id": number, "text": sha256(b"%d" % number).hexdigest()}).encode() for number in range(20_000)
    ]
    stored = COMPRESS[ending](b"\n".join(lines[:10_000]) + b"\n") + COMPRESS[ending](b"\n".join(lines[10_000:]))
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(stored[: len(stored) - len(stored) // 8])
    tasks, [rejection] = read(path, blocksize=200_000)
    found = [number for part in ids(tasks) for number in part]
    assert found == list(range(len(found)))
    assert len(found) >= 10_000
    assert rejection.reason == (
        f"the file ends in the middle of a compressed stream, after {len(found)} documents; the rest is missing"
    )
    assert (rejection.source, rejection.position) == (str(path), len(found) + 1)
    assert rejection.byte == sum(len(line) + 1 for line in lines[: len(found)])


def test_damage_in_the_middle_of_an_archive_is_reported(tmp_path: Path) -> None:
    lines = lines_of(2000)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines[:1000]) + b"\n") + b"this is no gzip" + b"\n".join(lines[1000:]))
    tasks, [rejection] = read(path)
    assert ids(tasks) == [list(range(1000))]
    assert rejection.reason.startswith("the compressed stream is damaged: ")


def read(path: Path, blocksize: int = 10**6, **options: Any) -> tuple[list[Any], list[Rejection]]:
    task = FileGroupTask("d", [str(path)], reader_config={"blocksize": blocksize})
    return run_stage_with_rejections(JsonlReaderStage(**options), task)


def test_a_line_far_longer_than_a_block_is_one_document(tmp_path: Path) -> None:
    long = json.dumps({"id": 1, "text": "x" * 1_000_000}).encode()
    content = b"\n".join([b'{"id": 0}', long, b'{"id": 2}', b'{"id": 3}'])
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(content))
    for name in ("a.jsonl", "b.jsonl.gz"):
        tasks = run(JsonlReader(tmp_path / name, blocksize=10_000))
        assert [number for part in ids(tasks) for number in part] == [0, 1, 2, 3]


def test_by_default_each_file_is_a_task_unless_it_is_larger_than_a_block(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 10), ("c", 200)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(lines_of(size)))
    stage = FilePartitioningStage(tmp_path, cut="lines")
    stage._default_blocksize = 4096
    names = [task._metadata["source_names"] for task in stage.process(None)]  # type: ignore[arg-type]
    assert names[:2] == [[f"{tmp_path.name}/a.jsonl"], [f"{tmp_path.name}/b.jsonl"]]
    assert names[2] == [f"{tmp_path.name}/c.jsonl[0:4096]"]
    assert len(names) > 3


def test_the_default_block_size_fits_the_available_memory(tmp_path: Path) -> None:
    stage = FilePartitioningStage(tmp_path)
    for memory, budget, expected in [
        (8e9, None, DEFAULT_BLOCKSIZE),
        (0.5e9, None, 32 << 20),
        (8e9, 256 << 20, 32 << 20),
        (1e6, None, 1 << 20),
    ]:
        stage.fit_to(memory, budget)
        assert stage.get_config()["blocksize"] == expected
    chosen = FilePartitioningStage(tmp_path, blocksize="2GiB")
    chosen.fit_to(1e6)
    assert chosen.get_config()["blocksize"] == 2 << 30, "what a user says is not changed"


def test_a_plan_says_how_many_parts_there_will_be(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x" * 10_000)
    pipeline = Pipeline("p", stages=[JsonlReader(tmp_path, blocksize=3000)])
    plan = plan_pipeline(pipeline, Cluster((Node("n", 2, 8),)))
    assert "Input: 1 file, 10.0 kB, in 4 tasks of at most 3.0 kB as stored" in explain(plan)


def test_a_users_stage_receives_whole_files(tmp_path: Path) -> None:
    # It reads what task.data names, and knows nothing of parts.
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines_of(100)))
    assert len(run(FilePartitioningStage(tmp_path, blocksize=100))) == 1
