"""A pipeline on worker processes: the same bytes as in one process, within the budget, with the promised life cycle."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import (
    DocumentBatch,
    FileGroupTask,
    InlineExecutor,
    Pipeline,
    ProcessingStage,
    Resources,
    StreamingExecutor,
    Task,
)
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter

Docs = ProcessingStage[DocumentBatch, DocumentBatch]


def streaming(folder: Path, **settings: Any) -> StreamingExecutor:
    settings.setdefault("cpus", 3)
    return StreamingExecutor(show_progress=False, run_dir=str(folder / "run"), **settings)


def summary(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "run/summary.json").read_text())
    return data


class Shout(Docs):
    """Needs more than a core, so that it is a pool of its own."""

    name = "shout"
    resources = Resources(cpus=1.5)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_pyarrow()
        loud = pa.array([text.upper() for text in table["text"].to_pylist()], pa.large_string())
        return DocumentBatch(task.dataset_name, table.set_column(1, "text", loud))


class Halves(Docs):
    """Turns one task into two."""

    name = "halves"

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:
        table, middle = task.to_pyarrow(), task.num_items // 2
        return [DocumentBatch("", part) for part in (table.slice(0, middle), table.slice(middle))]


class Together(Docs):
    """Makes one task of several: what it makes depends on which come together."""

    name = "together"
    batch_size = 3

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        return [DocumentBatch("", pa.concat_tables([task.to_pyarrow() for task in tasks]))]


def write_corpus(folder: Path, files: int = 12) -> None:
    folder.mkdir()
    for i in range(files):
        documents = [{"id": f"{i}-{j}", "text": "word " * (j + 1)} for j in range(10)]
        (folder / f"{i:02}.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))


@pytest.mark.parametrize("cpus", [2, 5])
def test_the_output_is_the_same_as_in_one_process(tmp_path: Path, cpus: int) -> None:
    write_corpus(tmp_path / "in")

    def stages(target: str) -> list[Any]:
        filters = ScoreFilter(WordCountFilter(min_words=3), score_field="words")
        reader = JsonlReader(str(tmp_path / "in"))
        return [reader, filters, Halves(), Shout(), Together(), JsonlWriter(str(tmp_path / target))]

    inline = Pipeline("p", stages=stages("inline")).run(InlineExecutor(show_progress=False))
    local = Pipeline("p", stages=stages("local")).run(streaming(tmp_path, cpus=cpus))
    assert [task.task_id for task in local] == [task.task_id for task in inline]
    one = {path.name: path.read_bytes() for path in (tmp_path / "inline").glob("*.jsonl")}
    other = {path.name: path.read_bytes() for path in (tmp_path / "local").glob("*.jsonl")}
    assert len(one) == 8
    assert one == other


def test_counts_are_those_of_one_process(tmp_path: Path) -> None:
    tasks = [make_batch(["a b c", "a"]) for _ in range(5)]
    stages: list[Any] = [ListSource(tasks), ScoreFilter(WordCountFilter(min_words=2)), Shout()]
    inline, local = InlineExecutor(show_progress=False), streaming(tmp_path)
    for executor in (inline, local):
        Pipeline("p", stages=stages).run(executor)
    assert inline.last_summary is not None
    assert local.last_summary is not None
    seen = [
        [(c.stage, c.tasks, c.items_in, c.items_out, c.dropped) for c in s.counters]
        for s in (inline.last_summary, local.last_summary)
    ]
    assert seen[0] == seen[1]


class Diary(Docs):
    """Writes down what is done to it, and where."""

    name = "diary"

    def __init__(self, path: Path) -> None:
        self.path = path

    def _note(self, what: str) -> None:
        with self.path.open("a") as stream:
            stream.write(f"{what} {os.getpid()}\n")

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._note("setup_on_node")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._note("setup")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self._note("process")
        return task

    def teardown(self) -> None:
        self._note("teardown")


def read_diary(path: Path) -> list[tuple[str, str]]:
    return [(what, pid) for what, pid in (line.split() for line in path.read_text().splitlines())]


def test_a_node_is_prepared_once_and_every_worker_is_set_up_and_torn_down(tmp_path: Path) -> None:
    stage = Diary(tmp_path / "diary").with_(num_workers=3)
    source = ListSource([make_batch(["a"]) for _ in range(9)])
    Pipeline("p", stages=[source, stage]).run(streaming(tmp_path, cpus=5))
    entries = read_diary(tmp_path / "diary")
    kinds = [what for what, _ in entries]
    assert kinds[0] == "setup_on_node"
    assert kinds.count("setup_on_node") == 1
    assert kinds.count("process") == 9
    lives = {pid: [what for what, who in entries if who == pid] for _, pid in entries}
    assert len(lives) == 3
    for life in lives.values():
        steps = [what for what in life if what not in ("setup_on_node", "process")]
        assert steps == ["setup", "teardown"]
        assert life[-1] == "teardown"


def test_workers_are_replaced_after_so_many_tasks(tmp_path: Path) -> None:
    stage = Diary(tmp_path / "diary").with_(num_workers=1, ray_stage_spec={"max_calls_per_worker": 4})
    source = ListSource([make_batch(["a"]) for _ in range(12)])
    results = Pipeline("p", stages=[source, stage]).run(streaming(tmp_path, cpus=1))
    assert len(results) == 12
    worked = Counter(pid for what, pid in read_diary(tmp_path / "diary") if what == "process")
    assert len(worked) >= 3
    kinds = Counter(what for what, _ in read_diary(tmp_path / "diary"))
    assert kinds["setup"] == kinds["teardown"]


class Surroundings(Docs):
    """Says what its worker sees."""

    name = "surroundings"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
        return DocumentBatch("", pa.table({name: [os.environ[name]] for name in names}))


def test_a_worker_sees_its_own_gpus_and_threads(tmp_path: Path) -> None:
    stage = Surroundings().with_(resources=Resources(cpus=2, gpus=2), num_workers=2)
    tasks = [make_batch([str(i)]) for i in range(20)]
    results = Pipeline("p", stages=[ListSource(tasks), stage]).run(
        streaming(tmp_path, cpus=8, gpus=4, gpu_memory_gb=80)
    )
    rows = [row for task in results for row in task.data.to_pylist()]
    assert {row["CUDA_VISIBLE_DEVICES"] for row in rows} <= {"0,1", "2,3"}
    assert {row["OMP_NUM_THREADS"] for row in rows} == {"2"}


class Make(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Makes a megabyte of data, quickly."""

    name = "make"

    def process(self, task: FileGroupTask) -> DocumentBatch:
        return DocumentBatch("", pa.table({"data": np.full(125_000, int(task.data[0]))}))


