"""A run that was stopped and resumed has the same output as an undisturbed run: no losses, no duplicates."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Task
from penstock.errors import CheckpointError, PlanError, StageError
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter


class Fuse(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Fail at one document while a marker file exists, and log the others."""

    def __init__(self, folder: Path, at: str) -> None:
        self.folder, self.at = folder, at

    def process(self, task: DocumentBatch) -> DocumentBatch:
        found = task.to_pyarrow()["text"].to_pylist()
        if self.at in found and (self.folder / "armed").exists():
            raise RuntimeError("blown")
        with (self.folder / "passed").open("a") as stream:
            stream.writelines(f"{text}\n" for text in found)
        return task


class JoinPairs(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join two batches, so that each output belongs to two sources."""

    batch_size = 2

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        return [make_batch([text for task in tasks for text in task.to_pyarrow()["text"].to_pylist()])]


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every output file, except the summary, which contains times, and the list of its stages."""
    others = ("summary.json", "rules.json")
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in others)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def make_input(folder: Path, count: int = 5) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.jsonl").write_text(f'{{"text": "doc {number}"}}\nbroken {number}\n{{"text": "x"}}\n')
    return folder


def stages(tmp_path: Path, output: str, *middle: ProcessingStage[Any, Any]) -> list[ProcessingStage[Any, Any]]:
    return [
        JsonlReader(tmp_path / "in"),
        ScoreFilter(WordCountFilter(min_words=2)),
        *middle,
        JsonlWriter(tmp_path / output),
    ]


def run(
    stages: list[ProcessingStage[Any, Any]], checkpoint: Path | None = None, initial: Any = None
) -> list[Task[Any]]:
    return Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), initial, checkpoint)


@pytest.mark.parametrize("blown_at", range(5))
@pytest.mark.parametrize("joining", [False, True], ids=["one for one", "two to one"])
def test_resumed_run_has_the_same_output_as_an_undisturbed_run(tmp_path: Path, blown_at: int, joining: bool) -> None:
    make_input(tmp_path / "in")
    middle = [JoinPairs()] if joining else []
    undisturbed = run(stages(tmp_path, "whole", *middle))
    disturbed = stages(tmp_path, "out", *middle, Fuse(tmp_path, f"doc {blown_at}"))
    (tmp_path / "armed").touch()
    with pytest.raises(StageError, match="blown"):
        run(disturbed, tmp_path / "checkpoint")
    (tmp_path / "armed").unlink()
    resumed = run(disturbed, tmp_path / "checkpoint")
    assert files_in(tmp_path / "out") == files_in(tmp_path / "whole")
    names = [(task.task_id, [Path(path).name for path in task.data]) for task in resumed]
    assert names == [(task.task_id, [Path(path).name for path in task.data]) for task in undisturbed]
    passed = (tmp_path / "passed").read_text().splitlines()
    assert sorted(passed) == [f"doc {number}" for number in range(5)], "completed work is not repeated"


def test_complete_run_repeats_nothing(tmp_path: Path) -> None:
    make_input(tmp_path / "in")
    pipeline = stages(tmp_path, "out", Fuse(tmp_path, ""))
    first = run(pipeline, tmp_path / "checkpoint")
    before, passed = files_in(tmp_path / "out"), (tmp_path / "passed").read_text()
    second = run(pipeline, tmp_path / "checkpoint")
    assert [(task.task_id, task.data) for task in second] == [(task.task_id, task.data) for task in first]
    assert files_in(tmp_path / "out") == before
    assert (tmp_path / "passed").read_text() == passed


def test_new_file_is_read_by_the_next_run(tmp_path: Path) -> None:
    make_input(tmp_path / "in")
    pipeline = stages(tmp_path, "out", Fuse(tmp_path, ""))
    run(pipeline, tmp_path / "checkpoint")
    (tmp_path / "in/00.jsonl").write_text('{"text": "doc new"}\n')
    assert len(run(pipeline, tmp_path / "checkpoint")) == 6
    assert (tmp_path / "passed").read_text().splitlines().count("doc new") == 1
    assert len((tmp_path / "passed").read_text().splitlines()) == 6


def test_five_initial_tasks_give_five_outputs_after_a_resume(tmp_path: Path) -> None:
    # With equal ids for all such sources, 5 inputs would give 1 output after a resume.
    given = [make_batch([f"doc {number}"]) for number in range(5)]
    pipeline: list[ProcessingStage[Any, Any]] = [Fuse(tmp_path, "doc 3")]
    (tmp_path / "armed").touch()
    with pytest.raises(StageError):
        run(pipeline, tmp_path / "checkpoint", given)
    (tmp_path / "armed").unlink()
    results = run(pipeline, tmp_path / "checkpoint", given)
    assert [task.data["text"].to_pylist() for task in results] == [[f"doc {number}"] for number in range(5)]
    assert [task.task_id for task in results] == [f"0_{number}" for number in range(5)]


