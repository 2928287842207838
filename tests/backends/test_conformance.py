"""A pipeline behaves the same in every backend: in this process, in worker processes, on a Ray cluster.

Each test checks one guarantee for authors of stages. Tests that kill a worker skip places without worker processes.
Tests that do not depend on the code of a stage also run in the simulator, where a law stands for each pool, with the
plan of the same stages.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from places import Docs, Each, Place, somewhere, texts

from penstock import (
    DocumentBatch,
    FileGroupTask,
    ProcessingStage,
    Resources,
    Task,
)
from penstock.backends.simulated.law import Law, constant
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter

Stages = list[Any]

anywhere = somewhere("inline", "local", "simulated", "ray")
place = somewhere("inline", "local", "ray")
workers = somewhere("local", "ray")


# -- what a stage may return -----------------------------------------------------------------------------------


def twice(task: DocumentBatch) -> list[DocumentBatch]:
    return [DocumentBatch("", task.to_pyarrow()), DocumentBatch("", task.to_pyarrow())]


def one_by_one(task: DocumentBatch) -> Iterator[DocumentBatch]:
    return (DocumentBatch("", task.to_pyarrow().slice(i, 1)) for i in range(task.num_items))


def only_b(task: DocumentBatch) -> DocumentBatch | None:
    return task if task.to_pyarrow()["text"][0].as_py().startswith("b") else None


def no_rows(task: DocumentBatch) -> DocumentBatch:
    return DocumentBatch("", task.to_pyarrow().slice(0, 0))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (twice, [["a", "aa"], ["a", "aa"], ["b"], ["b"]]),
        (one_by_one, [["a"], ["aa"], ["b"]]),
        (only_b, [["b"]]),
        (no_rows, [[], []]),
    ],
)
def test_stage_may_return_one_task_many_tasks_none_or_empty_tasks(
    place: Place, function: Any, expected: list[Any]
) -> None:
    source = ListSource([make_batch(["a", "aa"]), make_batch(["b"])])
    assert texts(place.run([source, Each(function)])) == expected


class Together(Docs):
    """Join several tasks into one, so that the output depends on the batches."""

    name = "together"
    batch_size = 3

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        return [DocumentBatch("", pa.concat_tables([task.to_pyarrow() for task in tasks]))]


def test_batches_of_several_tasks_are_deterministic(place: Place) -> None:
    source = ListSource([make_batch([f"{i}a", f"{i}b"]) for i in range(7)])
    results = place.run([source, Each(one_by_one), Together()])
    flat = [f"{i}{letter}" for i in range(7) for letter in "ab"]
    assert texts(results) == [flat[i : i + 3] for i in range(0, 14, 3)]


def test_initial_tasks_replace_a_source(place: Place) -> None:
    given: list[Task[Any]] = [make_batch(["a"]), make_batch(["b"])]
    assert texts(place.run([Each(twice)], initial_tasks=given)) == [["a"], ["a"], ["b"], ["b"]]


def test_number_of_outputs_is_inputs_times_fan_out(anywhere: Place) -> None:
    """Seven tasks become two each, and batches of three are joined; batches do not depend on arrival order."""
    source = ListSource([make_batch([f"{i}a", f"{i}b"]) for i in range(7)])
    listing = Law(constant(0.1), lambda order: 7)
    laws = [listing, Law(constant(0.2), lambda order: 2), Law(constant(0.1), lambda order: int(order[-2:] in FIRSTS))]
    outcome = anywhere.outcome([source, Each(one_by_one), Together()], laws)
    assert (outcome.results, outcome.letters) == (5, 0)
    assert outcome.pools in (None, [(1, 7), (7, 14), (14, 5)])


# The position of the first of each three tasks, which is the origin of the joined task.
FIRSTS = {(i // 2, i % 2) for i in range(0, 14, 3)}


class Clip(Task[np.ndarray[Any, Any]]):
    """A task whose data is not a table."""


class Brighten(ProcessingStage[Clip, Clip]):
    """Change the input in place, as image stages do."""

    name = "brighten"

    def __init__(self, cpus: float) -> None:
        self.resources = Resources(cpus=cpus)

    def process(self, task: Clip) -> Clip:
        task.data += 1
        return task


def test_a_stage_may_change_an_array_in_place(place: Place) -> None:
    clips = [Clip("", np.full(200_000, i, dtype=np.int32)) for i in range(3)]
    results = place.run([ListSource(clips), Brighten(0.5), Brighten(1.5)])
    assert [int(task.data[-1]) for task in results] == [2, 3, 4]


def test_tables_are_returned_unchanged(place: Place) -> None:
    table = pa.table({"text": ["a", None], "n": [1, 2**60], "nested": [[1], [2, 3]]})
    [result] = place.run([ListSource([DocumentBatch("d", table)])])
    assert result.to_pyarrow().equals(table)


# -- the life of a worker --------------------------------------------------------------------------------------


class Diary(Docs):
    """Log every call with its process id."""

    name = "diary"

    def __init__(self, path: Path) -> None:
        self.path = path

    def _note(self, what: str) -> None:
        with self.path.open("a") as stream:
            stream.write(f"{what} {os.getpid()}\n")

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        assert node_info is not None
        assert node_info.node_id
        self._note("setup_on_node")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        assert worker_metadata is not None
        self._note("setup")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self._note("process")
        return task

    def teardown(self) -> None:
        self._note("teardown")

    def lives(self) -> dict[str, list[str]]:
        entries = [line.split() for line in self.path.read_text().splitlines()]
        return {pid: [what for what, owner in entries if owner == pid] for _, pid in entries}


def test_node_is_prepared_once_and_every_worker_is_set_up_and_torn_down(place: Place) -> None:
    stage = Diary(place.folder / "diary").with_(num_workers=2)
    place.run([ListSource([make_batch(["a"]) for _ in range(9)]), stage])
    lives = stage.lives()
    kinds = Counter(what for life in lives.values() for what in life)
    assert kinds["setup_on_node"] == 1
    assert kinds["process"] == 9
    for life in lives.values():
        steps = [what for what in life if what not in ("process", "setup_on_node")]
        assert steps == ["setup", "teardown"]
        assert life[-1] == "teardown"
        if "setup_on_node" in life:
            assert life[0] == "setup_on_node"


class Leisurely(Diary):
    """Keep working until a successor exists: a worker that is not needed is not started."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        done = self.lives()[str(os.getpid())].count("process")
        deadline = time.monotonic() + 60
        while done >= 4 and len(self.lives()) < 2 and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        return super().process(task)


