"""``penstock dedup`` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SENTENCE = "The mill at the river has been there for as long as anybody can remember and turns with the water. "


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="surrogateescape", check=False)


def documents() -> list[dict[str, object]]:
    pages = [" ".join(f"{SENTENCE}{number}-{line}." for line in range(12)) for number in range(4)]
    texts = [*pages, pages[0], pages[1] + " And so on."]
    return [{"id": str(number), "text": text, "score": number} for number, text in enumerate(texts)]


def write_crawl(folder: Path) -> None:
    (folder / "crawl").mkdir()
    (folder / "crawl/a.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents()))


def kept(folder: Path) -> list[str]:
    lines = [line for path in folder.glob("deduplicated/*.jsonl") for line in path.read_text().splitlines()]
    return sorted(str(json.loads(line)["id"]) for line in lines)


def test_fuzzy_prints_its_estimate_first_and_a_summary_at_the_end(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, "dedup", "fuzzy", "crawl", "unique", "--threshold", "0.9", "--memory-budget", "1GB")
    assert done.returncode == 0, done.stderr
    assert kept(tmp_path / "unique") == ["0", "1", "2", "3"]
    assert "memory_budget 1.0 GB" in done.stderr
    assert "a pair is compared with a probability of" in done.stderr
    assert "Found 2 duplicates in 6 documents (33.3%): 1 with the same text, 1 similar." in done.stdout
    assert "Kept 4 documents: unique/deduplicated" in done.stdout
    [row] = [row for row in pq.read_table(tmp_path / "unique/FuzzyDuplicateIds").to_pylist() if row["similarity"] < 1]
    assert row["similarity"] > 0.9


def test_a_folder_with_two_formats_is_refused_and_metadata_files_are_skipped(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    pq.write_table(pa.Table.from_pylist(documents()), tmp_path / "crawl/b.parquet")
    refused = penstock(tmp_path, "dedup", "exact", "crawl", "unique")
    assert refused.returncode != 0
    assert "contains 1 JSONL file and 1 Parquet file; one run reads one format" in refused.stderr
    assert "'crawl/**/*.jsonl'" in refused.stderr
    assert penstock(tmp_path, "dedup", "exact", "crawl/**/*.jsonl", "unique").returncode == 0
    assert kept(tmp_path / "unique") == ["0", "1", "2", "3", "5"]
    (tmp_path / "crawl/a.jsonl").rename(tmp_path / "crawl/about.json")
    done = penstock(tmp_path, "dedup", "exact", "crawl", "other")
    assert done.returncode == 0, done.stderr
    assert "crawl: Not read: 1, other ending .json (crawl/about.json)." in done.stderr
    assert len(list((tmp_path / "other/deduplicated").glob("*.parquet"))) == 1


def test_file_names_may_be_invalid_utf8_or_look_like_patterns(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    lines = (tmp_path / "crawl/a.jsonl").read_text()
    (tmp_path / "crawl/a.jsonl").rename(tmp_path / "crawl/a[1]#.jsonl")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/crawl/caf\xe9.jsonl")).write_text(lines.replace('"id": "', '"id": "x'))
    for kind in ("exact", "fuzzy", "lines"):
        done = penstock(tmp_path, "dedup", kind, "crawl", kind, "--blocksize", "1KB")
        assert done.returncode == 0, done.stderr
    assert kept(tmp_path / "exact") == ["0", "1", "2", "3", "5"]
    said = penstock(tmp_path, "why", "exact", "x2", "--chars", "0")
    assert "It is a duplicate of '2' in crawl/a[1]#.jsonl" in said.stdout, said.stderr


def test_exact_reads_parquet_and_keeps_the_best(tmp_path: Path) -> None:
    (tmp_path / "crawl").mkdir()
    pq.write_table(pa.Table.from_pylist(documents()), tmp_path / "crawl/a.parquet")
    done = penstock(tmp_path, "dedup", "exact", "crawl", "unique", "--keep", "best:score")
    assert done.returncode == 0, done.stderr
    assert "Found 1 duplicate in 6 documents (16.7%)." in done.stdout
    [written] = (tmp_path / "unique/deduplicated").glob("*.parquet")
    assert pq.read_table(written)["id"].to_pylist() == ["1", "2", "3", "4", "5"]


def test_ids_only_removes_nothing(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, "dedup", "exact", "crawl", "found", "--ids-only")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "found/deduplicated").exists()
    assert pq.read_table(tmp_path / "found/ExactDuplicateIds").num_rows == 1


def test_a_recipe_can_run_a_workflow(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, "run", "fuzzy-dedup", "input_path=crawl", "output_path=unique")
    assert done.returncode == 0, done.stderr
    assert kept(tmp_path / "unique") == ["0", "1", "2", "3"]
    refused = penstock(tmp_path, "plan", "fuzzy-dedup", "input_path=crawl", "output_path=unique")
    assert refused.returncode == 2
    assert "describes a workflow (FuzzyDeduplicationWorkflow)" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["exact", "nowhere", "out"], 2, "nowhere: there is no such file or folder."),
        (["fuzzy", "crawl", "out", "--threshold", "80"], 2, "similarity_threshold=80.0; it is a share"),
        (["fuzzy", "crawl", "out", "--keep", "best:rank"], 1, "'rank' is missing"),
        (["fuzzy", "crawl", "out", "--text-field", "body"], 1, "column 'body' is missing"),
        (["exact", "crawl", "out", "--memory-budget", "much"], 2, "much"),
    ],
)
def test_bad_input_is_one_paragraph_without_a_traceback(
    tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, "dedup", *arguments)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code


def test_line_and_url_deduplication(tmp_path: Path) -> None:
    (tmp_path / "crawl").mkdir()
    rows = [{"id": str(n), "url": f"https://example.org/{n // 2}", "text": f"{SENTENCE}\n{n}"} for n in range(8)]
    (tmp_path / "crawl/a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = penstock(tmp_path, "dedup", "urls", "crawl", "pages")
    assert done.returncode == 0, done.stderr
    assert "Found 4 duplicates in 8 documents (50.0%)." in done.stdout
    assert kept(tmp_path / "pages") == ["0", "2", "4", "6"]
    done = penstock(tmp_path, "dedup", "lines", "crawl", "clean")
    assert done.returncode == 0, done.stderr
    assert "Cut 7 lines out of the documents." in done.stdout
    assert "Table of what was cut and why: clean/CutLines" in done.stdout


def test_a_second_crawl_is_compared_with_the_index_of_the_first(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    first = penstock(tmp_path, "dedup", "fuzzy", "crawl", "one", "--index", "index")
    assert first.returncode == 0, first.stderr
    (tmp_path / "crawl/a.jsonl").rename(tmp_path / "crawl/b.jsonl")
    second = penstock(tmp_path, "dedup", "fuzzy", "crawl", "two", "--index", "index", "--verify", "signature")
    assert "Found 6 duplicates in 6 documents (100.0%)" in second.stdout, second.stderr


@pytest.mark.parametrize("kind", ["exact", "fuzzy", "lines", "urls"])
def test_help_has_examples(tmp_path: Path, kind: str) -> None:
    done = penstock(tmp_path, "dedup", kind, "--help")
    assert done.returncode == 0
    assert f"  penstock dedup {kind} crawl/" in done.stdout
