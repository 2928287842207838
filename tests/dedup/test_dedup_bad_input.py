"""Damaged, wrong or misplaced input is reported, set aside or rejected, and does not affect other input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import (
    COPIES,
    EDITED,
    FORMATS,
    KEPT_EXACT,
    KEPT_FUZZY,
    ORIGINALS,
    Write,
    contents,
    exact,
    fuzzy,
    ids,
    kept_by_removed,
    quiet,
    read_documents,
    removed_rows,
    write_corpus,
    write_jsonl,
    write_parquet,
)

from penstock import StreamingExecutor
from penstock.errors import InputError, PenstockError
from penstock.ledger.query.ledger import find_ledger
from penstock.ledger.query.receipts import find_document, receipt_of


def test_unreadable_line_is_set_aside_and_reported_once(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    with (tmp_path / "in/a/part.jsonl").open("a") as file:
        file.write("{broken\n")
    fuzzy(tmp_path).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY
    letters = (tmp_path / "out/deduplicated/_penstock/dead_letters.jsonl").read_text().splitlines()
    assert [json.loads(letter)["position"] for letter in letters] == [11]


def test_non_text_value_does_not_affect_texts_of_the_same_batch(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {"id": "n1", "text": 5},
        {"id": "n2", "text": ["a", "list"]},
        {"id": "n3", "text": 5},
        {"id": "n4"},
    ]
    write_jsonl(tmp_path / "in/a.jsonl", [*ORIGINALS, *odd])
    write_jsonl(tmp_path / "in/b.jsonl", [*COPIES, *EDITED, {"id": "n5", "text": ""}])
    tables = []
    for output, blocksize in (("alone", 100), ("one", "1KB"), ("together", "1MB")):
        fuzzy(tmp_path, output, input_blocksize=blocksize).run(quiet())
        tables.append(contents(tmp_path / output, ["*DuplicateIds/*"]))
        assert ids(tmp_path / output / "deduplicated") == sorted([*KEPT_FUZZY, "n1", "n2", "n4"])
    assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("removal", [True, False])
def test_output_inside_the_input_is_rejected_before_anything_is_written(tmp_path: Path, removal: bool) -> None:
    write_corpus(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"one is inside the other\. Give the output a folder of its own"):
        exact(tmp_path, "in/unique", perform_removal=removal).run(quiet())
    assert sorted(tmp_path.rglob("*")) == before


@FORMATS
def test_missing_text_column_is_reported_before_anything_is_written(tmp_path: Path, kind: str, write: Write) -> None:
    write_corpus(tmp_path, kind, write)
    with pytest.raises(InputError, match=r"column 'txt' is missing; .* Set text_field='text' if that is the one"):
        fuzzy(tmp_path, input_filetype=kind, text_field="txt").run(quiet())
    assert not (tmp_path / "out").exists()


def test_file_that_is_not_gzip_does_not_affect_other_files(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    (tmp_path / "in/a/0.jsonl.gz").write_bytes(bytes(range(256)))
    with pytest.raises(PenstockError, match=r"^1 input item could not be processed[^$]*0\.jsonl\.gz: cannot be read"):
        exact(tmp_path).run(StreamingExecutor(show_progress=False, cpus=2))
    assert ids(tmp_path / "out/deduplicated") == KEPT_EXACT


def test_column_without_texts_is_reported(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/a.parquet", [{"text": ["a", "list"]}])
    with pytest.raises(InputError, match=r"column 'text' holds list.*, not text"):
        exact(tmp_path, input_filetype="parquet").run(quiet())


@pytest.mark.parametrize("workflow", [exact, fuzzy])
def test_damaged_file_is_reported_and_other_files_are_processed(tmp_path: Path, workflow: Callable[..., Any]) -> None:
    write_corpus(tmp_path, "parquet", write_parquet)
    whole = (tmp_path / "in/a/part.parquet").read_bytes()
    (tmp_path / "in/a/broken.parquet").write_bytes(whole[:-100])
    with pytest.raises(PenstockError, match=r"broken\.parquet: not a complete Parquet file"):
        workflow(tmp_path, input_filetype="parquet").run(StreamingExecutor(show_progress=False, cpus=2))
    assert len(read_documents(tmp_path / "out/deduplicated")) == len(KEPT_EXACT if workflow is exact else KEPT_FUZZY)


@pytest.mark.parametrize("workflow", [exact, fuzzy])
def test_damaged_file_does_not_change_ids_of_files_in_the_same_task(
    tmp_path: Path, workflow: Callable[..., Any]
) -> None:
    write_corpus(tmp_path, "parquet", write_parquet)
    whole = (tmp_path / "in/a/part.parquet").read_bytes()
    (tmp_path / "in/a/broken.parquet").write_bytes(whole[:-100])
    tables = []
    for output, blocksize in (("alone", None), ("together", "64MB")):
        with pytest.raises(PenstockError, match=r"^1 input item could not be processed"):
            workflow(tmp_path, output, input_filetype="parquet", input_blocksize=blocksize).run(
                StreamingExecutor(show_progress=False, cpus=2)
            )
        [table] = (tmp_path / output).glob("*DuplicateIds")
        tables.append(removed_rows(table))
        assert {row["file"] for row in tables[-1]} <= {"in/b/part.parquet", "in/b/more.parquet"}
    assert tables[0] == tables[1]
    ledger = find_ledger(str(tmp_path / "together/deduplicated"))
    [place] = find_document(ledger, "c3")
    receipt = receipt_of(ledger, place)
    assert receipt.duplicate_of is not None
    assert receipt.duplicate_of.id == "o3"
    assert receipt.files[0].endswith("in/b/part.parquet")


@FORMATS
def test_file_without_text_column_does_not_affect_files_in_the_same_task(
    tmp_path: Path, kind: str, write: Write
) -> None:
    write_corpus(tmp_path, kind, write)
    write(tmp_path / f"in/b/other.{kind}", [{"id": "x", "body": "a text under another name"}])
    with pytest.raises(PenstockError, match=r"^1 input item could not be processed[^$]*'text' is missing"):
        exact(tmp_path, input_filetype=kind).run(StreamingExecutor(show_progress=False, cpus=2))
    assert sorted(kept_by_removed(tmp_path / "out", "Exact")) == [f"c{n}" for n in range(5)]
