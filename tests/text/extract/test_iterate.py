"""Make documents of files with a user's iterator and extractor, and read archives with a reader."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warc_files import ENGLISH, page, record, response, table, write_warc

from penstock import InlineExecutor, Pipeline, ProcessingStage, StreamingExecutor
from penstock.core.files import FileGroupTask
from penstock.errors import InputError, MissingColumnError
from penstock.testing import run_stage, run_stage_with_rejections
from penstock.text import (
    CommonCrawlHTMLExtractor,
    CommonCrawlWarcIterator,
    DocumentExtractor,
    DocumentIterateExtractStage,
    DocumentIterator,
    FilePartitioningStage,
    HTMLExtractionStage,
    JsonlReader,
    JsonlWriter,
    WarcReader,
    WarcReaderStage,
)
from penstock.text.extract import iterate


class Lines(DocumentIterator):
    def iterate(self, file_path: str) -> Iterator[dict[str, Any]]:
        with Path(file_path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if line == "stop\n":
                    raise OSError("the disk is gone")
                yield {"line": line.strip(), "number": number, "odd": [number, "x"]}

    def output_columns(self) -> list[str]:
        return ["line", "number", "odd"]


class Shout(DocumentExtractor):
    def extract(self, record: dict[str, Any]) -> dict[str, Any] | None:
        if record["line"] == "quiet":
            return None
        if record["line"] == "bad":
            raise ValueError("cannot shout that")
        return {"text": record["line"].upper()}

    def input_columns(self) -> list[str]:
        return ["line"]

    def output_columns(self) -> list[str]:
        return ["text"]


@pytest.fixture
def lines(tmp_path: Path) -> FileGroupTask:
    (tmp_path / "a.txt").write_text("one\nquiet\ntwo\nbad\nthree\n")
    return FileGroupTask("test", [str(tmp_path / "a.txt")])


def test_records_become_documents_and_a_failing_one_is_set_aside(lines: FileGroupTask) -> None:
    [batch], [rejection] = run_stage_with_rejections(DocumentIterateExtractStage(Lines(), Shout()), lines)
    assert table(batch).to_pylist() == [{"text": text, "file_name": "a.txt"} for text in ("ONE", "TWO", "THREE")]
    assert rejection.reason == "Shout failed: ValueError: cannot shout that"
    assert rejection.source == lines.data[0]
    [perf] = batch._stage_perf
    assert perf.custom_metrics["skipped: the extractor found nothing to keep"] == 1


def test_without_an_extractor_records_are_documents(lines: FileGroupTask) -> None:
    [batch] = run_stage(DocumentIterateExtractStage(Lines(), add_filename_column="source", record_limit=2), lines)
    assert table(batch)["line"].to_pylist() == ["one", "quiet"]
    assert table(batch)["source"].to_pylist() == ["a.txt", "a.txt"]
    assert table(batch)["odd"].to_pylist() == ['[0,"x"]', '[1,"x"]']
    [bare] = run_stage(DocumentIterateExtractStage(Lines(), add_filename_column=False), lines)
    assert table(bare).column_names == ["line", "number", "odd"]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_record_limit_counts_documents(lines: FileGroupTask, limit: int) -> None:
    [batch] = run_stage(DocumentIterateExtractStage(Lines(), Shout(), record_limit=limit), lines)
    assert batch.num_items == min(limit, 3)


def test_a_truncated_file_yields_the_records_read_so_far(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nstop\nthree\n")
    task = FileGroupTask("test", [str(tmp_path / "a.txt")])
    [batch], [rejection] = run_stage_with_rejections(DocumentIterateExtractStage(Lines()), task)
    assert batch.num_items == 2
    assert "after 2 records: OSError: the disk is gone" in rejection.reason


def test_a_file_that_cannot_be_read_at_all_fails(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.warc\.gz: there is no such file"):
        run_stage(
            DocumentIterateExtractStage(CommonCrawlWarcIterator()),
            FileGroupTask("test", [str(tmp_path / "absent.warc.gz")]),
        )


def test_batches_are_bounded(lines: FileGroupTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterate, "BATCH_BYTES", 100)
    batches = run_stage(DocumentIterateExtractStage(Lines()), lines)
    assert [batch.num_items for batch in batches] == [2, 2, 1]


def test_columns_of_every_kind_keep_their_values() -> None:
    made = iterate.to_table(
        [{"a": 1, "b": "x", "c": b"\0", "d": {"k": [1]}, "e": 2**70, "f": "\ud800"}, {"b": None, "d": "s"}]
    )
    assert made.to_pylist() == [
        {"a": 1, "b": "x", "c": b"\0", "d": '{"k":[1]}', "e": str(2**70), "f": "?"},
        {"a": None, "b": None, "c": None, "d": '"s"', "e": None, "f": None},
    ]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Two archives, one of them cut off, and a WET file."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    pages = [record(response(page(ENGLISH, f"Number {n}.")), url=f"http://example.org/{n}") for n in range(4)]
    write_warc(folder / "a.warc.gz", [*pages[:2], record(response(b"GIF89a", "image/gif"))])
    whole = write_warc(folder / "b.warc.gz", pages[2:])
    whole.write_bytes(whole.read_bytes()[:-30])
    return folder


def test_an_archive_is_read_like_any_other_file(crawl: Path, tmp_path: Path) -> None:
    pipeline = Pipeline("warc", stages=[WarcReader(str(crawl)), JsonlWriter(str(tmp_path / "out"))])
    pipeline.run(InlineExecutor())
    tasks = Pipeline("back", stages=[JsonlReader(str(tmp_path / "out"))]).run(InlineExecutor())
    rows = sorted((row for task in tasks or [] for row in table(task).to_pylist()), key=lambda row: row["url"])
    assert [row["url"] for row in rows] == [f"http://example.org/{n}" for n in range(3)]
    assert rows[0]["html"] == page(ENGLISH, "Number 0.")
    assert rows[2]["source_id"] == "b.warc.gz"
    assert {*rows[0]} == {"url", "warc_id", "date", "content_type", "source_id", "html"}
    dead = (tmp_path / "out" / "_penstock" / "dead_letters.jsonl").read_text()
    assert "http://example.org/3" in dead
    assert "downloaded completely" in dead


def test_a_wet_file_yields_texts(tmp_path: Path) -> None:
    wet = write_warc(tmp_path / "a.warc.wet.gz", [record("Käse".encode(), "conversion"), record(b"b", "conversion")])
    [batch] = run_stage(WarcReaderStage(), FileGroupTask("test", [str(wet)]))
    assert table(batch)["text"].to_pylist() == ["Käse", "b"]
    [some] = run_stage(WarcReaderStage(fields=["text", "url"]), FileGroupTask("test", [str(wet)]))
    assert table(some).column_names == ["text", "url"]
    with pytest.raises(MissingColumnError, match="'html' is missing"):
        run_stage(WarcReaderStage(fields=["html"]), FileGroupTask("test", [str(wet)]))


def test_a_reader_holds_one_batch_at_a_time(crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterate, "BATCH_BYTES", 1)
    assert [
        batch.num_items for batch in run_stage(WarcReaderStage(), FileGroupTask("test", [str(crawl / "a.warc.gz")]))
    ] == [1, 1]


def test_a_file_that_is_not_an_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(b"just text"))
    batches, [rejection] = run_stage_with_rejections(
        WarcReaderStage(), FileGroupTask("test", [str(tmp_path / "a.warc.gz")])
    )
    assert batches == []
    assert "expected 'WARC/'" in rejection.reason


def test_a_full_pipeline_runs_in_worker_processes(crawl: Path, tmp_path: Path) -> None:
    pipeline = Pipeline(
        "warc", stages=[WarcReader(str(crawl)), HTMLExtractionStage(), JsonlWriter(str(tmp_path / "out"))]
    )
    pipeline.run(StreamingExecutor())
    lines = [line for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == 3
    assert all(ENGLISH in line for line in lines)


def test_iterate_extract_stages_return_the_same_texts(crawl: Path) -> None:
    stages: list[ProcessingStage[Any, Any]] = [
        FilePartitioningStage(str(crawl), file_extensions=[".warc"]),
        DocumentIterateExtractStage(
            CommonCrawlWarcIterator(), CommonCrawlHTMLExtractor("resiliparse"), max_calls_per_worker=1
        ),
    ]
    tasks = Pipeline("warc", stages=stages).run(InlineExecutor())
    rows = [row for task in tasks or [] for row in table(task).to_pylist()]
    assert sorted(row["url"] for row in rows) == [f"http://example.org/{n}" for n in range(3)]
    assert all(ENGLISH in row["text"] and row["language"] == "ENGLISH" for row in rows)
