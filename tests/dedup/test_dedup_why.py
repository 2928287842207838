"""`penstock why` after a deduplication: the output file of a kept document, or the document kept in its place."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import StreamingExecutor
from penstock.dedup import FuzzyDeduplicationWorkflow

WORDS = " ".join(f"word{number}" for number in range(400))
TEXTS = {
    "first": WORDS,
    "same": WORDS,
    "near": WORDS.replace("word200 ", "other "),
    "else": "something quite different",
}


@pytest.fixture(scope="module")
def deduplicated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why")
    (folder / "crawl").mkdir()
    lines = [json.dumps({"id": name, "text": text}) for name, text in TEXTS.items()]
    (folder / "crawl/a.jsonl").write_text("\n".join(lines) + "\n")
    FuzzyDeduplicationWorkflow(
        str(folder / "cache"),
        str(folder / "unique"),
        str(folder / "crawl"),
        "jsonl",
        perform_removal=True,
        show_progress=False,
    ).run(StreamingExecutor(show_progress=False))
    return folder / "unique"


def why(*arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", "why", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_why_names_the_output_file_of_a_kept_document(deduplicated: Path) -> None:
    said = " ".join(why(str(deduplicated), "first").split())
    assert said.startswith("first: kept")
    [written] = (deduplicated / "deduplicated").glob("*.jsonl")
    assert written.name in said


@pytest.mark.parametrize(("name", "least", "most"), [("same", 1.0, 1.0), ("near", 0.9, 0.999)])
def test_why_names_the_kept_document_and_similarity_of_a_removed_document(
    deduplicated: Path, name: str, least: float, most: float
) -> None:
    said = json.loads(why(str(deduplicated), name, "--json"))
    assert said["dropped_by"] == "remove_duplicates"
    assert said["duplicate_of"]["id"] == "first"
    assert least <= said["duplicate_of"]["similarity"] <= most
    assert said["lines"][-1]["score"] == pytest.approx(said["duplicate_of"]["similarity"], abs=1e-4)
    shown = " ".join(why(str(deduplicated), name).split())
    assert "It is a duplicate of 'first'" in shown
    assert f"{said['files'][0]}, byte {said['row']}, " in shown
    with Path(said["files"][0]).open("rb") as stream:
        stream.seek(said["row"])
        assert json.loads(stream.readline())["id"] == name


def test_why_reports_a_document_read_in_several_passes_once(deduplicated: Path) -> None:
    assert why(str(deduplicated), "a.jsonl:0").count("kept") == 2, "as a whole, and by the stage that could drop it"
    assert "4 documents, 2 kept" in why(str(deduplicated))
