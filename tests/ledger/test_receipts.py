"""Queries on a ledger: the receipt of a document, samples, and totals per stage."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ledger_runs import filters, run, write_documents
from test_run_ledger import Choosy, PandasFilter, Splitter

from penstock.errors import InputError
from penstock.ledger.query.dead_letters import failure_of
from penstock.ledger.query.ledger import Ledger, find_ledger
from penstock.ledger.query.overview import overview
from penstock.ledger.query.receipts import Receipt, find_document, receipt_of
from penstock.ledger.query.sampling import dropped_sample, kept_sample
from penstock.ledger.query.source_texts import read_texts
from penstock.text import AddId, RepeatedLinesFilter, ScoreFilter, WordCountFilter


def receipt(ledger: Ledger, document: str) -> Receipt:
    [place] = find_document(ledger, document)
    return receipt_of(ledger, place)


def verdicts(given: Receipt) -> list[tuple[str, float | None, str]]:
    return [(line.stage, line.score, line.verdict) for line in given.lines]


def test_a_receipt_lists_every_stage_in_order(tmp_path: Path) -> None:
    found = receipt(run(tmp_path, filters()), "0-5")
    assert verdicts(found) == [
        ("jsonl_reader_stage", None, "read"),
        ("word_count", 10, "kept"),
        ("repeated_lines", 0.5, "dropped"),
    ]
    assert found.dropped_by == "repeated_lines"
    assert found.lines[1].threshold == {"min_words": 2, "max_words": 100000}
    assert found.files == [str(tmp_path / "crawl/part-0.jsonl")]


def test_a_later_filter_of_the_same_scan_reports_would_drop_or_would_keep(tmp_path: Path) -> None:
    scanned = [ScoreFilter(WordCountFilter(min_words=50)), ScoreFilter(RepeatedLinesFilter())]
    ledger = run(tmp_path, scanned)
    assert verdicts(receipt(ledger, "0-5"))[1:] == [
        ("word_count", 10, "dropped"),
        ("repeated_lines", 0.5, "would drop"),
    ]
    assert verdicts(receipt(ledger, "0-4"))[-1] == ("repeated_lines", 1, "would keep")


def test_the_receipt_of_a_kept_document_names_the_output_file(tmp_path: Path) -> None:
    found = receipt(run(tmp_path, filters()), "1-3")
    assert found.kept
    [written] = found.written_to
    assert '"1-3"' in Path(written).read_text()


def test_a_document_is_found_by_file_and_row(tmp_path: Path) -> None:
    ledger = run(tmp_path, filters())
    assert receipt(ledger, "part-1.jsonl:4").id == "1-4"
    assert receipt(ledger, f"{tmp_path}/crawl/part-1.jsonl:4").id == "1-4"


def test_ids_may_be_added_by_a_stage(tmp_path: Path) -> None:
    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=2)), AddId("uid"), *filters()[1:]])
    assert receipt(ledger, "0-4").id == "0-4"
    for path in (tmp_path / "crawl").iterdir():
        path.write_text(path.read_text().replace('"id"', '"name"'))
    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=2)), AddId("uid"), *filters()[1:]])
    [place] = find_document(ledger, "part-0.jsonl:4")
    given = receipt_of(ledger, place).id
    assert given is not None
    assert receipt(ledger, given).place == place


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("inline", [True, False])
def test_rows_are_counted_across_the_parts_of_a_file(tmp_path: Path, inline: bool, compressed: bool) -> None:
    crawl = write_documents(tmp_path / "crawl", files=2, documents=60)
    if compressed:
        for path in list(crawl.iterdir()):
            (crawl / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    ledger = run(tmp_path, filters(), inline=inline, blocksize=2000)
    assert len([name for part in ledger.parts for name in part.blocks]) > 4
    ending = ".jsonl.gz" if compressed else ".jsonl"
    for number in (0, 17, 42, 58):
        found = receipt(ledger, f"part-1{ending}:{number}")
        assert found.id == f"1-{number}"
        # The two compressed files are small enough to be read together, so rows are counted across both.
        assert (found.row, len(found.remarks)) == ((60 + number, 1) if compressed else (number, 0))
        assert read_texts(ledger, [found.place])[0].split() == ["word"] * (number * (2 if number % 3 == 2 else 1))


def test_an_unknown_document_id_raises_an_error_with_similar_ids(tmp_path: Path) -> None:
    ledger = run(tmp_path, filters())
    with pytest.raises(
        InputError, match=r"no document '0-55'.*Similar ids: '0-5'.*Ids look like '.-0'.*part-0.jsonl:0"
    ):
        find_document(ledger, "0-55")


def test_a_folder_without_a_run_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run has written here"):
        find_ledger(str(tmp_path))
    with pytest.raises(InputError, match="there is no such folder"):
        find_ledger(str(tmp_path / "nowhere"))


def test_a_drop_by_a_user_defined_stage_has_no_score_and_later_stages_are_not_asked(tmp_path: Path) -> None:
    found = receipt(run(tmp_path, [PandasFilter(), *filters()]), "0-1")
    assert verdicts(found)[1] == ("pandas_filter", None, "dropped")
    assert verdicts(found)[2][2] == "not asked"


def test_receipts_say_where_documents_cannot_be_followed(tmp_path: Path) -> None:
    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=2)), Splitter(), *filters()[1:]])
    assert "cannot be followed: stage 'splitter' made" in receipt(ledger, "0-4").remarks[0]
    half = receipt_of(ledger, find_document(ledger, "half-0")[0])
    assert "stage 'splitter' made it" in half.remarks[0]
    assert [line.stage for line in half.lines] == ["repeated_lines", "jsonl_writer"] or half.dropped_by
    assert "is in no source file" in read_texts(ledger, [half.place])[0]


def test_the_receipt_of_a_failed_document_leads_to_its_error(tmp_path: Path) -> None:
    ledger = run(tmp_path, [*filters(), Choosy()], inline=False, config={"ignore_failures": True}, max_retries=0)
    found = receipt(ledger, "0-4")
    assert verdicts(found)[-1] == ("choosy", None, "failed")
    failure = failure_of(ledger.run_folder, found)
    assert failure is not None
    assert "not this one" in failure["reason"]


def test_samples_are_reproducible_and_their_texts_can_be_read(tmp_path: Path) -> None:
    write_documents(tmp_path / "crawl", files=3, documents=30)
    ledger = run(tmp_path, filters())
    drawn = dropped_sample(ledger, "repeated_lines", 5)
    assert len(drawn) == 5
    assert drawn == dropped_sample(ledger, "repeated_lines", 5)
    assert len({sample.files[0] for sample in drawn}) > 1
    for text in read_texts(ledger, [sample.place for sample in drawn]):
        first, second = text.split("\n")
        assert first == second
    assert {sample.id for sample in kept_sample(ledger, 1000)} == {
        f"{f}-{n}" for f in range(3) for n in range(3, 30) if n % 3 < 2
    }


def test_near_selects_documents_whose_score_is_close_to_a_kept_one(tmp_path: Path) -> None:
    write_documents(tmp_path / "crawl", documents=30)
    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=20))])
    drawn = dropped_sample(ledger, "word_count", 100, near=3)
    assert [sample.score for sample in drawn] == sorted((sample.score or 0 for sample in drawn), reverse=True)
    assert {sample.score for sample in drawn} == {18, 19}


def test_an_unknown_stage_raises_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no stage 'repeated_line' in this run.*Did you mean 'repeated_lines'"):
        dropped_sample(run(tmp_path, filters()), "repeated_line", 5)


def test_a_deleted_source_file_is_reported_in_place_of_the_text(tmp_path: Path) -> None:
    ledger = run(tmp_path, filters())
    [sample] = dropped_sample(ledger, "repeated_lines", 1)
    Path(sample.files[0]).unlink()
    assert "cannot be read again" in read_texts(ledger, [sample.place])[0]


def test_the_overview_counts_asked_and_dropped_documents_per_stage(tmp_path: Path) -> None:
    seen = overview(run(tmp_path, filters()))
    assert (seen.documents, seen.kept) == (12, 4)
    assert [(line.stage, line.asked, line.dropped) for line in seen.stages] == [
        ("word_count", 12, 4),
        ("repeated_lines", 8, 4),
    ]
