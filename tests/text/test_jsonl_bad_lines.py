"""Bad lines are set aside with file, line, byte and reason; all other lines are read."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock import FileGroupTask, InlineExecutor, Pipeline
from penstock.core.rejection import Rejection
from penstock.errors import InputError
from penstock.testing import run_stage_with_rejections
from penstock.text import JsonlReader, JsonlReaderStage, JsonlWriter
from penstock.text.io.json_lines import scan_lines
from penstock.text.io.json_rows import parse_rows


def read(path: Path, blocksize: int = 10**6, **options: Any) -> tuple[list[Any], list[Rejection]]:
    task = FileGroupTask("d", [str(path)], reader_config={"blocksize": blocksize})
    tasks, rejections = run_stage_with_rejections(JsonlReaderStage(**options), task)
    return [row for task in tasks for row in task.data.to_pylist()], rejections


BAD_LINES: list[tuple[bytes, str]] = [
    (b'{"text": "cut of', "not JSON"),
    (b'["a"]', "expected a JSON object, got an array"),
    (b'"text"', "expected a JSON object, got a string"),
    (b"12", "expected a JSON object, got a number"),
    (b"null", "expected a JSON object, got null"),
    (b"{}", "an object without any field"),
    (b'{"text": "\xff"}', "invalid UTF-8 at byte 10"),
    (b'{"text": "\xed\xa0\x80"}', "invalid UTF-8 at byte 10"),
    (b'{"text": "\\ud800"}', "not JSON"),
    (b'{"text": "\\udc00"}', "not JSON"),
    (b'{"text": "\\ud83d\\u0041"}', "not JSON"),
    (b'{"text": "\\\\ud83d\\udc00"}', "not JSON"),
    (b'{"\\uDC00": 1}', "not JSON"),
    (b'{"text": NaN}', "not JSON"),
    (b'{"text": -Infinity}', "not JSON"),
    (b'{"text": "a"} {"text": "b"}', "not JSON"),
    (b'{"text": "a\x00b"}', "not JSON"),
    (b"\x00\x00\x00", "not JSON"),
    (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON: nested too deeply"),
    (b"{'text': 'python'}", "not JSON"),
    (b'{"text": "tab\there"}', "not JSON"),
]
GOOD_LINES = [
    b'{"text": "\\ud83d\\ude00 \\\\ud83d \\\\udc00"}',
    b'{"text": "\xf0\x9f\x98\x80 \x7f"}',
    b'{"text": "a", "text": "b"}',
    b'{"deep": ' + b"[" * 200 + b"]" * 200 + b"}",
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES, ids=[repr(line[:20]) for line, _ in BAD_LINES])
def test_a_bad_line_between_good_ones(tmp_path: Path, line: bytes, reason: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\r\n\n' + line + b'\n{"n": 2}')
    rows, [rejection] = read(tmp_path / "a.jsonl")
    assert rows == [{"n": 1}, {"n": 2}]
    assert rejection.reason.startswith(reason)
    assert (rejection.source, rejection.position, rejection.byte) == (str(tmp_path / "a.jsonl"), 3, 11)
    assert len(rejection.excerpt) <= 2000
    assert rejection.stage == "jsonl_reader_stage"


@pytest.mark.parametrize("line", GOOD_LINES, ids=[repr(line[:20]) for line in GOOD_LINES])
def test_a_line_that_only_looks_bad_is_read(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n' + line)
    rows, rejections = read(tmp_path / "a.jsonl")
    assert (len(rows), rejections) == (2, [])


def test_on_bad_line_fail_reports_the_same_reason(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n["a"]\n')
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.jsonl", on_bad_line="fail")
    assert f"{tmp_path / 'a.jsonl'}, line 2: expected a JSON object, got an array: '[\"a\"]'." in str(caught.value)
    with pytest.raises(ValueError, match="on_bad_line='stop'; it is one of skip, fail"):
        JsonlReader("in", on_bad_line="stop")


def test_documents_without_text_are_bad_lines_if_text_field_is_set(tmp_path: Path) -> None:
    lines = [b'{"body": "x"}', b'{"text": "x"}', b'{"body": null}', b'{"body": 5}', b'{"body": ""}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    rows, rejections = read(tmp_path / "a.jsonl", text_field="body")
    assert rows == [{"body": "x"}, {"body": None}, {"body": ""}]
    assert [rejection.position for rejection in rejections] == [2, 4]
    assert {rejection.reason for rejection in rejections} == {"no text in its field 'body'"}


def test_bad_lines_are_named_by_byte_where_lines_cannot_be_counted(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number}).encode() for number in range(100)]
    lines[70] = b"broken"
    content = b"\n".join(lines)
    (tmp_path / "a.jsonl").write_bytes(content)
    run_dir = tmp_path / "out" / "_penstock"
    pipeline = Pipeline("p").add_stage(JsonlReader(tmp_path / "a.jsonl", blocksize=300))
    pipeline.add_stage(JsonlWriter(tmp_path / "out")).run(InlineExecutor(show_progress=False))
    [letter] = [json.loads(line) for line in (run_dir / "dead_letters.jsonl").read_text().splitlines()]
    assert (letter["byte"], letter["position"]) == (content.index(b"broken"), None)
    assert letter["excerpt"] == "broken"


def test_a_part_of_a_file_without_any_document_is_accounted_for_line_by_line(tmp_path: Path) -> None:
    content = b'{"id": 1}\n' * 50 + b"broken\n" * 100 + b'{"id": 2}\n' * 50
    (tmp_path / "a.jsonl").write_bytes(content)
    for blocksize in (100, 350, 10_000):
        tasks = Pipeline("p", stages=[JsonlReader(tmp_path / "a.jsonl", blocksize=blocksize)]).run(
            InlineExecutor(show_progress=False, run_dir=str(tmp_path / "run"))
        )
        assert sum(task.num_items for task in tasks) == 100
        assert len((tmp_path / "run/dead_letters.jsonl").read_text().splitlines()) == 100


def test_a_large_file_of_another_format_is_noticed_early(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"id,text\n" * 100_000)
    with pytest.raises(InputError, match="not a JSON Lines file: none of its"):
        Pipeline("p", stages=[JsonlReader(tmp_path, blocksize=20_000)]).run(InlineExecutor(show_progress=False))


@settings(max_examples=300, deadline=None)
@given(
    content=st.binary(max_size=60)
    | st.lists(
        st.sampled_from(
            [*(line for line, _ in BAD_LINES if len(line) < 100), *GOOD_LINES[:3], b"", b"\r", b" \t", b"{"]
        )
        | st.binary(max_size=20),
        max_size=6,
    ).map(b"\n".join)
)
@example(content=b"\xef\xbb\xbf\n\xef\xbb\xbf{}")
@example(content=b'{"a":"\\ud83d\n\\ude00"}')
def test_any_bytes_are_read_or_accounted_for_line_by_line(content: bytes) -> None:
    rows = parse_rows(content)
    bad = scan_lines(rows.block).bad_lines
    good = {int(start): bytes(rows.block[int(start) : int(end)]) for start, end in rows.places()}
    described = {line.offset: line for line in bad}
    assert not good.keys() & described.keys()
    position, number, seen = 0, 0, 0
    for number, line in enumerate(content.split(b"\n"), start=1):
        start = position + len(line) - len(line.lstrip())
        if line.strip():
            seen += 1
            if start in good:
                assert good[start] == line.strip()
                assert isinstance(json.loads(good[start]), dict)
            else:
                assert described[start].number == number
                assert described[start].reason
        position += len(line) + 1
    assert seen == len(good) + len(described)
    # And what is good can be taken apart.
    assert rows.to_table().num_rows == len(good)


@settings(max_examples=60, deadline=None)
@example(content=bytes(10) + b"\n\t")  # the last block has no bad line of its own
@given(content=st.binary(max_size=80) | st.lists(st.sampled_from([b'{"a":1}', b"{", b"\xff", b""])).map(b"\n".join))
def test_a_file_of_any_bytes_is_read_the_same_in_one_piece_and_in_many(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_bytes(content)
    outcomes: list[Any] = []
    for blocksize in (10**6, 11):
        try:
            rows, rejections = read(path, blocksize)
        except InputError as error:
            outcomes.append((str(path) in str(error), []))
        else:
            outcomes.append((repr(rows), [(bad.position, bad.byte, bad.reason) for bad in rejections]))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (gzip.compress(b'{"text": "a"}\n' * 9), "compressed with gzip; its name must end in .gz"),
        (zstandard.compress(b'{"text": "a"}\n' * 9), "compressed with zstd; its name must end in .zst"),
        (lzma.compress(b'{"text": "a"}\n' * 9), "compressed with xz; its name must end in .xz"),
        (bz2.compress(b'{"text": "a"}\n' * 9), "compressed with bzip2; its name must end in .bz2"),
        (b"PAR1\x15\x04", "It looks like a Parquet file; use ParquetReader"),
    ],
    ids=["gzip", "zstd", "xz", "bzip2", "parquet"],
)
def test_the_error_for_a_wrongly_named_file_says_what_it_looks_like(tmp_path: Path, content: bytes, hint: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=hint):
        read(tmp_path / "a.jsonl")
