"""The command line as a user types it: real processes, real files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (
    "The mill at the river has been there for as long as anybody can remember. In spring, when snow melts in the "
    "mountains, its wheel turns day and night, and farmers bring what is left of last year's rye. My grandmother used "
    "to tell us children that a water spirit lived below the weir, so we never went near it after dark. Today "
    "a small museum keeps those old stones, and visitors may grind a handful of wheat with their own hands."
)


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def write_crawl(folder: Path) -> Path:
    crawl = folder / "crawl"
    crawl.mkdir()
    good = [{"id": str(i), "text": f"{i}. {TEXT}", "date": "2020-01-01"} for i in range(5)]
    lines = [json.dumps(document) for document in [*good, {"id": "short", "text": TEXT.partition(" My")[0]}]]
    (crawl / "a.jsonl").write_text("\n".join([*lines, "{broken"]) + "\n")
    return crawl


def read_output(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_curate_keeps_good_documents_and_reports_dropped_ones(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, "curate", "crawl", "clean")
    assert done.returncode == 0, done.stderr
    assert "Read 6 documents, kept 5 (83.3%), dropped 1: 1 by word_count." in done.stderr
    assert [document["id"] for document in read_output(tmp_path / "clean")] == ["0", "1", "2", "3", "4"]
    [letter] = (tmp_path / "clean/_penstock/dead_letters.jsonl").read_text().splitlines()
    assert json.loads(letter)["position"] == 7
    summary = json.loads((tmp_path / "clean/_penstock/summary.json").read_text())
    assert {stage["stage"]: stage["dropped"] for stage in summary["stages"]}["word_count"] == 1


def test_curate_reads_parquet_and_writes_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "crawl").mkdir()
    pq.write_table(pa.table({"body": [TEXT, "short"]}), tmp_path / "crawl/a.parquet")
    done = penstock(tmp_path, "curate", "crawl", "clean", "--text-field", "body")
    assert done.returncode == 0, done.stderr
    [written] = (tmp_path / "clean").glob("*.parquet")
    assert pq.read_table(written)["body"].to_pylist() == [TEXT]


def test_an_existing_output_is_refused_and_replaced_with_overwrite(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    assert penstock(tmp_path, "curate", "crawl", "clean").returncode == 0
    refused = penstock(tmp_path, "curate", "crawl", "clean")
    assert refused.returncode == 2
    assert "already contains 1 file," in refused.stderr
    replaced = penstock(tmp_path, "curate", "crawl", "clean", "--overwrite", "stages.1.filter_obj.min_words=1")
    assert replaced.returncode == 0, replaced.stderr
    assert len(read_output(tmp_path / "clean")) == 6


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["curate", "nowhere", "clean"], 2, "nowhere: there is no such file or folder."),
        (
            ["curate", "crawl", "clean", "--text-field", "body"],
            1,
            "stage 'jsonl_reader_stage': column 'body' is missing; the batch has 'id', 'text', 'date'. Set text_field='text'",
        ),
        (["curate", "crawl", "crawl", "--overwrite"], 2, "give the output a folder of its own"),
        (["curate", "crawl", "clean", "--recipe", "english-wep"], 2, "Did you mean 'english-web'?"),
        (["run", "no-such.yaml"], 2, "no-such.yaml: there is no such file"),
        (["plan", "english-web"], 2, "needs input_path, output_path"),
        (["curaet", "crawl", "clean"], 2, "Did you mean 'curate'?"),
        (["curate", "crawl"], 2, "Missing argument 'OUTPUT'"),
    ],
)
def test_bad_input_is_one_paragraph_without_a_traceback(
    tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, *arguments)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code
    assert not list(tmp_path.glob("clean/*.jsonl"))
    assert len((tmp_path / "crawl/a.jsonl").read_text().splitlines()) == 7


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    assert "Traceback" in penstock(tmp_path, "plan", "english-web", "--debug").stderr


def test_plan_shows_pools_and_reasons_without_running(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    done = penstock(tmp_path, "plan", "english-web", "input_path=crawl", "output_path=clean")
    assert done.returncode == 0, done.stderr
    assert "Pool 2: jsonl_reader_stage … jsonl_writer" in done.stdout
    assert "apart because  'file_partitioning' is the source" in done.stdout
    assert "in one pass" in done.stdout
    assert not (tmp_path / "clean").exists()


def test_doctor_reports_the_machine_and_missing_extras(tmp_path: Path) -> None:
    done = penstock(tmp_path, "doctor")
    assert done.returncode == 0, done.stderr
    for label in ("cores", "memory", "shared memory", "GPUs", "[ray]", "Ray"):
        assert label in done.stdout


def test_doctor_reports_an_unreachable_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert "cluster at 127.0.0.1:1 is not reachable" in penstock(tmp_path, "doctor").stdout


def test_the_demo_drops_planted_bad_documents(tmp_path: Path) -> None:
    done = penstock(tmp_path, "demo")
    assert done.returncode == 0, done.stderr
    kinds = {document["kind"] for document in read_output(tmp_path / "penstock-demo/output")}
    assert kinds == {"docstring", "planted duplicate", "licence"}
    again = penstock(tmp_path, "demo")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    "command",
    ["curate", "demo", "doctor", "plan", "preview", "reproduce", "run", "script", "simulate", "whatif", "why"],
)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: str) -> None:
    done = penstock(tmp_path, command, "--help")
    assert done.returncode == 0
    assert f"  penstock {command}" in done.stdout


def test_script_runs_a_file_through_the_real_command(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("from nemo_curator.pipeline import Pipeline\nprint(Pipeline('mine').name)\n")
    assert penstock(tmp_path, "script", "job.py").stdout == "mine\n"


def test_a_missing_name_in_a_script_is_explained(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("from nemo_curator.pipeline import Pipelin\n")
    done = penstock(tmp_path, "script", "job.py")
    assert "Nearest: Pipeline (penstock)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_stopped_run_prints_how_to_resume_and_resumes(tmp_path: Path) -> None:
    """Send Ctrl-C in the third of five files, from inside the run, so that the moment is deterministic."""
    (tmp_path / "stop_once.py").write_text(
        "import os, signal\n"
        "from penstock import DocumentBatch, ProcessingStage\n"
        "class StopOnce(ProcessingStage[DocumentBatch, DocumentBatch]):\n"
        "    def process(self, task: DocumentBatch) -> DocumentBatch:\n"
        "        if 'doc 3' in str(task.to_pyarrow()) and not os.path.exists('stopped'):\n"
        "            open('stopped', 'w').close()\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "        return task\n"
    )
    (tmp_path / "job.yaml").write_text(
        "executor: {_target_: InlineExecutor}\n"
        "stages:\n"
        "  - {_target_: JsonlReader, file_paths: crawl}\n"
        "  - {_target_: stop_once.StopOnce}\n"
        "  - {_target_: JsonlWriter, path: clean}\n"
    )
    (tmp_path / "crawl").mkdir()
    for number in range(1, 6):
        (tmp_path / f"crawl/{number}.jsonl").write_text(json.dumps({"text": f"doc {number}"}) + "\n")
    stopped = penstock(tmp_path, "run", "job.yaml", "--checkpoint", "state")
    assert stopped.returncode == 130
    assert "2 source tasks are complete. Run it with checkpoint state to resume." in stopped.stderr
    resumed = penstock(tmp_path, "run", "job.yaml", "--checkpoint", "state")
    assert resumed.returncode == 0, resumed.stderr
    assert "2 source tasks had been completed" in resumed.stderr
    assert sorted(str(document["text"]) for document in read_output(tmp_path / "clean")) == [
        f"doc {number}" for number in range(1, 6)
    ]


def test_the_reproduce_command_in_an_error_reproduces_the_failure(tmp_path: Path) -> None:
    write_crawl(tmp_path)
    (tmp_path / "counting.py").write_text(
        "from penstock import DocumentBatch, ProcessingStage\n"
        "class Counting(ProcessingStage[DocumentBatch, DocumentBatch]):\n"
        "    name = 'counting'\n"
        "    def process(self, task: DocumentBatch) -> DocumentBatch:\n"
        "        if '3' in task.to_pyarrow()['id'].to_pylist():\n"
        "            raise ValueError('cannot count to three')\n"
        "        return task\n"
    )
    (tmp_path / "job.yaml").write_text(
        "stages:\n"
        "  - {_target_: JsonlReader, file_paths: crawl}\n"
        "  - {_target_: counting.Counting}\n"
        "  - {_target_: JsonlWriter, path: clean}\n"
    )
    done = penstock(tmp_path, "run", "job.yaml")
    assert done.returncode == 1
    assert "Read 6 documents, kept 5 (83.3%), dropped 0, failed 1." in done.stderr
    [line] = [line.strip() for line in done.stderr.splitlines() if "To see it fail: " in line]
    again = penstock(tmp_path, *line.removeprefix("To see it fail: penstock ").split())
    assert again.returncode == 1
    assert '"id": "3"' in again.stdout
    assert "ValueError: cannot count to three" in again.stderr
    assert "in process" in again.stderr
