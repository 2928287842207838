"""Input that changes before a resume: the result equals that of a new run, or an error names the files."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, StreamingExecutor, Task
from penstock.core.files import FileGroupTask
from penstock.errors import CheckpointError, StageError
from penstock.ledger.query.ledger import find_ledger
from penstock.storage.journal import FILE_NAME
from penstock.testing import make_batch
from penstock.text import JsonlReader, JsonlWriter, ParquetReader, ParquetWriter, ScoreFilter, WordCountFilter
from penstock.text.io.jsonl import JsonlReaderStage

Stage = ProcessingStage[Any, Any]


class Watch(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Log each document, and fail at one document while a marker file exists."""

    def __init__(self, folder: Path, at: str = "") -> None:
        self.folder, self.at = folder, at

    def process(self, task: DocumentBatch) -> DocumentBatch:
        found = task.to_pyarrow()["text"].to_pylist()
        if self.at and any(self.at in text for text in found) and (self.folder / "armed").exists():
            raise RuntimeError("blown")
        with (self.folder / "passed").open("a") as stream:
            stream.writelines(f"{text}\n" for text in found)
        return task


def lines(name: str, count: int, first: int = 0) -> str:
    return "".join(json.dumps({"text": f"document {name} {n}", "n": n}) + "\n" for n in range(first, first + count))


def make_input(folder: Path) -> Path:
    (folder / "in").mkdir()
    for name in "abcde":
        (folder / f"in/{name}.jsonl").write_text(lines(name, 20) + "broken\n" + lines("short", 0))
    return folder / "in"


def stages(folder: Path, output: str, *middle: Stage, **reader: Any) -> list[Stage]:
    return [
        JsonlReader(str(folder / "in"), **reader),
        ScoreFilter(WordCountFilter(min_words=2), score_field="words"),
        *middle,
        JsonlWriter(str(folder / output)),
    ]


def run(stages: list[Stage], state: Path | None = None, executor: Any = None, given: Any = None) -> list[Task[Any]]:
    return Pipeline("p", stages=stages).run(executor or InlineExecutor(show_progress=False), given, state)


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every output file, except those that contain times and the ledger, whose layout may differ."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and "ledger" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.name != "summary.json"}


def documents_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def decisions_in(folder: Path) -> list[tuple[str, int]]:
    """Return the documents in the ledger, by block and row."""
    return sorted(
        (block, row)
        for part in find_ledger(str(folder)).parts
        for block, row in zip(*(part.read([name])[name].to_pylist() for name in ("block", "row")), strict=True)
    )


def append(folder: Path) -> None:
    for name in "bd":
        with (folder / f"in/{name}.jsonl").open("a") as stream:
            stream.write(lines(f"more-{name}", 5))


def edit_in_place(folder: Path) -> None:
    path = folder / "in/c.jsonl"
    path.write_text(path.read_text().replace("document c 7", "paragrap c 7"))  # of the same size


def shorten(folder: Path) -> None:
    (folder / "in/b.jsonl").write_text(lines("b", 2))


def add(folder: Path) -> None:
    (folder / "in/aa.jsonl").write_text(lines("aa", 20))


def remove(folder: Path) -> None:
    (folder / "in/a.jsonl").unlink()


def all_at_once(folder: Path) -> None:
    for change in (append, edit_in_place, add, remove):
        change(folder)


