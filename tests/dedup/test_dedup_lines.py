"""Deduplication of lines and paragraphs, with receipts, and deduplication by URL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corpora import contents, ids, kept_by_removed, quiet, read_documents, removed_rows, write_jsonl, write_parquet
from hypothesis import given
from hypothesis import strategies as st

from penstock import StreamingExecutor
from penstock.dedup import LineDeduplicationWorkflow, UrlDeduplicationWorkflow
from penstock.dedup.passages import passages_of
from penstock.dedup.urls import normalised_url

MENU = "Home | About | Contact | Terms of use"
COOKIES = "We use cookies to make this site better."


def documents() -> list[dict[str, Any]]:
    texts = [f"{MENU}\nPage {n} has something of its own to say.\n{COOKIES}\n" for n in range(6)]
    texts.append("This line comes twice in one document.\nIn between.\nThis line comes twice in one document.")
    texts.append(f"{MENU}\n  {COOKIES}")
    texts.append("Nothing here is anywhere else.\n\n}\n}\n")
    return [{"id": f"{n}", "text": text, "date": "00123"} for n, text in enumerate(texts)]


def lines(folder: Path, output: str = "out", **settings: Any) -> LineDeduplicationWorkflow:
    given = {"input_path": str(folder / "in"), "input_filetype": "jsonl", **settings}
    return LineDeduplicationWorkflow(str(folder / output), show_progress=False, **given)


@pytest.mark.parametrize(("kind", "write"), [("jsonl", write_jsonl), ("parquet", write_parquet)])
def test_common_line_is_kept_only_in_the_first_document(tmp_path: Path, kind: str, write: Any) -> None:
    write(tmp_path / f"in/a.{kind}", documents()[:4])
    write(tmp_path / f"in/b.{kind}", documents()[4:])
    result = lines(tmp_path, input_filetype=kind).run(quiet())
    kept = {document["id"]: document for document in read_documents(tmp_path / "out/deduplicated")}
    assert kept["0"]["text"] == documents()[0]["text"]
    for number in range(1, 6):
        assert kept[str(number)]["text"] == f"Page {number} has something of its own to say.\n"
        assert kept[str(number)]["date"] == "00123"
    assert kept["6"]["text"] == "This line comes twice in one document.\nIn between."
    assert "7" not in kept, "nothing was left of it"
    assert kept["8"] == documents()[8], "lines too short to count stay"
    assert result.get_metadata("num_cut") == 13


def test_receipts_name_the_cut_line_the_reason_and_the_document_that_keeps_it(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", documents())
    lines(tmp_path).run(quiet())
    rows = removed_rows(tmp_path / "out/CutLines")
    many = [row for row in rows if row["reason"] == "in many documents"]
    assert {(row["passage"].strip(), row["documents"], row["kept_id"]) for row in many} == {
        (MENU, 7, 0),
        (COOKIES, 7, 0),
    }
    [repeated] = [row for row in rows if row["reason"] == "repeated in the document"]
    assert repeated["passage"] == "This line comes twice in one document."
    assert repeated["file"] == "in/a.jsonl"


def test_line_limits_can_be_configured(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", documents())
    lines(tmp_path, "many", max_documents=7, within=False).run(quiet())
    assert read_documents(tmp_path / "many/deduplicated") == documents()
    lines(tmp_path, "within", max_documents=7).run(quiet())
    assert [row["passage"] for row in removed_rows(tmp_path / "within/CutLines")] == [
        "This line comes twice in one document."
    ]
    lines(tmp_path, "long", min_characters=39).run(quiet())
    assert {row["passage"].strip() for row in removed_rows(tmp_path / "long/CutLines")} == {COOKIES}
    for wrong in ({"unit": "word"}, {"max_documents": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            lines(tmp_path, **wrong)


def test_paragraphs_are_cut_completely(tmp_path: Path) -> None:
    notice = "All rights reserved.\nSee the terms of use."
    write_jsonl(
        tmp_path / "in/a.jsonl",
        [{"id": n, "text": f"Own text of number {n}.\n\n{notice}\n\n\nAn end, number {n}, that is."} for n in range(3)],
    )
    lines(tmp_path, unit="paragraph", max_documents=2).run(quiet())
    texts = [document["text"] for document in read_documents(tmp_path / "out/deduplicated")]
    assert texts[0] == f"Own text of number 0.\n\n{notice}\n\n\nAn end, number 0, that is."
    assert texts[1] == "Own text of number 1.\n\n\nAn end, number 1, that is."
    assert removed_rows(tmp_path / "out/CutParagraphs")[0]["passage"] == notice


@pytest.mark.parametrize("odd", ['{"id": 8,  "text": "caf\\u00e9"}', '{"id": 8}', '{"id": 8, "text": null}'])
@pytest.mark.parametrize("more", [[], ['{"id": 9, "text": 12}', '{"id": 10, "text": ["a"]}']])
def test_document_without_cuts_is_unchanged(tmp_path: Path, odd: str, more: list[str]) -> None:
    own, notice = "A line of its own, number {}.", "A notice that all of the documents have."
    (tmp_path / "in").mkdir()
    usual = [json.dumps({"id": n, "text": f"{own.format(n)}\n{notice}"}) for n in range(3)]
    (tmp_path / "in/a.jsonl").write_text("\n".join([*usual, odd, *more]) + "\n")
    lines(tmp_path, max_documents=1).run(quiet())
    [written] = (tmp_path / "out/deduplicated").glob("*.jsonl")
    cut = [json.dumps({"id": n, "text": own.format(n)}) for n in (1, 2)]
    assert written.read_text().splitlines() == [usual[0], *cut, odd, *more]


def test_line_result_is_the_same_on_every_executor(tmp_path: Path) -> None:
    for number in range(4):
        write_jsonl(tmp_path / f"in/{number}.jsonl", documents()[number * 2 : number * 2 + 3])
    lines(tmp_path, "one", input_blocksize=200).run(quiet())
    lines(tmp_path, "two", input_blocksize=200, memory_budget="20KB").run(
        StreamingExecutor(show_progress=False, cpus=2)
    )
    patterns = ["deduplicated/*.jsonl", "CutLines/*"]
    assert contents(tmp_path / "one", patterns) == contents(tmp_path / "two", patterns)


@given(st.lists(st.text("ab \n\t", max_size=30), max_size=5), st.sampled_from(["line", "paragraph"]))
def test_split_and_joined_documents_are_unchanged(texts: list[str], unit: str) -> None:
    import numpy as np

    separator = {"line": "\n", "paragraph": "\n\n"}[unit]
    passages = passages_of(pa.chunked_array([texts], pa.string()), unit, 1)
    everything = np.ones(len(passages.texts), dtype=np.bool_)
    assert passages.joined(everything, separator, np.arange(len(texts))).to_pylist() == texts
    first = passages.first_in_document()
    for row, text in enumerate(texts):
        seen: set[str] = set()
        expected = []
        for part in text.split(separator):
            expected.append(part.strip() not in seen)
            seen.add(part.strip())
        assert first[passages.rows == row].tolist() == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.org/a", "https://www.example.org/a/"),
        ("https://example.org/a?b=1&a=2", "https://EXAMPLE.org:443/a?a=2&utm_source=mail&b=1#top"),
        ("https://example.org/caf%C3%A9", "https://example.org/café"),
    ],
)
def test_urls_of_the_same_page_are_equal_after_normalisation(one: str, other: str) -> None:
    assert normalised_url(one) == normalised_url(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/a", "https://example.org/A"),
        ("https://example.org/a?page=1", "https://example.org/a?page=2"),
        ("https://example.org", "https://example.com"),
        ("https://example.org:8080/", "https://example.org/"),
        ("not an address", "another one"),
        ("http://[broken", "http://[broken2"),
    ],
)
def test_urls_of_different_pages_differ_after_normalisation(one: str, other: str) -> None:
    assert normalised_url(one) != normalised_url(other)


def test_one_document_per_url_is_kept_and_all_without_a_url(tmp_path: Path) -> None:
    urls = ["http://example.org/a", "https://www.example.org/a#x", None, "", None, "https://example.org/b"]
    rows = [{"id": str(n), "url": url, "text": f"text {n}", "date": n} for n, url in enumerate(urls)]
    write_jsonl(tmp_path / "in/a.jsonl", rows)
    for output, keep, stays in (("first", "first", "0"), ("newest", "best:date", "1")):
        workflow = UrlDeduplicationWorkflow(
            str(tmp_path / output), str(tmp_path / "in"), "jsonl", keep=keep, show_progress=False
        )
        assert workflow.run(quiet()).get_metadata("num_duplicates") == 1
        assert ids(tmp_path / output / "deduplicated") == sorted([stays, "2", "3", "4", "5"])
    assert kept_by_removed(tmp_path / "newest", "Url") == {"0": ("1", 1.0)}
