"""A pipeline describes itself, accepts only stages, and is not changed by a run."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, processing_stage
from penstock.errors import PlanError
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter, ParquetReader, ParquetWriter, ScoreFilter, WordCountFilter


@processing_stage(name="pass_on", batch_size=3)
def pass_on(task: DocumentBatch) -> DocumentBatch:
    return task


class Counting(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage with state, which a second run must not inherit."""

    def __init__(self) -> None:
        self.seen = 0

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.seen += 1
        return make_batch([f"{text} {self.seen}" for text in task.to_pyarrow()["text"].to_pylist()])


def test_adding_stages_chains() -> None:
    pipeline = Pipeline("p")
    assert pipeline.add_stage(pass_on).add_stage(Counting()) is pipeline
    assert repr(pipeline) == "Pipeline('p', stages=[pass_on, Counting])"


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (Counting, r"Make an instance first: Counting\(…\)"),
        (lambda task: task, r"Put @processing_stage\(name=…\) on the function"),
        ("reader", "add_stage takes a stage, got 'reader'"),
    ],
)
def test_adding_something_that_is_not_a_stage_raises_an_error_with_a_hint(wrong: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        Pipeline("p").add_stage(wrong)
    with pytest.raises(TypeError, match=hint):
        Pipeline("p", stages=[wrong])


def test_describe_lists_every_stage_with_its_resources() -> None:
    stages: list[ProcessingStage[Any, Any]] = [
        JsonlReader("in"),
        ScoreFilter(WordCountFilter()),
        pass_on.with_(num_workers=2),
        ScoreFilter([WordCountFilter(), WordCountFilter()]),
        ParquetWriter("out"),
    ]
    assert Pipeline("clean", "Web pages", stages=stages).describe().split("\n") == [
        "Pipeline 'clean', 5 stages",
        "  Web pages",
        "  1. jsonl_reader (JsonlReader)",
        "       file_partitioning   0.5 CPU  reads in, 1 worker",
        "       jsonl_reader_stage  1 CPU",
        "  2. word_count            1 CPU",
        "  3. pass_on               1 CPU    3 tasks at a time, 2 workers",
        "  4. score_filter          1 CPU",
        "  5. parquet_writer        1 CPU    writes out",
    ]


def test_describe_needs_no_input_to_exist() -> None:
    assert "reads s3://bucket/none" in Pipeline("p", stages=[ParquetReader("s3://bucket/none")]).describe()
    assert Pipeline("empty").describe() == "Pipeline 'empty', 0 stages"


def test_a_second_run_has_the_same_result_and_the_stages_are_unchanged(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n')
    stages: list[ProcessingStage[Any, Any]] = [
        JsonlReader(tmp_path / "in"),
        ScoreFilter(WordCountFilter(min_words=2)),
        Counting(),
        JsonlWriter(tmp_path / "out"),
    ]
    pipeline = Pipeline("p", stages=stages)
    before = pickle.dumps(stages)
    results = []
    for _ in range(2):
        [written] = pipeline.run(InlineExecutor(show_progress=False))
        results.append((written.task_id, written.data, Path(written.data[0]).read_bytes()))
    assert results[0] == results[1]
    assert results[0][2].startswith(b'{"id":"doc-0","text":"a b 1"}')
    assert pipeline.stages == stages
    assert pickle.dumps(stages) == before


def test_build_decomposes_composites_and_does_not_change_the_pipeline() -> None:
    pipeline = Pipeline("p", stages=[JsonlReader("in"), pass_on])
    assert [stage.name for stage in pipeline.build()] == ["file_partitioning", "jsonl_reader_stage", "pass_on"]
    assert [stage.name for stage in pipeline.stages] == ["jsonl_reader", "pass_on"]


def test_a_pipeline_without_stages_does_not_run() -> None:
    with pytest.raises(ValueError, match=r"has no stages\. Add one"):
        Pipeline("p").build()
    with pytest.raises(PlanError, match="has no stages"):
        Pipeline("p").run(InlineExecutor(show_progress=False))


def test_a_pipeline_runs_without_naming_an_executor(capsys: pytest.CaptureFixture[str]) -> None:
    [result] = Pipeline("p", stages=[ListSource([make_batch(["a"])])]).run()
    assert result.num_items == 1
    shown = capsys.readouterr()
    assert shown.out == "", "standard output is for pipes"
    assert "list_source" in shown.err
