"""A worker runs tasks through its stages, counts what each stage does, and names the stage that fails."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock import DocumentBatch, FileGroupTask, ProcessingStage, Task
from penstock.core.lineage import root_tasks
from penstock.core.stage import Spec
from penstock.core.verdicts import Verdicts
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import MissingColumnError, StageError
from penstock.plan.fuse import fuse
from penstock.runtime.observer import NullObserver, StepObserver
from penstock.runtime.worker import ChainRunner
from penstock.testing import make_batch, run_stage
from penstock.text import RepeatedLinesFilter, ScoreFilter, WordCountFilter

NODE, WORKER = NodeInfo("n1"), WorkerMetadata("w1")


class Recording(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Log every call in a list shared with the test."""

    def __init__(self, name: str, events: list[str], failing: str = "") -> None:
        self.name, self.events, self.failing = name, events, failing

    def _note(self, call: str) -> None:
        self.events.append(f"{self.name}.{call}")
        if call.startswith(self.failing) and self.failing:
            raise RuntimeError("broken")

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        assert (node_info, worker_metadata) == (NODE, WORKER)
        self._note("setup_on_node")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        assert worker_metadata == WORKER
        self._note("setup")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self._note(f"process {task.task_id}")
        return task

    def teardown(self) -> None:
        self._note("teardown")


class Returns(ProcessingStage[Task[Any], Task[Any]]):
    name = "returns"

    def __init__(self, make: Callable[[Task[Any]], Any]) -> None:
        self.make = make

    def process(self, task: Task[Any]) -> Any:
        return self.make(task)


def run(worker: ChainRunner, *tasks: Task[Any]) -> list[Task[Any]]:
    worker.start(NODE, WORKER)
    outputs = worker.run(root_tasks(tasks)).outputs
    worker.stop()
    return outputs


def test_worker_prepares_sets_up_processes_and_tears_down_in_order() -> None:
    events: list[str] = []
    run(ChainRunner([Recording("a", events), Recording("b", events)]), make_batch(["x"]), make_batch(["y"]))
    assert events == [
        "a.setup_on_node", "b.setup_on_node", "a.setup", "b.setup",
        "a.process 0_0", "a.process 0_1", "b.process 0_0", "b.process 0_1",
        "b.teardown", "a.teardown",
    ]  # fmt: skip


def test_only_stages_that_were_set_up_are_torn_down() -> None:
    events: list[str] = []
    worker = ChainRunner([Recording("a", events), Recording("b", events, failing="setup"), Recording("c", events)])
    worker._steps[1].setup_on_node = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(StageError, match="stage 'b': setup failed: RuntimeError: broken"):
        worker.start(NODE, WORKER)
    worker.stop()
    assert events == ["a.setup_on_node", "c.setup_on_node", "a.setup", "b.setup", "a.teardown"]


def test_error_in_one_teardown_does_not_skip_the_others() -> None:
    events: list[str] = []
    worker = ChainRunner([Recording("a", events), Recording("b", events, failing="teardown")])
    worker.start(NODE, WORKER)
    with pytest.raises(StageError, match="stage 'b': teardown failed"):
        worker.stop()
    assert events[-2:] == ["b.teardown", "a.teardown"]


def test_counters_report_inputs_outputs_and_time_of_each_stage() -> None:
    seconds = iter(range(100))
    drop_half = Returns(lambda task: DocumentBatch("d", task.data.slice(0, 2)))
    worker = ChainRunner([drop_half, Returns(lambda task: None).with_(name="drop")], clock=lambda: next(seconds))
    batch = make_batch(["aaaa"] * 4)
    run(worker, batch, batch)
    first, second = worker.counters
    assert (first.stage, first.tasks, first.items_in, first.items_out, first.dropped) == ("returns", 2, 8, 4, 4)
    assert (first.noun_in, first.noun_out, first.errors) == ("documents", "documents", 0)
    assert first.bytes_in == 2 * batch.num_bytes
    assert 0 < first.bytes_out < first.bytes_in
    assert first.seconds == 2, "one tick of the clock for each of two calls"
    assert (second.stage, second.items_in, second.items_out, second.dropped, second.bytes_out) == ("drop", 4, 0, 4, 0)