def test_workers_are_replaced_after_max_tasks_per_worker(workers: Place) -> None:
    stage = Leisurely(workers.folder / "diary").with_(num_workers=1, max_tasks_per_worker=3)
    source = ListSource([make_batch(["a"]) for _ in range(6)])
    # Tasks with a timeout are reported one by one, so the driver knows when a worker has done three.
    assert len(workers.run([source, stage], task_timeout_s=120)) == 6
    lives = stage.lives()
    assert len(lives) >= 2
    assert all(life.count("setup") == life.count("teardown") == 1 for life in lives.values())


def test_stage_without_input_emits_nothing(anywhere: Place) -> None:
    outcome = anywhere.outcome([ListSource([]), Each(twice)], [Law(constant(1), lambda order: 0), Law(constant(1))])
    assert (outcome.results, outcome.letters) == (0, 0)


class Surroundings(Docs):
    """Return the GPUs and thread limits that its worker sees."""

    name = "surroundings"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
        return DocumentBatch("", pa.table({name: [os.environ.get(name, "")] for name in names}))


@pytest.mark.parametrize(("need", "gpus"), [(Resources(cpus=2, gpus=2), {"0,1"}), (Resources(cpus=1), {""})])
def test_a_worker_sees_its_own_gpus_and_threads(workers: Place, need: Resources, gpus: set[str]) -> None:
    claims: dict[str, Any] = {"cpus": 4, "gpus": 2} if workers.kind == "local" else {}
    stage = Surroundings().with_(resources=need, num_workers=1)
    results = workers.run([ListSource([make_batch([str(i)]) for i in range(3)]), stage], **claims)
    rows = [row for task in results for row in task.data.to_pylist()]
    assert {row["CUDA_VISIBLE_DEVICES"] for row in rows} == gpus
    assert {row["OMP_NUM_THREADS"] for row in rows} == {f"{need.cpus:g}"}


# -- bytes -----------------------------------------------------------------------------------------------------


