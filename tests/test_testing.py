"""The tools for stage authors report a stage that violates the contract."""

import itertools
import threading
from typing import Any

import pyarrow as pa
import pytest

from penstock import DocumentBatch, EmptyTask, ProcessingStage
from penstock.core.stage import Spec
from penstock.core.worker_info import WorkerMetadata
from penstock.testing import (
    ListSink,
    ListSource,
    assert_stage_contract,
    make_batch,
    run_stage,
    run_stage_with_rejections,
)

COUNTER = itertools.count()


class Good(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the length of each text, and follow the contract."""

    name = "good"

    def inputs(self) -> Spec:
        return ["data"], ["text"]

    def outputs(self) -> Spec:
        return ["data"], ["length"]

    def length(self, text: str | None) -> Any:
        return len(text or "")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_pyarrow()
        lengths = [self.length(text) for text in table["text"].to_pylist()]
        return DocumentBatch(task.dataset_name, table.append_column("length", pa.array(lengths, pa.float64())))


class NotTheSameTwice(Good):
    def length(self, text: str | None) -> Any:
        return next(COUNTER)


class FailsOnNull(Good):
    def length(self, text: Any) -> Any:
        return len(text)


class FailsOnEmpty(Good):
    def length(self, text: str | None) -> Any:
        return 1 if text is None else 1 / len(text)


class FailsOnWhiteSpace(Good):
    def length(self, text: str | None) -> Any:
        return 1 if not text else 1 / len(text.split())


class FailsOnAnEmptyBatch(Good):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        task.to_pyarrow()["text"][0]
        return super().process(task)


class PromisesTooMuch(Good):
    def outputs(self) -> Spec:
        return ["data"], ["length", "language"]


class NeedsMore(Good):
    def inputs(self) -> Spec:
        return ["data"], ["text", "url"]


class CannotTravel(Good):
    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_a_correct_stage_passes_the_contract() -> None:
    assert_stage_contract(Good(), make_batch(["a", "b c"]))


@pytest.mark.parametrize(
    ("stage", "complaint"),
    [
        (NotTheSameTwice(), "returns a different result the second time"),
        (FailsOnNull(), "fails on null documents"),
        (FailsOnEmpty(), "fails on empty documents"),
        (FailsOnWhiteSpace(), "fails on white-space documents"),
        (FailsOnAnEmptyBatch(), "fails on an empty batch"),
        (PromisesTooMuch(), r"declares the columns \['language'\] as outputs"),
        (NeedsMore(), r"lacks \['url'\]"),
    ],
)
@pytest.mark.parametrize("kind", [pa.large_string(), pa.string()], ids=str)
def test_a_stage_that_violates_the_contract_is_reported(stage: Good, complaint: str, kind: pa.DataType) -> None:
    batch = DocumentBatch("d", pa.table({"text": pa.array(["a", "b c"], kind)}))
    with pytest.raises(AssertionError, match=complaint):
        assert_stage_contract(stage, batch)


def test_a_stage_that_cannot_be_pickled_is_reported() -> None:
    with pytest.raises(TypeError, match="pickle"):
        assert_stage_contract(CannotTravel(), make_batch(["a"]))


def test_equal_results_with_nan_are_equal() -> None:
    class NaN(Good):
        def length(self, text: str | None) -> Any:
            return float("nan")

    assert_stage_contract(NaN(), make_batch(["a"]))


def test_a_batch_is_made_from_texts_and_columns() -> None:
    batch = make_batch(["a", None], text_field="body", url=["x", "y"])
    assert batch.to_pyarrow().to_pylist() == [
        {"id": "doc-0", "body": "a", "url": "x"},
        {"id": "doc-1", "body": None, "url": "y"},
    ]
    assert make_batch([]).num_items == 0


def test_running_a_stage_sets_it_up_and_tears_it_down_on_a_copy() -> None:
    class Model(ProcessingStage[DocumentBatch, DocumentBatch]):
        state = "new"
        seen: list[str] = []  # noqa: RUF012 - shared by the copies on purpose

        def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
            self.state = "set up"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            self.seen.append(self.state)
            return task

        def teardown(self) -> None:
            self.seen.append("torn down")

    stage = Model()
    run_stage(stage, make_batch(["a"]), make_batch(["b"]))
    assert (stage.state, Model.seen) == ("new", ["set up", "set up", "torn down"])


def test_a_source_is_run_without_tasks() -> None:
    class Source(ProcessingStage[EmptyTask, DocumentBatch]):
        def process(self, task: EmptyTask) -> list[DocumentBatch]:
            return [make_batch(["a"]), make_batch(["b"])]

    assert [task.task_id for task in run_stage(Source())] == ["0_0", "0_1"]


def test_rejected_records_are_returned_with_the_outputs() -> None:
    class Strict(ProcessingStage[DocumentBatch, DocumentBatch]):
        name = "strict"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            self.reject("too short", source="a.jsonl", position=3, excerpt="x" * 5000)
            return task

    [kept], [rejection] = run_stage_with_rejections(Strict(), make_batch(["a"]))
    assert kept.num_items == 1
    assert (rejection.stage, rejection.reason, rejection.source, rejection.position) == (
        "strict",
        "too short",
        "a.jsonl",
        3,
    )
    assert (rejection.task_id, len(rejection.excerpt)) == ("0_0", 2000)


def test_list_source_and_list_sink() -> None:
    given = [make_batch(["a"]), make_batch(["b"])]
    sink = ListSink()
    outputs = [task for made in run_stage(ListSource(given)) for task in run_stage(sink, made)]
    assert [task.data["text"].to_pylist() for task in outputs] == [["a"], ["b"]]
    assert [task.task_id for task in given] == ["", ""]
    assert sink.tasks[-1].data["text"].to_pylist() == ["b"]