def test_merged_filters_have_separate_counters() -> None:
    batch = make_batch(["one", "one two", "one two\none two", "a b c d"])
    filters = [
        ScoreFilter(WordCountFilter(min_words=2)),
        ScoreFilter(RepeatedLinesFilter()),
        ScoreFilter(WordCountFilter(max_words=3, min_words=0)).with_(name="short"),
    ]
    [pool] = fuse(filters)
    assert len(pool.steps) == 1
    merged, apart = ChainRunner(pool.steps), ChainRunner(filters)
    [one], [other] = run(merged, batch), run(apart, batch)
    assert one.data.to_pylist() == other.data.to_pylist()
    expected = [("word_count", 4, 3, 1), ("repeated_lines", 3, 2, 1), ("short", 2, 1, 1)]
    for worker in (merged, apart):
        assert [(c.stage, c.items_in, c.items_out, c.dropped) for c in worker.counters] == expected
    assert all(c.bytes_in > c.bytes_out > 0 and c.tasks == 1 for c in merged.counters)


def test_merged_filters_count_every_task_of_a_larger_batch() -> None:
    stage = ScoreFilter([WordCountFilter(min_words=2), RepeatedLinesFilter()]).with_(batch_size=2)
    worker = ChainRunner([stage])
    outputs = run(worker, make_batch(["a", "a b"]), make_batch(["a b", "a b c"]))
    assert [task.num_items for task in outputs] == [1, 2]
    assert [(c.items_in, c.items_out) for c in worker.counters] == [(4, 3), (3, 3)]


def test_custom_metrics_are_counted_and_attached_to_the_task() -> None:
    class Metric(ProcessingStage[DocumentBatch, DocumentBatch]):
        name = "metric"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            self._log_metrics({"links": task.num_items})
            with self._time_metric("thinking"):
                return task

    seconds = iter(range(100))
    worker = ChainRunner([Metric()], clock=lambda: next(seconds))
    outputs = run(worker, make_batch(["a", "b"]), make_batch(["c"]))
    assert worker.counters[0].metrics == {"links": 3, "thinking": 2}
    assert [task._stage_perf[0].custom_metrics["links"] for task in outputs] == [2, 1]


def test_reported_size_of_a_task_is_in_bytes() -> None:
    batch = make_batch(["x" * 2**20])
    [result] = run_stage(Returns(lambda task: task), batch)
    assert result._stage_perf[0].input_data_size_mb == pytest.approx(1, rel=0.01)
    assert result._stage_perf[0].num_items_processed == 1


def test_stage_receives_at_most_batch_size_tasks_per_call() -> None:
    sizes: list[int] = []

    class Batched(ProcessingStage[DocumentBatch, DocumentBatch]):
        batch_size = 3

        def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
            sizes.append(len(tasks))
            return tasks

    worker = ChainRunner([Batched()])
    assert len(run(worker, *(make_batch(["x"]) for _ in range(7)))) == 7
    assert sizes == [3, 3, 1]


