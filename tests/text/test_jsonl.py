"""Read and write JSONL: a field that no stage changes is written exactly as it was read."""

import bz2
import gzip
import json
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import FileGroupTask, InlineExecutor, Pipeline
from penstock.core.rejection import Rejection
from penstock.errors import InputError, MissingColumnError
from penstock.testing import run_stage_with_rejections
from penstock.text import JsonlReader, JsonlReaderStage, JsonlWriter

FILE = "a.jsonl"


def read(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[Rejection]]:
    """Return the documents of one file as Arrow has them, and what was set aside."""
    tasks, rejections = run_stage_with_rejections(JsonlReaderStage(**options), FileGroupTask("d", [str(path)]))
    return [row for task in tasks for row in task.data.to_pylist()], rejections


def copy(content: bytes) -> bytes:
    """Read a file and write it again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE).write_bytes(content)
        pipeline = Pipeline("copy", stages=[JsonlReader(folder / FILE), JsonlWriter(folder / "out")])
        written = pipeline.run(InlineExecutor(show_progress=False))
        return b"".join(Path(path).read_bytes() for task in written for path in task.data)


@pytest.mark.parametrize(
    "values",
    [
        ['"2020-01-01"', '"2021-02-03T04:05:06Z"'],
        ['"00123"', '"456"'],
        ["9007199254740993", "-9223372036854775808", "null"],
        ["18446744073709551616", "1"],
        ["123456789012345678901234567890123456789012", "0"],
        ["1.10", "1e5", "1E+2", "-0", "-0.0", "0.1"],
        ["1.10", "2.50"],
        ["1e5", "1E+2"],
        ["-0", "1"],
        ["1e400", "1"],
        ["1", "1.0"],
        ["1.5", "null", "2.5"],
        ["true", "false", "null"],
        ["null", "null"],
        ['"one"', "1", "[1]", '{"a":null}', "true", "null"],
        ['{"b":{"c":[1.10,"x"]},"a":1}', '{"b":2}'],
        ['[]', '[["2020-01-01"],[]]'],
        ['"\\u0000\\n\\t\\"\\\\/"', '"é 漢 😀"'],
    ],
)  # fmt: skip
def test_values_keep_their_spelling(values: list[str]) -> None:
    lines = [f'{{"id":{number},"x":{value}}}\n' for number, value in enumerate(values)]
    assert copy("".join(lines).encode()).decode() == "".join(lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ROW = st.dictionaries(st.sampled_from(["a", "b", "é", ""]), JSON, max_size=4)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=5), ascii_only=st.booleans(), spaced=st.booleans())
def test_any_json_survives_a_round_trip(rows: list[dict[str, Any]], ascii_only: bool, spaced: bool) -> None:
    separators = (", ", ": ") if spaced else (",", ":")
    rows = [{"id": number, **row} for number, row in enumerate(rows)]
    text = "".join(json.dumps(row, ensure_ascii=ascii_only, separators=separators) + "\n" for row in rows)
    assert copy(text.encode()) == text.encode()


def test_fields_keep_their_order_and_absent_ones_stay_absent() -> None:
    assert copy(b'{"z":1,"a":2}\n{"m":3,"z":null}\n') == b'{"z":1,"a":2}\n{"m":3,"z":null}\n'


def test_bad_lines_are_set_aside_with_line_and_reason_and_the_rest_is_read(tmp_path: Path) -> None:
    lines: list[tuple[bytes, str]] = [
        (b'{"text": "good"}', ""),
        (b'{"text": "cut of', "not JSON"),
        (b'["a"]', "expected a JSON object, got an array"),
        (b'"text"', "expected a JSON object, got a string"),
        (b"12", "expected a JSON object, got a number"),
        (b"null", "expected a JSON object, got null"),
        (b'{"text": "\xff"}', "invalid UTF-8 at byte 10"),
        (b'{"text": "\\ud800"}', "not JSON"),
        (b'{"text": NaN}', "not JSON"),
        (b'{"text": "a"} {"text": "b"}', "not JSON"),
        (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
        (b'{"text": "last"}', ""),
    ]
    (tmp_path / FILE).write_bytes(b"\n".join(line for line, _ in lines))
    rows, rejections = read(tmp_path / FILE)
    assert rows == [{"text": "good"}, {"text": "last"}]
    expected = [(number, reason) for number, (_, reason) in enumerate(lines, start=1) if reason]
    assert [rejection.position for rejection in rejections] == [number for number, _ in expected]
    for rejection, (_, reason) in zip(rejections, expected, strict=True):
        assert rejection.reason.startswith(reason)
        assert rejection.source == str(tmp_path / FILE)
        assert len(rejection.excerpt) <= 2000
    assert rejections[5].excerpt == r'{"text": "\xff"}'


def test_a_number_too_large_for_any_type_is_kept_next_to_an_escape() -> None:
    line = b'{"text":"caf\\u00e9","n":1e400}\n'
    assert json.loads(copy(line + b'{"text":"x","n":1}\n').splitlines()[0]) == json.loads(line)


@pytest.mark.parametrize(
    "content",
    [
        b'\xef\xbb\xbf{"a":1}\n{"a":2}\n',
        b'{"a":1}\r\n{"a":2}\r\n',
        b'\n{"a":1}\n\n  \n{"a":2}\n\n',
        b'{"a":1}\n{"a":2}',
        b' { "a" : 1 } \n\t{"a":2}\t\n',
    ],
    ids=["byte order mark", "windows line ends", "blank lines", "no last line end", "white space"],
)
def test_line_breaks_blanks_and_byte_order_marks_do_not_change_documents(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert read(tmp_path / FILE) == ([{"a": 1}, {"a": 2}], [])


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_files_are_found_and_read(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / f"{FILE}{suffix}").write_bytes(compress(b'{"a":1}\n'))
    [batch] = Pipeline("p", stages=[JsonlReader(tmp_path)]).run(InlineExecutor(show_progress=False))
    assert batch.data.to_pylist() == [{"a": 1}]


def test_a_file_of_another_format_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("id,text\n1,hello\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / FILE)
    message = str(caught.value)
    assert f"{tmp_path / FILE}: not a JSON Lines file: none of its 2 lines is a document. Line 1: not JSON" in message
    assert "'id,text'" in message
    assert "Expected one JSON object per line." in message


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_yields_no_batch(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert read(tmp_path / FILE) == ([], [])


def test_objects_without_fields_are_kept(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"{}\n{}\n")
    with pytest.raises(InputError, match=f"{tmp_path / FILE}.*field"):
        read(tmp_path / FILE)


def test_only_the_requested_fields_are_read_in_that_order(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"a":1,"b":"x","c":[]}\n{"a":2}\n')
    assert read(tmp_path / FILE, fields=["b", "a"])[0] == [{"b": "x", "a": 1}, {"b": None, "a": 2}]
    with pytest.raises(MissingColumnError, match="column 'd' is missing; the batch has 'a', 'b', 'c'"):
        read(tmp_path / FILE, fields=["d"])


def test_several_files_make_one_batch_if_requested(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(f'{{"name": "{name}"}}\n')
    results = Pipeline("p", stages=[JsonlReader(tmp_path, files_per_partition=2)]).run(
        InlineExecutor(show_progress=False)
    )
    assert [task.data["name"].to_pylist() for task in results] == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read_kwargs": {"line": True}}, "read_kwargs has no 'line'; it has storage_options"),
        ({"task_type": "image"}, "task_type='image'; it reads 'document' only"),
        ({"blocksize": "1MB", "files_per_partition": 2}, "exclude each other"),
    ],
)
def test_invalid_reader_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JsonlReader("in", **options)
