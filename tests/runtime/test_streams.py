"""A stage may return an iterator: each task passes all stages before the next one is requested."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Resources, StreamingExecutor, Task
from penstock.core.lineage import root_tasks
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import StageError
from penstock.runtime.worker import ChainRunner
from penstock.schedule.actions import Selection
from penstock.testing import ListSource, make_batch, run_stage


class Cut(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Yield every document as a task of its own, and log it."""

    name = "cut"

    def __init__(self, events: list[str] | None = None, fail_at: int | None = None, times: int = 1) -> None:
        self.events = events if events is not None else []
        self.fail_at, self.times = fail_at, times

    def process(self, task: DocumentBatch) -> Iterator[DocumentBatch]:
        for row in range(task.num_items):
            if row == self.fail_at and self.times > 0:
                self.times -= 1
                raise OSError("connection reset")
            self.events.append(f"cut {row}")
            yield DocumentBatch(task.dataset_name, task.to_pyarrow().slice(row, 1))


class Note(ProcessingStage[DocumentBatch, DocumentBatch]):
    def __init__(self, events: list[str], batch_size: int = 1) -> None:
        self.events, self.batch_size = events, batch_size

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        self.events.append("note " + " ".join(task.task_id for task in tasks))
        return tasks


def texts(tasks: list[Any]) -> list[str]:
    return [text for task in tasks for text in task.to_pyarrow()["text"].to_pylist()]


def run(steps: list[Any], *tasks: Task[Any], **settings: Any) -> list[Task[Any]]:
    worker = ChainRunner(steps, **settings)
    worker.start(NodeInfo("n"), WorkerMetadata("w"))
    return worker.run(root_tasks(tasks)).outputs


def test_each_yielded_task_passes_all_stages_before_the_next_is_requested() -> None:
    events: list[str] = []
    run([Cut(events), Note(events)], make_batch(["a", "b"]))
    assert events == ["cut 0", "note 0_0_0", "cut 1", "note 0_0_1"]


def test_downstream_batch_stage_receives_full_batches_from_an_iterator() -> None:
    events: list[str] = []
    run([Cut(events), Note(events, batch_size=2)], make_batch(["a", "b", "c"]))
    assert events == ["cut 0", "cut 1", "note 0_0_0 0_0_1", "cut 2", "note 0_0_2"]


class Make(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make megabytes from every document, one after the other or all at once."""

    def __init__(self, *, one_by_one: bool) -> None:
        self.one_by_one = one_by_one

    def process(self, task: DocumentBatch) -> DocumentBatch | Iterator[DocumentBatch]:
        if not self.one_by_one:
            return make_large(task)
        return (make_large(make_batch([text])) for text in texts([task]))


class Shorten(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        return DocumentBatch(task.dataset_name, pa.table({"text": ["short"]}))


class Weigh(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Log the memory in use while it runs."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.held.append(pa.total_allocated_bytes())
        return task


def make_large(task: DocumentBatch) -> DocumentBatch:
    texts_of_a_megabyte = pc.binary_repeat(pa.array(texts([task])), 1_000_000)
    return DocumentBatch(task.dataset_name, pa.table({"text": texts_of_a_megabyte}))


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("settings", [{}, {"max_attempts": 3}], ids=["bare", "with care"])
def test_processed_tasks_are_not_held_in_memory_while_later_stages_run(
    one_by_one: bool, settings: dict[str, Any]
) -> None:
    weigh, before = Weigh(), pa.total_allocated_bytes()
    run([Make(one_by_one=one_by_one), Shorten(), weigh], make_batch(["a", "b", "c"]), **settings)
    assert len(weigh.held) == (3 if one_by_one else 1)
    assert max(weigh.held) - before < 500_000


def test_ids_and_counts_of_an_iterator_equal_those_of_a_list() -> None:
    worker = ChainRunner([Cut()])
    worker.start(NodeInfo("n"), WorkerMetadata("w"))
    outputs = worker.run(root_tasks([make_batch(["a", "b"]), make_batch(["c"])])).outputs
    assert [task.task_id for task in outputs] == ["0_0_0", "0_0_1", "0_1_0"]
    [counters] = worker.counters
    assert (counters.tasks, counters.items_in, counters.items_out) == (2, 3, 3)


def test_iterator_may_be_empty() -> None:
    assert run_stage(Cut(), make_batch([])) == []


def test_iterator_that_raises_is_restarted_without_duplicate_outputs() -> None:
    outputs = run([Cut(fail_at=2, times=1)], make_batch(["a", "b", "c", "d"]), max_attempts=3)
    assert texts(outputs) == ["a", "b", "c", "d"]


def test_iterator_that_always_raises_names_stage_and_task() -> None:
    with pytest.raises(StageError, match="stage 'cut': process failed on task 0_0: OSError: connection reset"):
        run([Cut(fail_at=1, times=99)], make_batch(["a", "b"]), max_attempts=3)


@pytest.mark.parametrize("step", [0, 1])
def test_row_numbers_count_over_all_yielded_tasks_when_rows_are_excluded(step: int) -> None:
    events: list[str] = []
    worker = ChainRunner([Cut(events), Note(events)])
    batch = root_tasks([make_batch(["a", "b", "c", "d"])])
    assert texts(worker.run(batch, [Selection(step, without=(1, 2))]).outputs) == ["a", "d"]
    assert texts(worker.run(batch, [Selection(step, 1, 3)]).outputs) == ["b", "c"]


def test_probe_of_a_range_does_not_read_beyond_it() -> None:
    events: list[str] = []
    ChainRunner([Cut(events), Note([])]).run(root_tasks([make_batch(["a", "b", "c", "d"])]), [Selection(1, 0, 2)])
    assert events == ["cut 0", "cut 1"]


class Picky(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "picky"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "poison" in texts([task]):
            os.kill(os.getpid(), signal.SIGSEGV)
        return task


def test_row_that_kills_the_worker_is_found_in_an_iterator(tmp_path: Path) -> None:
    documents = [f"good {i}" for i in range(10)]
    documents[3] = documents[8] = "poison"
    executor = StreamingExecutor(
        config={"ignore_failures": True}, cpus=2, run_dir=str(tmp_path), show_progress=False, max_retries=0
    )
    results = Pipeline("p", stages=[ListSource([make_batch(documents)]), Cut(), Picky()]).run(executor)
    assert texts(results or []) == [text for text in documents if text != "poison"]
    letters = [json.loads(line) for line in (tmp_path / "dead_letters.jsonl").read_text().splitlines()]
    assert {letter["stage"] for letter in letters} == {"picky"}


@pytest.mark.parametrize("apart", [False, True], ids=["one pool", "two pools"])
def test_every_executor_returns_the_same_tasks(apart: bool, tmp_path: Path) -> None:
    behind = Note([]).with_(resources=Resources(cpus=0.5 if apart else 1.0))
    stages: list[Any] = [ListSource([make_batch(["a", "b", "c"]), make_batch(["d"])]), Cut(), behind]
    for executor in (
        InlineExecutor(run_dir=str(tmp_path), show_progress=False),
        StreamingExecutor(cpus=2, run_dir=str(tmp_path), show_progress=False),
    ):
        results = Pipeline("p", stages=stages).run(executor) or []
        assert texts(results) == ["a", "b", "c", "d"]
        assert [task.task_id.removeprefix(results[0].task_id[:-2]) for task in results[:3]] == ["_0", "_1", "_2"]