CHANGES = [append, edit_in_place, shorten, add, remove, all_at_once]
READERS: dict[str, dict[str, Any]] = {
    "file by file": {},
    "in blocks": {"blocksize": 300},
    "in groups": {"files_per_partition": 2},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("interrupted", [False, True], ids=["complete", "interrupted"])
def test_result_after_changed_input_equals_that_of_a_new_run(
    tmp_path: Path, change: Callable[[Path], None], reader: dict[str, Any], interrupted: bool
) -> None:
    make_input(tmp_path)
    resumed = stages(tmp_path, "out", Watch(tmp_path, "document c 19"), **reader)
    if interrupted:
        (tmp_path / "armed").touch()
        with pytest.raises(StageError, match="blown"):
            run(resumed, tmp_path / "state")
        (tmp_path / "armed").unlink()
    else:
        run(resumed, tmp_path / "state")
    change(tmp_path)
    results = run(resumed, tmp_path / "state")
    fresh = run(stages(tmp_path, "fresh", Watch(tmp_path), **reader))
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")
    assert [task.task_id for task in results] == [task.task_id for task in fresh]
    assert decisions_in(tmp_path / "out") == decisions_in(tmp_path / "fresh")
    # A further run without any change reads nothing again.
    (tmp_path / "passed").unlink()
    run(resumed, tmp_path / "state")
    assert not (tmp_path / "passed").exists()
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")


def test_changed_files_are_reported_and_only_those_are_processed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out", Watch(tmp_path))
    run(pipeline, tmp_path / "state")
    assert capsys.readouterr().err == ""
    all_at_once(tmp_path)
    (tmp_path / "passed").unlink()
    run(pipeline, tmp_path / "state")
    folder = tmp_path / "in"
    told = capsys.readouterr().err
    assert (
        f"the input has changed since the last run: 3 changed ({folder}/b.jsonl, {folder}/c.jsonl, {folder}/d.jsonl); "
        f"1 new ({folder}/aa.jsonl); 1 gone ({folder}/a.jsonl). 4 complete source tasks are no longer valid: 4 output files"
    ) in told
    passed = {text.split()[1] for text in (tmp_path / "passed").read_text().splitlines()}
    assert passed == {"b", "c", "d", "aa", "more-b", "more-d"}


def test_files_that_were_only_touched_or_copied_are_not_read_again(tmp_path: Path) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out", Watch(tmp_path))
    run(pipeline, tmp_path / "state")
    (tmp_path / "passed").unlink()
    os.utime(tmp_path / "in/a.jsonl", (1, 1))
    shutil.copy(tmp_path / "in/b.jsonl", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "in/b.jsonl")
    for _ in range(2):
        run(pipeline, tmp_path / "state")
        assert not (tmp_path / "passed").exists()


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out")
    run(pipeline, tmp_path / "state")
    times = (tmp_path / "in/c.jsonl").stat()
    edit_in_place(tmp_path)
    os.utime(tmp_path / "in/c.jsonl", ns=(times.st_atime_ns, times.st_mtime_ns))
    run(pipeline, tmp_path / "state")
    run(stages(tmp_path, "fresh"))
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")


@pytest.mark.parametrize("change", [append, all_at_once])
def test_worker_processes_give_the_same_result_after_changed_input(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    make_input(tmp_path)

    def executor() -> StreamingExecutor:
        return StreamingExecutor(backend="local", cpus=2, show_progress=False, profile=False)

    pipeline = stages(tmp_path, "out", blocksize=300)
    run(pipeline, tmp_path / "state", executor())
    change(tmp_path)
    run(pipeline, tmp_path / "state", executor())
    run(stages(tmp_path, "fresh", blocksize=300))
    written = {name: content for name, content in files_in(tmp_path / "out").items() if "_penstock" not in name}
    assert written == {n: content for n, content in files_in(tmp_path / "fresh").items() if "_penstock" not in n}


@pytest.mark.parametrize("target", [None, 400], ids=["one file", "several files"])
def test_parquet_files_of_several_row_groups(tmp_path: Path, target: int | None) -> None:
    (tmp_path / "in").mkdir()

    def write(name: str, count: int) -> None:
        table = pa.table({"text": [f"document {name} {n}" for n in range(count)]})
        pq.write_table(table, tmp_path / f"in/{name}.parquet", row_group_size=10)

    def pipeline(output: str) -> list[Stage]:
        writer = ParquetWriter(str(tmp_path / output), target_file_size=target)
        return [ParquetReader(str(tmp_path / "in"), blocksize=250), writer]

    for name in "abc":
        write(name, 50)
    run(pipeline("out"), tmp_path / "state")
    write("b", 31)
    write("d", 50)
    run(pipeline("out"), tmp_path / "state")
    run(pipeline("fresh"))
    assert len(files_in(tmp_path / "fresh")) > 4
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")


def test_changed_compressed_file_that_was_read_only_partly(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in/a.jsonl.gz"
    path.write_bytes(gzip.compress(lines("a", 4000).encode()))
    pipeline = stages(tmp_path, "out", Watch(tmp_path, "document a 3999"), blocksize=20_000)
    (tmp_path / "armed").touch()
    with pytest.raises(StageError, match="blown"):
        run(pipeline, tmp_path / "state")
    (tmp_path / "armed").unlink()
    left = len(list((tmp_path / "out").glob("*.jsonl")))
    assert left > 3
    (tmp_path / "out/0123456789ab.txt").write_text("not of this run")
    path.write_bytes(gzip.compress(lines("a", 1000).encode()))  # fewer pieces
    run(pipeline, tmp_path / "state")
    (tmp_path / "out/0123456789ab.txt").unlink()
    run(stages(tmp_path, "fresh", blocksize=20_000))
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")


def test_output_of_another_input_stays_when_changed_input_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "earlier/in").mkdir(parents=True)
    (tmp_path / "earlier/in/a.jsonl").write_text(lines("earlier", 3))
    run([JsonlReader(str(tmp_path / "earlier/in")), JsonlWriter(str(tmp_path / "out"))])
    earlier = documents_in(tmp_path / "out")
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out", Watch(tmp_path, "document c 19"))
    (tmp_path / "armed").touch()
    with pytest.raises(StageError, match="blown"):
        run(pipeline, tmp_path / "state")
    (tmp_path / "armed").unlink()
    append(tmp_path)
    run(pipeline, tmp_path / "state")
    run(stages(tmp_path, "fresh"))
    found = documents_in(tmp_path / "out")
    assert {name: found.pop(name) for name in earlier} == earlier
    # Names of files depend on what else is in the folder; their contents do not.
    assert sorted(found.values()) == sorted(documents_in(tmp_path / "fresh").values())


def test_output_files_of_unknown_origin_stop_the_run_and_are_named(tmp_path: Path) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out")
    run(pipeline, tmp_path / "state")
    (tmp_path / "out/0123456789ab.jsonl").write_text("of unknown origin\n")
    append(tmp_path)
    before = files_in(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        run(pipeline, tmp_path / "state")
    assert "2 changed" in str(caught.value)
    assert "1 output file (0123456789ab.jsonl)" in str(caught.value)
    assert f"To start over, delete {tmp_path / 'state'} and the output in {tmp_path / 'out'}" in str(caught.value)
    assert files_in(tmp_path) == before


class JoinPairs(ProcessingStage[DocumentBatch, DocumentBatch]):
    batch_size = 2

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        return [make_batch([text for task in tasks for text in task.to_pyarrow()["text"].to_pylist()])]


@pytest.mark.parametrize("change", CHANGES)
def test_pipeline_with_a_stage_that_joins_tasks_refuses_changed_input(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out", JoinPairs())
    run(pipeline, tmp_path / "state")
    change(tmp_path)
    before = files_in(tmp_path)
    with pytest.raises(CheckpointError, match=r"changed since the last run: .*Stage 'JoinPairs' takes several tasks"):
        run(pipeline, tmp_path / "state")
    assert files_in(tmp_path) == before


class Collect(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Run after a writer, so that output files cannot be attributed to results."""

    def process(self, task: FileGroupTask) -> None:
        return None


def test_pipeline_with_a_writer_in_the_middle_refuses_changed_but_not_new_files(tmp_path: Path) -> None:
    make_input(tmp_path)
    pipeline = [*stages(tmp_path, "out"), Collect()]
    run(pipeline, tmp_path / "state")
    add(tmp_path)
    run(pipeline, tmp_path / "state")
    run(stages(tmp_path, "fresh"))
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")
    append(tmp_path)
    with pytest.raises(CheckpointError, match=r"2 changed .*only the last stage of a pipeline may write"):
        run(pipeline, tmp_path / "state")


def test_results_without_a_writer_equal_those_of_a_new_run(tmp_path: Path) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out")[:-1]

    def texts(tasks: list[Task[Any]]) -> list[Any]:
        return [(task.task_id, task.to_pyarrow().to_pylist()) for task in tasks if isinstance(task, DocumentBatch)]

    run(pipeline, tmp_path / "state")
    all_at_once(tmp_path)
    assert texts(run(pipeline, tmp_path / "state")) == texts(run(pipeline))


def test_files_of_initial_tasks_are_compared_by_content(tmp_path: Path) -> None:
    make_input(tmp_path)
    given = [FileGroupTask("in", [str(tmp_path / f"in/{name}.jsonl")]) for name in "abcde"]

    def pipeline(output: str) -> list[Stage]:
        return [JsonlReaderStage(), Watch(tmp_path), JsonlWriter(str(tmp_path / output))]

    run(pipeline("out"), tmp_path / "state", given=given)
    append(tmp_path)
    (tmp_path / "passed").unlink()
    run(pipeline("out"), tmp_path / "state", given=given)
    assert {text.split()[1] for text in (tmp_path / "passed").read_text().splitlines()} == {
        "b",
        "d",
        "more-b",
        "more-d",
    }
    run(pipeline("fresh"), given=given)
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")


def test_run_killed_during_a_withdrawal_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_input(tmp_path)
    pipeline = stages(tmp_path, "out")
    run(pipeline, tmp_path / "state")
    all_at_once(tmp_path)
    removed: list[str] = []

    def dies(self: JsonlWriter, names: Any) -> None:
        removed.extend(names)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(JsonlWriter, "remove_files", dies)
        with pytest.raises(KeyboardInterrupt):
            run(pipeline, tmp_path / "state")
    assert len(removed) == 4
    run(pipeline, tmp_path / "state")
    run(stages(tmp_path, "fresh"))
    assert files_in(tmp_path / "out") == files_in(tmp_path / "fresh")


def test_another_input_path_is_a_different_run(tmp_path: Path) -> None:
    make_input(tmp_path)
    shutil.copytree(tmp_path / "in", tmp_path / "other")
    run([JsonlReader(tmp_path / "in"), JsonlWriter(tmp_path / "out")], tmp_path / "state")
    with pytest.raises(CheckpointError, match=r"file_paths was .*/in', now it is .*/other'"):
        run([JsonlReader(tmp_path / "other"), JsonlWriter(tmp_path / "out")], tmp_path / "state")


def test_results_that_cannot_be_stored_are_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_input(tmp_path)

    class Hold(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            task._metadata["held"] = object()
            return task

    pipeline = [*stages(tmp_path, "out")[:-1], Watch(tmp_path), Hold()]
    for times in (1, 2):
        assert len(run(pipeline, tmp_path / "state")) == 5
        assert len((tmp_path / "passed").read_text().splitlines()) == times * 100
        assert "(DocumentBatch) holds a builtins.object" in capsys.readouterr().err
    assert (tmp_path / "state" / FILE_NAME).exists()
