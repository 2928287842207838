"""A line that is too long is set aside, however the file is read, and never held in memory as a whole."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock import FileGroupTask, InlineExecutor, Pipeline
from penstock.core.rejection import Rejection
from penstock.errors import InputError
from penstock.testing import run_stage_with_rejections
from penstock.text import JsonlReader, JsonlReaderStage, JsonlWriter, ParquetReader, ParquetReaderStage


def read(path: Path, **config: Any) -> tuple[list[Any], list[Rejection]]:
    task = FileGroupTask("d", [str(path)], reader_config=config)
    tasks, rejections = run_stage_with_rejections(JsonlReaderStage(max_line_bytes=20), task)
    return [row["n"] for task in tasks for row in task.data.to_pylist()], rejections


LINE = st.integers(0, 30).map(lambda size: b'{"n": 1, "x": "' + b"x" * size + b'"}') | st.sampled_from(
    [b'{"n": 1}', b'{"n": 123456789012}', b'{"n": 1234567890123}', b" " * 20, b" " * 21, b"", b"broken", b"z" * 70_000]
)


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(LINE, min_size=1, max_size=8), ends_in_newline=st.booleans(), blocksize=st.integers(1, 100))
@example(lines=[b'{"n": 1}', b"z" * 70_000, b'{"n": 2}'], ends_in_newline=True, blocksize=30)
@example(lines=[b"z" * 70_000], ends_in_newline=True, blocksize=30)
def test_the_same_lines_are_set_aside_however_a_file_is_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends_in_newline: bool, blocksize: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    lines = [b'{"n": 0}', *lines]  # a file without any document would stop the run
    content = b"\n".join(lines) + (b"\n" if ends_in_newline else b"")
    (folder / "a.jsonl").write_bytes(content)
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(content))
    good = [json.loads(line)["n"] for line in lines if line.startswith(b"{") and len(line) <= 20]
    begins = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    long = {begin: len(line) for begin, line in zip(begins, lines, strict=True) if len(line) > 20}
    cuts = [*range(0, len(content), max(blocksize, len(content) // 50)), len(content)]
    parts = [read(folder / "a.jsonl", blocksize=blocksize, part=part) for part in pairwise(cuts)]
    for found, rejections in (
        read(folder / "a.jsonl", blocksize=blocksize),
        read(folder / "a.jsonl"),
        read(folder / "a.jsonl.gz", blocksize=blocksize),
        ([row for rows, _ in parts for row in rows], [letter for _, letters in parts for letter in letters]),
    ):
        assert found == good
        too_long = [letter for letter in rejections if "more than max_line_bytes=20" in letter.reason]
        assert {letter.byte: int(letter.reason.split()[3].replace(",", "")) for letter in too_long} == long
        for letter in too_long:
            number = begins.index(letter.byte or 0)
            assert 20 < len(letter.excerpt) <= 2000
            assert lines[number].startswith(letter.excerpt.encode())
            assert letter.position in (None, number + 1)
        assert [letter.byte for letter in rejections] == sorted(
            begin for begin, line in zip(begins, lines, strict=True) if len(line) > 20 or line == b"broken"
        )


def test_a_file_of_only_too_long_lines_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(b'{"text": "' + b"x" * 100 + b'"}\n')
    (tmp_path / "in/b.jsonl").write_bytes(b'{"text": "b"}\n')
    executor = InlineExecutor(show_progress=False)
    stages: list[Any] = [JsonlReader(tmp_path / "in", max_line_bytes="50B"), JsonlWriter(tmp_path / "out")]
    [written] = Pipeline("p", stages=stages).run(executor)
    assert Path(written.data[0]).read_text() == '{"text": "b"}\n'
    [letter] = map(json.loads, (tmp_path / "out/_penstock/dead_letters.jsonl").read_text().splitlines())
    assert letter["source"].endswith("a.jsonl")
    assert (letter["position"], letter["byte"]) == (1, 0)
    assert letter["reason"] == "the line has 112 bytes, more than max_line_bytes=50"
    assert letter["excerpt"].startswith('{"text": "xxx')


def test_a_long_line_can_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n' + b"x" * 100)
    task = FileGroupTask("d", [str(tmp_path / "a.jsonl")])
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: the line has 100 bytes, more than max_line_bytes=50"):
        run_stage_with_rejections(JsonlReaderStage(max_line_bytes=50, on_bad_line="fail"), task)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": lambda data: gzip.compress(data, 1), ".bz2": bz2.compress, ".xz": lambda data: lzma.compress(data, preset=0), ".zst": zstandard.compress,
}  # fmt: skip
# Reads a file, and prints how many bytes more than before this process held at most.
MEASURED = """
import sys
from penstock import FileGroupTask
from penstock.testing import run_stage_with_rejections
from penstock.text import JsonlReaderStage
def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
task = FileGroupTask("d", [sys.argv[1]], reader_config={"blocksize": 1 << 20})
before = peak()
tasks, letters = run_stage_with_rejections(JsonlReaderStage(max_line_bytes="8MB"), task)
print(sum(task.num_items for task in tasks), *(letter.position for letter in letters), peak() - before)
print(letters[0].reason)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the most memory a process held")
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_line_of_hundreds_of_megabytes_takes_little_memory(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(COMPRESS[ending](b'{"n": 1}\n' + bytes(200_000_000) + b'\n{"n": 2}\n'))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    numbers, reason = done.stdout.splitlines()
    documents, line, grown = map(int, numbers.split())
    assert (documents, line) == (2, 2)
    assert reason == "the line has 200,000,000 bytes, more than max_line_bytes=8,000,000"
    assert grown < 100_000_000


def test_a_row_of_a_parquet_file_that_is_too_large_is_set_aside(tmp_path: Path) -> None:
    texts = ["a", "x" * 1000, None, "b", "y" * 5000]
    table = pa.table({"id": range(5), "text": texts, "tags": [["t"], ["t"], ["u" * 900], None, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    task = FileGroupTask("d", [str(tmp_path / "a.parquet")])
    [batch], letters = run_stage_with_rejections(ParquetReaderStage(max_row_bytes="800B", text_field="text"), task)
    assert batch.data["id"].to_pylist() == [0, 3]
    assert [(letter.position, letter.source) for letter in letters] == [(n, task.data[0]) for n in (2, 3, 5)]
    assert all("more than max_row_bytes=800" in letter.reason for letter in letters)
    assert letters[0].excerpt == "x" * 1000
    assert ParquetReader(str(tmp_path)).decompose()[1].get_config()["max_row_bytes"] == 256_000_000