class Make(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Make a megabyte of data, quickly."""

    name = "make"

    def process(self, task: FileGroupTask) -> DocumentBatch:
        return DocumentBatch("", pa.table({"data": np.full(125_000, int(task.data[0]))}))


class Sum(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Take longer than the upstream stage."""

    name = "sum"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        data = task.to_pyarrow()["data"].to_numpy()
        for _ in range(5):
            total = int(np.sort(data).sum())
        return DocumentBatch("", pa.table({"total": [total]}))


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_bytes_in_flight_stay_within_the_budget(workers: Place, mode: str) -> None:
    groups = [FileGroupTask("", [str(i)]) for i in range(60)]
    stages: Stages = [ListSource(groups), Make().with_(num_workers=2), Sum().with_(num_workers=1)]
    results = workers.run(stages, memory_budget="5MB", config={"execution_mode": mode})
    assert [task.data["total"][0].as_py() for task in results] == [125_000 * i for i in range(60)]
    assert workers.summary is not None
    assert workers.summary.peak_bytes is not None
    assert workers.summary.peak_bytes <= 5_000_000


def test_bytes_in_flight_are_counted_the_same_in_every_backend(anywhere: Place) -> None:
    groups = [FileGroupTask("", [str(i)]) for i in range(40)]
    stages: Stages = [ListSource(groups), Make().with_(num_workers=2), Sum().with_(num_workers=1)]
    megabyte = Law(constant(0.001), output_bytes=lambda order: 1_000_500)
    laws = [Law(constant(0.01), lambda order: 40, lambda order: 500), megabyte, Law(constant(0.02))]
    outcome = anywhere.outcome(stages, laws, memory_budget="5MB")
    assert (outcome.results, outcome.letters) == (40, 0)
    assert outcome.pools in (None, [(1, 40), (40, 40), (40, 40)])
    assert outcome.peak_bytes is None or 2_000_000 <= outcome.peak_bytes <= 5_000_000


def test_an_item_larger_than_the_budget_still_passes(workers: Place) -> None:
    groups = [FileGroupTask("", [str(i)]) for i in range(4)]
    stages: Stages = [ListSource(groups), Make().with_(num_workers=1), Sum().with_(num_workers=1)]
    assert len(workers.run(stages, memory_budget=300_000)) == 4
    assert workers.summary is not None
    assert workers.summary.peak_bytes is not None
    assert workers.summary.peak_bytes <= 300_000


# -- the same bytes --------------------------------------------------------------------------------------------


def write_corpus(folder: Path, files: int = 8) -> None:
    folder.mkdir()
    for i in range(files):
        documents = [{"id": f"{i}-{j}", "text": "word " * (j + 1)} for j in range(10)]
        (folder / f"{i:02}.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def test_output_and_counts_equal_those_of_a_single_process(workers: Place) -> None:
    write_corpus(workers.folder / "in")

    def stages(target: str) -> Stages:
        filters = ScoreFilter(WordCountFilter(min_words=3), score_field="words")
        reader = JsonlReader(str(workers.folder / "in"))
        writer = JsonlWriter(str(workers.folder / target))
        return [reader, filters, Each(one_by_one), Together(), writer]

    inline = Place("inline", workers.folder)
    first = inline.run(stages("inline"))
    second = workers.run(stages("workers"))
    assert [task.task_id for task in second] == [task.task_id for task in first]
    assert len(files(workers.folder / "inline")) > 8
    assert files(workers.folder / "inline") == files(workers.folder / "workers")
    counts = [
        [(c.stage, c.tasks, c.items_in, c.items_out, c.dropped) for c in run.summary.counters]
        for run in (inline, workers)
        if run.summary is not None
    ]
    assert counts[0] == counts[1]


class UntilTold(Docs):
    """Process a document only after a file exists, and log each input."""

    name = "until_told"
    resources = Resources(cpus=1.5)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        with (self.folder / "given").open("a") as stream:
            stream.write(f"{task.to_pyarrow()['id'][0].as_py()}\n")
        wait_for((self.folder / "go").exists)
        return task

    def take_given(self) -> list[str]:
        given = (self.folder / "given").read_text().split()
        (self.folder / "given").unlink()
        return given


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.01)


def test_second_run_processes_only_what_the_first_has_not_completed(
    workers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(workers.folder / "in", files=40)
    stage = UntilTold(workers.folder)
    stages = [JsonlReader(str(workers.folder / "in")), stage, JsonlWriter(str(workers.folder / "out"))]

    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)

    def interrupt() -> None:
        wait_for((workers.folder / "given").exists)
        signal.raise_signal(signal.SIGINT)
        wait_for(lambda: "running tasks are being finished" in said.getvalue())
        (workers.folder / "go").touch()

    impatient = threading.Thread(target=interrupt)
    impatient.start()
    with pytest.raises(KeyboardInterrupt):
        workers.run(stages, checkpoint=workers.folder / "state")
    impatient.join()
    first = stage.take_given()
    assert 1 <= len(first) < 40
    results = workers.run(stages, checkpoint=workers.folder / "state")
    assert len(results) == 40
    assert sorted(first + stage.take_given()) == sorted(f"{i}-0" for i in range(40))
    assert len(files(workers.folder / "out")) == 40
