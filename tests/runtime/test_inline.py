"""A whole pipeline in this process: depth first, in order, with teardown after errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, EmptyTask, InlineExecutor, Pipeline, ProcessingStage, Resources, Task
from penstock.errors import PlanError, StageError
from penstock.testing import ListSink, ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter

Stage = ProcessingStage[Any, Any]


class Log(ProcessingStage[Task[Any], Task[Any]]):
    """Log every call to a file: the stage that runs is a copy, so a list would not reach the test."""

    def __init__(self, path: Path, name: str, batch_size: int = 1, failing: str = "") -> None:
        self.path, self.name, self.batch_size, self.failing = path, name, batch_size, failing

    def _note(self, event: str) -> None:
        with self.path.open("a") as stream:
            stream.write(f"{self.name} {event}\n")
        if self.failing and event.startswith(self.failing):
            raise RuntimeError(f"{event} is broken")

    def process_batch(self, tasks: list[Task[Any]]) -> list[Task[Any]]:
        self._note("+".join(task.data["text"][0].as_py() for task in tasks))
        return tasks

    def teardown(self) -> None:
        self._note("teardown")


class Apart(Log):
    """The same in a separate pool."""

    resources = Resources(cpus=0.5, memory_gb=0.1)


def events(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def work_events(path: Path) -> list[str]:
    return [event for event in events(path) if not event.endswith("teardown")]


def run(*stages: Stage, initial: list[Task[Any]] | None = None, **options: Any) -> list[Task[Any]]:
    return Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False, **options), initial)


def batches(*texts: str) -> list[Task[Any]]:
    return [make_batch([text]) for text in texts]


def texts(tasks: list[Task[Any]]) -> list[str]:
    return [text for task in tasks for text in task.data["text"].to_pylist()]


def folder_of(path: Path, **files: str) -> str:
    path.mkdir()
    for name, content in files.items():
        (path / f"{name}.jsonl").write_text(content)
    return str(path)


class UntypedSource(ProcessingStage):  # type: ignore[type-arg]
    """A source without type hints."""

    is_source_stage = True

    def process(self, task):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        return batches("a", "b", "c")


@pytest.mark.parametrize("source", [ListSource(batches("a", "b", "c")), UntypedSource()], ids=["typed", "untyped"])
def test_task_passes_all_stages_before_the_next_one_is_read(tmp_path: Path, source: Stage) -> None:
    log = tmp_path / "log"
    stages = [source, Log(log, "read"), Apart(log, "clean"), Log(log, "write")]
    assert texts(run(*stages)) == ["a", "b", "c"]
    assert work_events(log) == [f"{stage} {text}" for text in "abc" for stage in ("read", "clean", "write")]


def test_batches_are_filled_across_sources(tmp_path: Path) -> None:
    log = tmp_path / "log"
    results = run(Log(log, "one"), Log(log, "two", batch_size=2), initial=batches("a", "b", "c"))
    assert work_events(log) == ["one a", "one b", "two a+b", "one c", "two c"]
    assert texts(results) == ["a", "b", "c"]


def test_outputs_are_in_input_order_regardless_of_processing_order() -> None:
    class Split(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> list[DocumentBatch]:
            return [make_batch([text]) for text in task.to_pyarrow()["text"].to_pylist()]

    class LastFirst(ProcessingStage[DocumentBatch, DocumentBatch]):
        batch_size = 3

        def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
            return tasks[::-1]

    given: list[Task[Any]] = [make_batch(["a", "b"]), make_batch(["c", "d", "e"])]
    assert texts(run(Split(), LastFirst(), initial=given)) == ["a", "b", "c", "d", "e"]


def test_a_stage_may_drop_everything(tmp_path: Path) -> None:
    class Drop(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> None:
            return None

    assert run(Drop(), Log(tmp_path / "log", "never"), initial=batches("a", "b")) == []
    assert run(ListSource([]), Log(tmp_path / "log", "never")) == []
    assert run(Drop(), initial=[]) == []
    assert work_events(tmp_path / "log") == []


def test_sink_keeps_the_tasks_that_reach_it() -> None:
    sink = ListSink()
    run(ListSource(batches("a", "b")), sink)
    assert texts(sink.tasks) == ["a", "b"]


@pytest.mark.parametrize("kind", [Log, Apart])
def test_failing_stage_stops_the_run_and_all_stages_are_torn_down(tmp_path: Path, kind: type[Log]) -> None:
    log = tmp_path / "log"
    with pytest.raises(StageError, match="stage 'bad': process failed on task 0_1: RuntimeError: b is broken"):
        run(Log(log, "good"), kind(log, "bad", failing="b"), initial=batches("a", "b", "c"))
    assert events(log) == ["good a", "bad a", "good b", "bad b", "bad teardown", "good teardown"]


def test_failing_teardown_does_not_hide_the_first_error(tmp_path: Path) -> None:
    log = tmp_path / "log"

    class Worse(Log):
        def teardown(self) -> None:
            super().teardown()
            raise RuntimeError("and this as well")

    with pytest.raises(StageError, match="process failed on task 0_0: RuntimeError: a is broken"):
        run(Log(log, "good"), Apart(log, "middle"), Worse(log, "bad", failing="a"), initial=batches("a"))
    assert events(log)[-3:] == ["bad teardown", "middle teardown", "good teardown"]


def test_error_in_one_pools_teardown_does_not_skip_the_other_pools(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(StageError, match="stage 'bad': teardown failed"):
        run(Log(log, "good"), Apart(log, "bad", failing="teardown"), initial=batches("a"))
    assert events(log)[-2:] == ["bad teardown", "good teardown"]


def test_dead_letters_and_summary_are_in_the_output_folder(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", a='{"text": "one"}\nnot json\n{"text": "one two"}\n')
    executor = InlineExecutor(show_progress=False)
    stages: list[Stage] = [
        JsonlReader(source),
        ScoreFilter(WordCountFilter(min_words=2)),
        JsonlWriter(tmp_path / "out"),
    ]
    [written] = Pipeline("p", stages=stages).run(executor)
    assert Path(written.data[0]).read_text() == '{"text": "one two"}\n'
    [letter] = [json.loads(line) for line in (tmp_path / "out/_penstock/dead_letters.jsonl").read_text().splitlines()]
    assert (letter["stage"], letter["source"], letter["position"]) == ("jsonl_reader_stage", f"{source}/a.jsonl", 2)
    assert letter["excerpt"] == "not json"
    assert letter["reason"].startswith("not JSON")
    assert letter["task_id"] == written.task_id
    summary = json.loads((tmp_path / "out/_penstock/summary.json").read_text())
    assert summary["dead_letters"] == {"path": str(tmp_path / "out/_penstock/dead_letters.jsonl"), "count": 1}
    assert [(s["stage"], s["items_in"], s["items_out"], s["dropped"], s["rejected"]) for s in summary["stages"]] == [
        ("file_partitioning", 0, 1, 0, 0),
        ("jsonl_reader_stage", 1, 2, 0, 1),
        ("word_count", 2, 1, 1, 0),
        ("jsonl_writer", 1, 1, 0, 0),
    ]
    assert executor.last_summary is not None
    assert executor.last_summary.to_dict() == summary


def test_second_run_removes_the_records_of_the_first(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", a='{"text": "one"}\nnot json\n')
    stages: list[Stage] = [JsonlReader(source), JsonlWriter(tmp_path / "out")]
    run(*stages)
    (tmp_path / "in/a.jsonl").write_text('{"text": "one"}\n')
    run(*stages)
    kept = sorted(path.name for path in (tmp_path / "out/_penstock").iterdir())
    assert kept == ["ledger", "origins.json", "summary.json"]


def test_run_without_output_writes_nothing_unless_run_dir_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(ListSource(batches("a")))
    assert list(tmp_path.iterdir()) == []
    run(ListSource(batches("a")), run_dir=str(tmp_path / "about"))
    assert sorted(path.name for path in (tmp_path / "about").iterdir()) == ["ledger", "summary.json"]


def test_summary_shows_documents_read_kept_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = folder_of(tmp_path / "in", a='{"text": "one"}\n' * 3 + '{"text": "one two"}\n')
    stages: list[Stage] = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(tmp_path / "out")]
    Pipeline("p", stages=[JsonlReader(source), *stages]).run(InlineExecutor())
    assert "Read 4 documents, kept 1 (25.0%), dropped 3: 3 by word_count.\n" in capsys.readouterr().err
    Pipeline("p", stages=stages).run(InlineExecutor(), [make_batch(["one", "one two"])])
    shown = capsys.readouterr().err
    assert "Read 2 documents, kept 1 (50.0%), dropped 1: 1 by word_count.\n" in shown
    assert f"Output: {tmp_path / 'out'}" in shown


def test_a_plan_can_be_tried_for_another_machine() -> None:
    class OnGpu(ProcessingStage[EmptyTask, DocumentBatch]):
        resources = Resources(cpus=64, gpu_memory_gb=70)

        def process(self, task: EmptyTask) -> list[DocumentBatch]:
            return [make_batch(["a"])]

    assert texts(run(OnGpu(), cpus=64, gpus=1, gpu_memory_gb=80)) == ["a"]
    with pytest.raises(PlanError, match="the largest GPU of node 'this machine' has 40 GB"):
        run(OnGpu(), cpus=64, gpus=1, gpu_memory_gb=40)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown setting 'loging_interval'.* Did you mean 'logging_interval'"):
        InlineExecutor({"loging_interval": 1})


def test_missing_input_is_reported_with_the_other_mistakes_of_the_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        run(
            JsonlReader(tmp_path / "gone"),
            ScoreFilter(WordCountFilter()).with_(batch_size=0),
            JsonlWriter(tmp_path / "out"),
        )
    first, second = caught.value.mistakes
    assert first == f"stage 'file_partitioning': {tmp_path / 'gone'}: there is no such file or folder."
    assert "batch_size=0" in second
    assert not (tmp_path / "out").exists()
