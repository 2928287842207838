"""Incremental deduplication with an index: documents kept earlier are not read again, and copies of them are removed.

Guarantees: documents in the index are never removed, and old files are not opened. For exact duplicates, incremental
runs keep the same documents as one run over all crawls. For near-duplicates too, if the estimate from signatures (the
index has no texts) and the exact similarity are on the same side of the threshold.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from corpora import contents, edited, essay, ids, quiet, removed_rows, write_jsonl

from penstock import StreamingExecutor
from penstock.dedup import ExactDeduplicationWorkflow, FuzzyDeduplicationWorkflow
from penstock.dedup.document_ids import INDEXED
from penstock.dedup.index import Index
from penstock.dedup.work_folder import digest_of
from penstock.errors import InputError, PenstockError

# Each crawl has new pages, exact copies of pages of the crawl before, and edited copies of pages of the first crawl.
CRAWLS = {
    number: [
        *({"id": f"{number}-new{n}", "text": essay(100 * number + n)} for n in range(6)),
        *({"id": f"{number}-same{n}", "text": essay(100 * (number - 1) + n)} for n in range(3)),
        *({"id": f"{number}-edit{n}", "text": edited(essay(100 + n), number)} for n in range(3, 5)),
        {"id": f"{number}-short", "text": "too short"},
    ]
    for number in (1, 2, 3)
}


def write_crawl(folder: Path, number: int) -> Path:
    write_jsonl(folder / f"crawl{number}/a.jsonl", CRAWLS[number][:7])
    write_jsonl(folder / f"crawl{number}/b.jsonl", CRAWLS[number][7:])
    return folder / f"crawl{number}"


def fuzzy(folder: Path, source: Any, output: str, **settings: Any) -> FuzzyDeduplicationWorkflow:
    return FuzzyDeduplicationWorkflow(
        str(folder / "cache"), str(folder / output), source, "jsonl",
        perform_removal=True, show_progress=False, **settings,
    )  # fmt: skip


def exact(folder: Path, source: Any, output: str, **settings: Any) -> ExactDeduplicationWorkflow:
    return ExactDeduplicationWorkflow(
        str(folder / output), source, "jsonl", perform_removal=True, show_progress=False, **settings
    )


@pytest.mark.parametrize("make", [fuzzy, exact])
@pytest.mark.parametrize("verify", ["shingles", "signature"])
def test_incremental_runs_keep_the_same_documents_as_one_run_over_all_crawls(
    tmp_path: Path, make: Any, verify: str
) -> None:
    settings = {"verify": verify} if make is fuzzy else {}
    paths = [str(write_crawl(tmp_path, number)) for number in (1, 2, 3)]
    make(tmp_path, paths, "all", **settings).run(quiet())
    kept: list[str] = []
    for number, path in enumerate(paths):
        # Every run has another number of partitions, and the old crawl is deleted.
        budget = ("1GB", "60KB", "90KB")[number]
        make(tmp_path, path, f"out{number}", index_path=str(tmp_path / "index"), memory_budget=budget, **settings).run(
            quiet()
        )
        kept += ids(tmp_path / f"out{number}/deduplicated")
        shutil.rmtree(path)
    assert sorted(kept) == ids(tmp_path / "all/deduplicated")
    assert len(kept) < sum(map(len, CRAWLS.values()))


def test_duplicate_of_indexed_document_names_it_with_estimated_similarity(tmp_path: Path) -> None:
    for number in (1, 2):
        fuzzy(tmp_path, str(write_crawl(tmp_path, number)), f"out{number}", index_path=str(tmp_path / "index")).run(
            quiet()
        )
    rows = removed_rows(tmp_path / "out2/FuzzyDuplicateIds")
    assert len(rows) == 6
    assert all(row["kept_id"] < 0 for row in rows)
    assert {row["kept_file"] for row in rows} == {"crawl1/a.jsonl", "crawl1/b.jsonl"}
    same = [row for row in rows if row["similarity"] == 1.0]
    assert [row["estimated"] for row in same] == [False] * 4
    edits = [row for row in rows if row["similarity"] < 1]
    assert [row["estimated"] for row in edits] == [True] * 2
    assert all(row["similarity"] >= 0.8 for row in edits)
    first = json.loads((tmp_path / "out1/fuzzy_id_generator.json").read_text())["files"][0]["path"]
    kept = {json.loads(Path(first).read_bytes()[row["kept_id"] - INDEXED :].split(b"\n")[0])["id"] for row in edits}
    assert kept == {"1-new3", "1-new4"}


def test_adding_the_same_crawl_again_changes_nothing(tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    for number in (1, 2):
        fuzzy(tmp_path, str(write_crawl(tmp_path, number)), f"out{number}", index_path=index).run(quiet())
    before = contents(tmp_path / "index", ["**/*"])
    fuzzy(tmp_path, str(tmp_path / "crawl2"), "again", index_path=index).run(StreamingExecutor(show_progress=False))
    assert contents(tmp_path / "again") == contents(tmp_path / "out2")
    assert contents(tmp_path / "index", ["**/*"]) == before


@pytest.mark.parametrize("make", [fuzzy, exact])
def test_crash_leaves_the_index_unchanged_and_the_run_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    index = str(tmp_path / "index")
    make(tmp_path, str(write_crawl(tmp_path, 1)), "out1", index_path=index).run(quiet())
    before = (tmp_path / "index/index.json").read_bytes()
    make(tmp_path, str(write_crawl(tmp_path, 2)), "whole", index_path=index).run(quiet())
    after = (tmp_path / "index/index.json").read_bytes()
    (tmp_path / "index/index.json").write_bytes(before)
    with monkeypatch.context() as patch:
        patch.setattr(Index, "publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            make(tmp_path, str(tmp_path / "crawl2"), "out2", index_path=index).run(quiet())
    assert (tmp_path / "index/index.json").read_bytes() == before
    make(tmp_path, str(tmp_path / "crawl2"), "out2", index_path=index).run(quiet())
    assert (tmp_path / "index/index.json").read_bytes() == after
    assert contents(tmp_path / "out2") == contents(tmp_path / "whole")


@pytest.mark.parametrize("make", [fuzzy, exact])
def test_crawl_with_damaged_file_is_added_only_after_repair(tmp_path: Path, make: Any) -> None:
    index, source = str(tmp_path / "index"), str(write_crawl(tmp_path, 1))
    make(tmp_path, source, "whole", index_path=str(tmp_path / "other")).run(quiet())
    whole = (tmp_path / "crawl1/b.jsonl").read_bytes()
    (tmp_path / "crawl1/b.jsonl").write_bytes(b"?" * len(whole))
    with pytest.raises(PenstockError, match=r"b\.jsonl: not a JSON Lines file"):
        make(tmp_path, source, "out", index_path=index).run(StreamingExecutor(show_progress=False, cpus=2))
    assert not (tmp_path / "index/index.json").exists()
    (tmp_path / "crawl1/b.jsonl").write_bytes(whole)
    make(tmp_path, source, "out", index_path=index).run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert (tmp_path / "index/index.json").read_bytes() == (tmp_path / "other/index.json").read_bytes()


def test_adding_an_older_crawl_again_keeps_later_crawls(tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    for number in (1, 2):
        exact(tmp_path, str(write_crawl(tmp_path, number)), f"out{number}", index_path=index).run(quiet())
    before = contents(tmp_path / "index", ["**/*"])
    exact(tmp_path, str(tmp_path / "crawl1"), "again", index_path=index).run(quiet())
    assert contents(tmp_path / "again") == contents(tmp_path / "out1")
    assert contents(tmp_path / "index", ["**/*"]) == before


def test_index_made_with_other_settings_is_rejected(tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    fuzzy(tmp_path, str(write_crawl(tmp_path, 1)), "out1", index_path=index).run(quiet())
    with pytest.raises(InputError, match=r"this index was made with seed=42\. Give the same, or begin a new index"):
        fuzzy(tmp_path, str(write_crawl(tmp_path, 2)), "out2", index_path=index, seed=7).run(quiet())
    with pytest.raises(InputError, match="made with kind='fuzzy'"):
        exact(tmp_path, str(tmp_path / "crawl2"), "out2", index_path=index).run(quiet())


def test_concurrent_runs_do_not_lose_additions_to_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = str(tmp_path / "index")
    write_crawl(tmp_path, 1)
    write_crawl(tmp_path, 2)
    publish = Index.publish

    def late(self: Index, *arguments: Any) -> None:
        monkeypatch.setattr(Index, "publish", publish)
        exact(tmp_path, str(tmp_path / "crawl2"), "other", index_path=index).run(quiet())
        publish(self, *arguments)

    monkeypatch.setattr(Index, "publish", late)
    with pytest.raises(PenstockError, match="another run has added to this index meanwhile"):
        exact(tmp_path, str(tmp_path / "crawl1"), "out", index_path=index).run(quiet())
    exact(tmp_path, str(tmp_path / "crawl1"), "out", index_path=index).run(quiet())
    generations = json.loads((tmp_path / "index/index.json").read_text())["generations"]
    assert [generation["files"][0] for generation in generations] == ["crawl2/a.jsonl", "crawl1/a.jsonl"]


def test_signature_verification_finds_the_same_duplicates_and_marks_estimates(tmp_path: Path) -> None:
    source = str(write_crawl(tmp_path, 1))
    fuzzy(tmp_path, source, "counted").run(quiet())
    fuzzy(tmp_path, source, "estimated", verify="signature").run(quiet())
    assert ids(tmp_path / "estimated/deduplicated") == ids(tmp_path / "counted/deduplicated")
    counted, estimated = (removed_rows(tmp_path / name / "FuzzyDuplicateIds") for name in ("counted", "estimated"))
    assert [row["kept_id"] for row in counted] == [row["kept_id"] for row in estimated]
    assert all(row["estimated"] for row in estimated)
    for one, other in zip(counted, estimated, strict=True):
        assert abs(one["similarity"] - other["similarity"]) < 0.12, "four standard errors of 260 hashes"
    with pytest.raises(ValueError, match="verify='no'; it is one of shingles, signature"):
        fuzzy(tmp_path, source, "out", verify="no")


def test_crawl_added_under_its_former_generation_name_is_not_added_again(tmp_path: Path) -> None:
    crawl, index = write_crawl(tmp_path, 1), tmp_path / "index"
    exact(tmp_path, str(crawl), "first", index_path=str(index)).run(quiet())
    contents_of_index = json.loads((index / "index.json").read_text())
    files = [(f"crawl1/{path.name}", path.stat().st_size) for path in sorted(crawl.iterdir())]
    former = digest_of({"files": files, **contents_of_index["settings"]})  # derived from names and sizes only
    [generation] = contents_of_index["generations"]
    (index / generation["name"]).rename(index / former)
    generation["name"] = former
    (index / "index.json").write_text(json.dumps(contents_of_index))
    exact(tmp_path, str(crawl), "again", index_path=str(index)).run(quiet())
    assert contents(tmp_path / "again") == contents(tmp_path / "first")
    assert [part["name"] for part in json.loads((index / "index.json").read_text())["generations"]] == [former]
