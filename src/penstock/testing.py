"""Test stages: make a batch, run a stage, check that it follows the contract of a stage."""

from __future__ import annotations

import copy
import os
import shutil
import weakref
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.lineage import root_tasks
from penstock.core.rejection import Rejection
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask, Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.runtime.transport import dump_task, joined, load
from penstock.runtime.worker import ChainResult, ChainRunner
from penstock.storage.owned_folders import make_owned_folder

__all__ = ["ListSink", "ListSource", "assert_stage_contract", "make_batch", "run_stage", "run_stage_with_rejections"]


def make_batch(texts: Sequence[str | None], text_field: str = "text", **columns: Sequence[Any]) -> DocumentBatch:
    """Make a batch of documents with ids ``doc-0``, ``doc-1``, … and any further columns.

    >>> make_batch(["a", None], url=["x", "y"]).to_pyarrow().to_pylist()[1]
    {'id': 'doc-1', 'text': None, 'url': 'y'}
    """
    data = {"id": [f"doc-{i}" for i in range(len(texts))], text_field: pa.array(texts, pa.large_string()), **columns}
    return DocumentBatch("test", pa.table(data))


def run_stage(stage: ProcessingStage[Any, Any], *tasks: Task[Any]) -> list[Task[Any]]:
    """Run some tasks through a stage as a worker would: set up, process, tear down. The stage itself is not changed.

    >>> from penstock.text import ScoreFilter, WordCountFilter
    >>> [kept] = run_stage(ScoreFilter(WordCountFilter(min_words=2)), make_batch(["one", "one two"]))
    >>> kept.num_items
    1
    """
    return _run(stage, tasks).outputs


def run_stage_with_rejections(
    stage: ProcessingStage[Any, Any], *tasks: Task[Any]
) -> tuple[list[Task[Any]], list[Rejection]]:
    """Run a stage, and return its outputs and the records it set aside.

    >>> import tempfile
    >>> from penstock.core.files import FileGroupTask
    >>> from penstock.text import JsonlReaderStage
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     _ = file.write('{"text": "one"}' + chr(10) + "not JSON")
    ...     file.flush()
    ...     [batch], [rejected] = run_stage_with_rejections(JsonlReaderStage(), FileGroupTask("demo", [file.name]))
    >>> batch.num_items, rejected.position
    (1, 2)
    """
    result = _run(stage, tasks)
    return result.outputs, result.rejections


def _run(stage: ProcessingStage[Any, Any], tasks: Sequence[Task[Any]]) -> ChainResult:
    worker = ChainRunner([copy.deepcopy(stage)])
    try:
        worker.start(NodeInfo("test"), WorkerMetadata("test"))
        return worker.run(root_tasks(tasks or None))
    finally:
        worker.stop()


class ListSource(ProcessingStage[EmptyTask, Task[Any]]):
    """A source that emits the tasks it was constructed with.

    >>> from penstock import InlineExecutor, Pipeline
    >>> sink = ListSink()
    >>> pipeline = Pipeline("demo", stages=[ListSource([make_batch(["one", "two"])]), sink])
    >>> _ = pipeline.run(InlineExecutor(show_progress=False))
    >>> [task.num_items for task in sink.tasks]
    [2]
    """

    name = "list_source"

    def __init__(self, tasks: Sequence[Task[Any]]) -> None:
        self.tasks = list(tasks)

    def process(self, task: EmptyTask) -> list[Task[Any]]:
        """Return copies, so that a second run starts from unchanged tasks."""
        return [copy.copy(given) for given in self.tasks]


class ListSink(ProcessingStage[Task[Any], Task[Any]]):
    """A sink that collects tasks from all worker processes in ``tasks``, in the order of the input.

    >>> sink = ListSink()
    >>> _ = run_stage(sink, make_batch(["one", "two"]))
    >>> [task.num_items for task in sink.tasks]
    [2]
    """

    name = "list_sink"

    def __init__(self) -> None:
        # Tasks are kept in files, because the stage may run in another process.
        self._folder = make_owned_folder("sink")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def process(self, task: Task[Any]) -> Task[Any]:
        """Store a task and return it unchanged."""
        target = self._folder / task.task_id
        temporary = self._folder / f".{task.task_id}.{os.getpid()}"
        temporary.write_bytes(joined(dump_task(task)))
        temporary.replace(target)
        return task

    @property
    def tasks(self) -> list[Task[Any]]:
        """The tasks collected so far."""
        kept = [load(path.read_bytes()) for path in self._folder.iterdir() if not path.name.startswith(".")]
        return sorted(kept, key=lambda task: (task._order, task.task_id))


def assert_stage_contract(stage: ProcessingStage[Any, Any], batch: DocumentBatch) -> None:
    """Assert that a stage declares its columns, is deterministic, and accepts empty and null documents.

    >>> from penstock.text import ScoreFilter, WordCountFilter
    >>> assert_stage_contract(ScoreFilter(WordCountFilter(), score_field="words"), make_batch(["a b", "c"]))
    """
    cloudpickle.loads(cloudpickle.dumps(stage))  # a worker may run in another process
    missing = stage.missing_from(batch)
    assert not missing, f"the batch given for the test lacks {missing}, which '{stage.name}' declares as inputs"
    first, second = run_stage(stage, batch), run_stage(stage, batch)
    assert _content(first) == _content(second), f"'{stage.name}' returns a different result the second time"
    for output in first:
        if isinstance(output, DocumentBatch):
            absent = set(stage.outputs()[1]) - set(output.get_columns())
            assert not absent, (
                f"'{stage.name}' declares the columns {sorted(absent)} as outputs, but does not return them"
            )
    _, text_columns = stage.input_spec_for_task(type(batch))
    table = batch.to_pyarrow()
    odd_batches = {"an empty batch": table.slice(0, 0)}
    for column in text_columns:
        kind = table.schema.field(column).type
        if pa.types.is_large_string(kind) or pa.types.is_string(kind):
            position = table.schema.get_field_index(column)
            for label, value in (("null", None), ("empty", ""), ("white-space", " \n\t ")):
                values = pa.array([value] * table.num_rows, kind)
                odd_batches[f"{label} documents"] = table.set_column(position, column, values)
    for label, odd in odd_batches.items():
        try:
            run_stage(stage, DocumentBatch(batch.dataset_name, odd))
        except Exception as error:
            raise AssertionError(f"'{stage.name}' fails on {label}: {error}") from error


def _content(tasks: Sequence[Task[Any]]) -> list[Any]:
    # As text: NaN is not equal to itself.
    return [repr(task.to_pyarrow().to_pylist()) if isinstance(task, DocumentBatch) else task.data for task in tasks]