def test_an_error_names_stage_task_and_file() -> None:
    def fail(task: Task[Any]) -> None:
        raise KeyError("lang")

    task = FileGroupTask("d", ["crawl/a.jsonl"], _metadata={"source_files": ["crawl/a.jsonl"]})
    with pytest.raises(StageError) as caught:
        run_stage(Returns(fail).with_(name="detect"), task)
    message, row = str(caught.value).split("\n")
    here = f'({__file__}, line {fail.__code__.co_firstlineno + 1}, in fail: raise KeyError("lang"))'
    assert message == f"stage 'detect': process failed on task 0_0 (from crawl/a.jsonl): KeyError: 'lang' {here}"
    assert row == "  The row: crawl/a.jsonl"
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_is_counted() -> None:
    worker = ChainRunner([Recording("a", [], failing="process")])
    with pytest.raises(StageError):
        run(worker, make_batch(["x"]))
    assert worker.counters[0].errors == 1


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        ("text", "str: 'text'"),
        ({"a": 1}, "dict"),
        ((1, 2), "tuple"),
        ([make_batch(["x"]), 5], "int: 5"),
        (iter([7]), "int: 7"),
    ],
)
def test_result_that_is_not_a_task_is_named_in_the_error(returned: Any, named: str) -> None:
    with pytest.raises(
        StageError, match=f"stage 'returns': .*a task, a list or an iterator of tasks, or None; got .*{named}"
    ):
        run_stage(Returns(lambda task: returned), make_batch(["x"]))


def test_a_batch_stage_must_return_a_list() -> None:
    class Wrong(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process_batch(self, tasks: list[DocumentBatch]) -> DocumentBatch:  # type: ignore[override]
            return tasks[0]

    with pytest.raises(StageError, match="process_batch must return a list, got DocumentBatch"):
        run_stage(Wrong(), make_batch(["x"]))


@pytest.mark.parametrize("filters", [WordCountFilter(), [WordCountFilter(), RepeatedLinesFilter()]])
def test_missing_column_error_lists_columns_and_the_parameter_to_set(filters: Any) -> None:
    with pytest.raises(MissingColumnError) as caught:
        run_stage(ScoreFilter(filters), make_batch(["x"], text_field="body"))
    stage, message = str(caught.value).split(": ", 1)
    assert stage in ("stage 'word_count'", "stage 'score_filter'")
    assert message == "column 'text' is missing; the batch has 'id', 'body'. Set text_field='body' if that is the one."


def test_missing_column_error_names_the_parameter_with_that_column() -> None:
    class Detect(ProcessingStage[DocumentBatch, DocumentBatch]):
        def __init__(self, url_field: str) -> None:
            self.url_field = url_field

        def inputs(self) -> Spec:
            return ["data"], [self.url_field]

    with pytest.raises(MissingColumnError, match="Set url_field='urls' if that is the one"):
        run_stage(Detect("url"), make_batch(["x"], urls=["y"]))


def test_a_stage_may_refuse_a_task() -> None:
    class Picky(Recording):
        def validate_input(self, task: Task[Any]) -> bool:
            return False

    with pytest.raises(StageError, match="validate_input refused task"):
        run(ChainRunner([Picky("p", [])]), make_batch(["x"]))


class Recorder(NullObserver):
    """Log the calls of a worker to its observer."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self, number: int, tasks: Sequence[Task[Any]]) -> StepObserver:
        self.calls.append(f"begin {number}: {len(tasks)} tasks")
        return self

    def gave(self, outputs: Sequence[Task[Any]], verdicts: Sequence[Verdicts]) -> None:
        self.calls.append(f"gave {sum(output.num_items for output in outputs)} items, {len(verdicts)} verdicts")

    def end(self, stage: ProcessingStage[Any, Any]) -> None:
        self.calls.append(f"end {stage.name}")

    def failed(self, number: int, task: Task[Any], position: int) -> None:
        self.calls.append(f"failed {number}: row {position}")

    def write(self) -> None:
        self.calls.append(f"write: {self.writes}")


def test_observer_is_told_inputs_outputs_and_failures_of_each_step() -> None:
    def fail_on_bad(task: Task[Any]) -> Task[Any]:
        if "bad" in task.data.column("text").to_pylist():
            raise ValueError("bad text")
        return task

    observer = Recorder()
    worker = ChainRunner([Returns(fail_on_bad).with_(name="check")], max_attempts=1, observer=observer)
    run(worker, make_batch(["good", "bad"]))
    assert observer.calls == [
        "begin 0: 1 tasks", "failed 0: row 1", "gave 1 items, 0 verdicts", "end check", "write: True",
    ]  # fmt: skip
