"""Input samples: spread over the whole input, reproducible, and no more is read than taken."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.storage.listing import list_files
from penstock.text.io.input_sample import SampleSpot, sample_jsonl, sample_parquet


def write_lines(path: Path, count: int, name: str = "") -> None:
    path.write_text("".join(f'{{"text": "{name}{number}"}}\n' for number in range(count)))


def jsonl(folder: Path, documents: int, places: int) -> list[SampleSpot]:
    return list(sample_jsonl(list_files(folder, [".jsonl"]).files, documents, places))


def texts(places: list[SampleSpot]) -> list[bytes]:
    return [line for place in places for line in place.lines]


def test_a_small_input_is_sampled_completely_without_repeats(tmp_path: Path) -> None:
    for name in "abc":
        write_lines(tmp_path / f"{name}.jsonl", 10, name)
    found = texts(jsonl(tmp_path, 1000, 7))
    assert sorted(found) == sorted(b"".join(p.read_bytes() for p in tmp_path.iterdir()).splitlines(keepends=True))


def test_a_large_file_is_sampled_at_several_places(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 10_000)
    places = jsonl(tmp_path, 100, 10)
    assert [place.count for place in places] == [10] * 10
    firsts = [int(place.lines[0].split(b'"')[3]) for place in places]
    assert all(900 * number <= first <= 1100 * number + 100 for number, first in enumerate(firsts))
    assert texts(places) == texts(jsonl(tmp_path, 100, 10))


def test_many_files_are_sampled_evenly(tmp_path: Path) -> None:
    for number in range(100):
        write_lines(tmp_path / f"{number:03}.jsonl", 50)
    assert len({place.file for place in jsonl(tmp_path, 200, 40)}) == 40


def test_a_compressed_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    body = b"".join(b'{"text": "%d"}\n' % number for number in range(5000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(body))
    found = texts(jsonl(tmp_path, 100, 10))
    assert found == body.splitlines(keepends=True)[:100]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_that_is_too_long_for_a_sample_is_left_out(tmp_path: Path, ending: str) -> None:
    body = b'{"text": "1"}\n' + b"x" * 33_000_000 + b'\n{"text": "2"}\n' + b"y" * 17_000_000
    (tmp_path / f"a.jsonl{ending}").write_bytes(gzip.compress(body, 1) if ending else body)
    assert texts(jsonl(tmp_path, 100, 1)) == [b'{"text": "1"}\n', b'{"text": "2"}\n']


def test_one_endless_line_does_not_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes((b"x" * 9_000_000 + b"\n") * 3)
    assert [place.count for place in jsonl(tmp_path, 100, 1)] == [1]


@pytest.mark.parametrize("row_group_size", [7, 100, 10_000])
def test_parquet_rows_are_sampled_from_the_whole_file(tmp_path: Path, row_group_size: int) -> None:
    table = pa.table({"text": [str(number) for number in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group_size)
    places = list(sample_parquet(list_files(tmp_path, [".parquet"]).files, 50, 10))
    firsts = [int(place.table["text"][0].as_py()) for place in places if place.table is not None]
    assert all(100 * number - 1 <= first <= 100 * number for number, first in enumerate(firsts))
    assert len(firsts) == 10
    assert all(1 <= place.count <= 5 for place in places)