class Sum(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes longer than what comes before it."""

    name = "sum"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        data = task.to_pyarrow()["data"].to_numpy()
        for _ in range(20):
            total = int(np.sort(data).sum())
        return DocumentBatch("", pa.table({"total": [total]}))


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_no_more_bytes_than_the_budget_are_in_flight(tmp_path: Path, mode: str) -> None:
    """120 MB through a budget of 5 MB, a fast stage before a slow one."""
    groups = [FileGroupTask("", [str(i)]) for i in range(120)]
    stages: list[Any] = [ListSource(groups), Make().with_(num_workers=2), Sum().with_(num_workers=1)]
    executor = streaming(tmp_path, memory_budget="5MB", config={"execution_mode": mode})
    results = Pipeline("p", stages=stages).run(executor)
    assert [task.data["total"][0].as_py() for task in results] == [125_000 * i for i in range(120)]
    assert summary(tmp_path)["peak_bytes"] <= 5_000_000


def test_an_item_larger_than_the_budget_passes_through_the_disk(tmp_path: Path) -> None:
    groups = [FileGroupTask("", [str(i)]) for i in range(6)]
    stages: list[Any] = [ListSource(groups), Make().with_(num_workers=1), Sum().with_(num_workers=1)]
    results = Pipeline("p", stages=stages).run(streaming(tmp_path, memory_budget=300_000))
    assert len(results) == 6
    assert summary(tmp_path)["peak_bytes"] <= 300_000


def test_thirty_stages_run_on_two_cores_even_where_each_insists_on_a_worker(tmp_path: Path) -> None:
    tasks = [make_batch([f"document {i}"]) for i in range(4)]
    insisting: list[Any] = [Nothing(f"stage-{i}").with_(num_workers=1) for i in range(30)]
    results = Pipeline("p", stages=[ListSource(tasks), *insisting]).run(streaming(tmp_path, cpus=2))
    assert len(results) == 4
    fused = Pipeline("p", stages=[ListSource(tasks), *(Nothing(f"stage-{i}") for i in range(30))])
    fused.run(streaming(tmp_path, cpus=2))
    assert [len(pool["stages"]) for pool in summary(tmp_path)["pools"]] == [1, 30]


class Nothing(Docs):
    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_the_summary_tells_pools_and_plans(tmp_path: Path) -> None:
    Pipeline("p", stages=[ListSource([make_batch(["a"])]), Shout()]).run(streaming(tmp_path))
    told = summary(tmp_path)
    assert [pool["name"] for pool in told["pools"]] == ["list_source", "shout"]
    assert told["pools"][1]["border"] == "'list_source' is the source: what it gives spreads over workers"
    assert told["plans"][0]["reason"] == "start"
    assert told["budget_bytes"] > 0


def test_initial_tasks_take_the_place_of_a_source(tmp_path: Path) -> None:
    given: Sequence[Task[Any]] = [make_batch(["a"]), make_batch(["b"])]
    results = Pipeline("p", stages=[Shout()]).run(streaming(tmp_path), initial_tasks=given)
    assert [task.data["text"].to_pylist() for task in results] == [["A"], ["B"]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"config": {"loging_interval": 1}}, "unknown setting 'loging_interval'.*Did you mean 'logging_interval'"),
        ({"config": {"execution_mode": "fast"}}, "it is 'streaming' or 'batch'"),
        ({"memory_budget": "lots"}, "'lots' is not a size"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        StreamingExecutor(**settings)