def test_other_initial_tasks_are_not_treated_as_done(tmp_path: Path) -> None:
    pipeline: list[ProcessingStage[Any, Any]] = [ScoreFilter(WordCountFilter(min_words=0))]
    run(pipeline, tmp_path / "checkpoint", [make_batch(["old"])])
    with pytest.raises(CheckpointError, match="initial"):
        run(pipeline, tmp_path / "checkpoint", [make_batch(["new"])])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (WordCountFilter(min_words=3), "min_words"),
        (WordCountFilter(min_words=2, max_words=9), "max_words"),
    ],
)
def test_a_changed_parameter_is_refused_and_named(tmp_path: Path, changed: WordCountFilter, named: str) -> None:
    make_input(tmp_path / "in")
    run(stages(tmp_path, "out"), tmp_path / "checkpoint")
    other: list[ProcessingStage[Any, Any]] = [
        JsonlReader(tmp_path / "in"),
        ScoreFilter(changed),
        JsonlWriter(tmp_path / "out"),
    ]
    before = files_in(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        run(other, tmp_path / "checkpoint")
    message = str(caught.value)
    assert f"checkpoint {tmp_path / 'checkpoint'} belongs to another run: stage 3 'word_count'" in message
    assert named in message
    assert "Use another checkpoint_path, or delete this folder" in message
    assert files_in(tmp_path) == before


def test_another_pipeline_is_refused_but_other_resources_are_not(tmp_path: Path) -> None:
    make_input(tmp_path / "in")
    pipeline = stages(tmp_path, "out")
    run(pipeline, tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=r"stage 2 'jsonl_reader_stage'|stage 3|stage 4"):
        run([*pipeline[:1], *pipeline[2:]], tmp_path / "checkpoint")
    moved = [*pipeline[:1], pipeline[1].with_(num_workers=2, max_tasks_per_worker=9), *pipeline[2:]]
    assert len(run(moved, tmp_path / "checkpoint")) == 5


@pytest.mark.parametrize("tail", [b"\x07", b"\x00" * 16, b"\x10\x00\x00\x00\xff\xff\xff\xffhalf a record"])
def test_truncated_journal_only_repeats_work(tmp_path: Path, tail: bytes) -> None:
    make_input(tmp_path / "in")
    pipeline = stages(tmp_path, "out", Fuse(tmp_path, ""))
    run(pipeline, tmp_path / "checkpoint")
    before = files_in(tmp_path / "out")
    [journal] = (tmp_path / "checkpoint").iterdir()
    with journal.open("ab") as stream:
        stream.write(tail)  # zeros are what a file system may leave after a power cut
    assert len(run(pipeline, tmp_path / "checkpoint")) == 5
    assert files_in(tmp_path / "out") == before
    assert len((tmp_path / "passed").read_text().splitlines()) == 5


def test_resume_after_a_kill_in_the_middle_of_a_file_leaves_no_trace(tmp_path: Path) -> None:
    make_input(tmp_path / "in")
    script = textwrap.dedent("""
        import os, sys
        from penstock import InlineExecutor, Pipeline
        from penstock.text import JsonlReader, JsonlWriter

        class JsonlWriterThatMayDie(JsonlWriter):
            def write_documents(self, task, stream):
                super().write_documents(task, stream)
                stream.flush()
                if "doc 2" in task.column("text").to_pylist() and sys.argv[1] == "die":
                    os._exit(9)

        stages = [JsonlReader("in"), JsonlWriterThatMayDie("out", mode="overwrite")]
        Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), checkpoint_path="checkpoint")
    """)
    (tmp_path / "script.py").write_text(script)
    ends = [subprocess.run([sys.executable, "script.py", how], cwd=tmp_path, check=False) for how in ("die", "live")]
    assert [end.returncode for end in ends] == [9, 0]
    run([JsonlReader(tmp_path / "in"), JsonlWriter(tmp_path / "whole")])
    written = {name: content for name, content in files_in(tmp_path / "out").items() if "dead_letters" not in name}
    assert written == {
        name: content for name, content in files_in(tmp_path / "whole").items() if "dead_letters" not in name
    }


def test_dead_letters_of_completed_sources_are_kept_on_resume(tmp_path: Path) -> None:
    make_input(tmp_path / "in")
    (tmp_path / "armed").touch()
    pipeline = stages(tmp_path, "out", Fuse(tmp_path, "doc 2"))
    with pytest.raises(StageError):
        run(pipeline, tmp_path / "checkpoint")
    (tmp_path / "armed").unlink()
    run(pipeline, tmp_path / "checkpoint")
    letters = (tmp_path / "out/_penstock/dead_letters.jsonl").read_text().splitlines()
    assert [json.loads(line)["excerpt"] for line in letters] == [f"broken {number}" for number in range(5)]


def test_checkpoint_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot be opened.*checkpoint_path is a folder on this machine"):
        run([ListSource([])], tmp_path / "file" / "below")


def test_a_stage_that_cannot_be_resumed_refuses_a_checkpoint(tmp_path: Path) -> None:
    class Once(ListSource):
        is_resumable = False

    with pytest.raises(PlanError, match="cannot be resumed"):
        run([Once([])], tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()
