"""``why``, ``whatif`` and ``preview`` as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SENTENCES = (
    "The mill at the river has been there for as long as anybody can remember.",
    "In spring, when snow melts in the mountains, its wheel turns day and night, and farmers bring last year's rye.",
    "My grandmother used to tell us children that a water spirit lived below the weir, so we never went near it.",
    "Today a small museum keeps those old stones, and visitors may grind a handful of wheat with their own hands.",
)


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl and what the default recipe made of it."""
    root = tmp_path_factory.mktemp("receipts")
    (root / "crawl").mkdir()
    for file in range(2):
        documents = [{"id": f"{file}-{n}", "text": " ".join(SENTENCES[: 1 + n % 4])} for n in range(60)]
        lines = [json.dumps(document) for document in documents]
        (root / f"crawl/part-{file}.jsonl").write_text("\n".join([*lines, "{broken"]) + "\n")
    done = penstock(root, "curate", "crawl", "clean")
    assert done.returncode == 0, done.stderr
    assert "Why a document was kept or dropped: penstock why clean DOC_ID" in done.stderr
    return root


def test_why_shows_score_threshold_and_verdict_of_a_document(folder: Path) -> None:
    done = penstock(folder, "why", "clean", "0-1")
    assert done.returncode == 0, done.stderr
    assert "0-1: dropped by word_count" in done.stdout
    assert "crawl/part-0.jsonl, row 1" in done.stdout
    assert "min_words=50" in done.stdout
    assert "The mill at the river" in done.stdout


def test_why_as_json_names_the_file_it_was_written_to(folder: Path) -> None:
    receipt = json.loads(penstock(folder, "why", "clean/_penstock", "part-1.jsonl:11", "--json").stdout)
    assert (receipt["id"], receipt["kept"]) == ("1-11", True)
    [written] = receipt["written_to"]
    assert '"1-11"' in (folder / written).read_text()
    assert receipt["text"].startswith("The mill")


def test_why_explains_a_line_that_could_not_be_read(folder: Path) -> None:
    done = penstock(folder, "why", "clean", "part-0.jsonl:61")
    assert done.returncode == 0, done.stderr
    assert "was set aside by 'jsonl_reader_stage': not JSON" in done.stdout


def test_why_shows_what_a_stage_dropped(folder: Path) -> None:
    done = penstock(folder, "why", "clean", "--dropped-by", "word_count", "--sample", "3", "--json")
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(samples) == 3
    assert all(sample["score"] < 50 and "text" in sample for sample in samples)


def test_why_without_a_document_prints_counts(folder: Path) -> None:
    assert "120 documents" in penstock(folder, "why", "clean").stdout


def test_whatif_counts_and_shows_documents_whose_verdict_would_change(folder: Path) -> None:
    done = penstock(folder, "whatif", "clean", "word_count.min_words=100")
    assert done.returncode == 0, done.stderr
    assert "word_count.min_words: 50 → 100" in done.stdout
    assert "Would be dropped, for example:" in done.stdout
    outcome = json.loads(penstock(folder, "whatif", "clean", "word_count.min_words=100", "--json").stdout)
    assert outcome["total"]["documents"] == 120
    assert outcome["total"]["would_keep"] < outcome["total"]["kept"]


def test_preview_predicts_the_result_of_the_run_and_writes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    preview = json.loads(penstock(folder, "preview", "crawl", "--json").stdout)
    assert sorted(folder.rglob("*")) == before
    summary = json.loads((folder / "clean/_penstock/summary.json").read_text())
    dropped = {stage["stage"]: stage["dropped"] for stage in summary["stages"]}
    assert preview["documents"] == 120
    assert {stage["stage"]: stage["dropped"] for stage in preview["stages"] if stage["dropped"]} == {
        stage: count for stage, count in dropped.items() if count
    }
    assert any("2 records" in sentence for sentence in preview["suspicious"])


def test_preview_warns_about_a_stage_that_drops_everything(folder: Path) -> None:
    done = penstock(folder, "preview", "crawl", "stages.1.filter_obj.min_words=99999")
    assert "Warning: 'word_count' drops every document that reaches it." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["why", "nowhere", "x"], "nowhere: there is no such folder"),
        (["why", "crawl", "x"], "no run has written here"),
        (["why", "clean", "0-99x"], "no document '0-99x'"),
        (["why", "clean", "0-1", "--kept"], "exclude each other"),
        (["why", "clean", "--near", "1"], "--near needs --dropped-by"),
        (["why", "clean", "--dropped-by", "wordcount"], "Did you mean 'word_count'?"),
        (["whatif", "clean", "word_count.min_word=1"], "Did you mean 'min_words'?"),
        (["preview", "nowhere"], "nowhere: there is no such file or folder."),
        (["preview", "crawl", "--text-field", "body"], "column 'body' is missing"),
    ],
)
def test_errors_are_one_paragraph_without_traceback(folder: Path, arguments: list[str], expected: str) -> None:
    done = penstock(folder, *arguments)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 2)
