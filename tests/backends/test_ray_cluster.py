"""Several machines: workers are placed as their resources require, and tasks of a lost machine are made again.

The machines are nodes of a Ray cluster on this one; their GPUs are claimed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ray_machines import Machines, Running, run, summary, wait_until_there

from penstock import DocumentBatch, ProcessingStage, Resources
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import ClusterError, PlanError
from penstock.testing import ListSource, make_batch

pytestmark = [pytest.mark.ray, pytest.mark.slow]
Docs = ProcessingStage[DocumentBatch, DocumentBatch]


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    pytest.importorskip("ray")
    machines = Machines()
    monkeypatch.setenv("RAY_ADDRESS", machines.address)
    yield machines
    machines.close()


class Whereabouts(Docs):
    """Return the node it runs on and the resources it has there."""

    def __init__(self, name: str, need: Resources) -> None:
        self.name = name
        self.resources = need

    def process(self, task: DocumentBatch) -> DocumentBatch:
        import ray

        context = ray.get_runtime_context()
        assigned = context.get_assigned_resources()
        here = {"node": context.get_node_id(), "CPU": assigned.get("CPU", 0), "GPU": assigned.get("GPU", 0)}
        table = task.to_pyarrow()
        seen = [
            {**json.loads(text), self.name: here} if text else {self.name: here} for text in table["text"].to_pylist()
        ]
        return task.with_columns({"text": pa.array([json.dumps(entry) for entry in seen], pa.large_string())})


def seen(results: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(text) for task in results for text in task.to_pyarrow()["text"].to_pylist()]


def test_workers_are_placed_as_their_resources_require(machines: Machines, tmp_path: Path) -> None:
    cpu_node = machines.add(num_cpus=3)
    gpu_node = machines.add(num_cpus=2, num_gpus=2, labels={"penstock/gpu-memory-gb": "24"})
    stages = [
        ListSource([make_batch([""]) for _ in range(6)]),
        Whereabouts("clean", Resources(cpus=1.5)).with_(num_workers=2),
        Whereabouts("share", Resources(cpus=0.5, gpu_memory_gb=8)).with_(num_workers=2),
        Whereabouts("whole", Resources(cpus=0.5, gpus=1)),
    ]
    results = seen(run(stages, tmp_path, ignore_head_node=True))
    assert len(results) == 6
    assert {entry["clean"]["node"] for entry in results} == {cpu_node.node_id}
    assert {entry["share"]["node"] for entry in results} == {gpu_node.node_id}
    assert {entry["whole"]["node"] for entry in results} == {gpu_node.node_id}
    assert {entry["clean"]["CPU"] for entry in results} == {1.5}
    # 8 GB of a GPU with 24 GB, in Ray's unit of one ten-thousandth, rounded down.
    assert {entry["share"]["GPU"] for entry in results} == {0.3333}
    assert {entry["whole"]["GPU"] for entry in results} == {1.0}


def test_stage_that_fits_on_no_machine_is_refused_before_the_run_starts(machines: Machines, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="has no GPU"):
        run([ListSource([]), Whereabouts("model", Resources(gpus=1))], tmp_path)
    with pytest.raises(ClusterError, match="only the head node"):
        run([ListSource([])], tmp_path, ignore_head_node=True)


class Prepared(Docs):
    """Log where it is prepared, and wait until it may continue."""

    name = "prepared"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        assert node_info is not None
        with (self.folder / f"prepared-{node_info.node_id}").open("a") as stream:
            stream.write("once\n")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        import ray

        (self.folder / f"began-{ray.get_runtime_context().get_node_id()}").touch()
        wait_until_there(self.folder / "go")
        return task


def test_machine_that_joins_during_a_run_is_used(machines: Machines, tmp_path: Path) -> None:
    source = ListSource([make_batch([str(i)]) for i in range(12)])
    running = Running([source, Prepared(tmp_path)], tmp_path)
    running.wait_for(lambda: any(tmp_path.glob("began-*")))
    joined = machines.add(num_cpus=2)
    running.wait_for((tmp_path / f"began-{joined.node_id}").exists)
    (tmp_path / "go").touch()
    assert len(running.results()) == 12
    assert (tmp_path / f"prepared-{joined.node_id}").read_text() == "once\n"
    assert any("joined" in plan["reason"] for plan in summary(tmp_path)["plans"])


class Grow(Docs):
    """Make a large task from a small one, too large to be sent through the driver."""

    name = "grow"
    resources = Resources(cpus=1)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        number = int(task.to_pyarrow()["text"][0].as_py())
        return DocumentBatch("", pa.table({"number": np.full(50_000, number)}))


class Hold(Docs):
    """Pass two tasks, then wait until it may continue, while large tasks queue up before it."""

    name = "hold"
    resources = Resources(cpus=0.5)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        numbers = task.to_pyarrow()["number"].to_numpy()
        (self.folder / f"held-{int(numbers[0])}-{os.getpid()}").touch()
        wait_until_there(self.folder / "go")
        return DocumentBatch("", pa.table({"number": [int(numbers[0])], "sum": [int(numbers.sum())]}))


def expected() -> list[dict[str, int]]:
    return [{"number": i, "sum": 50_000 * i} for i in range(30)]


def stages(folder: Path) -> list[Any]:
    source = ListSource([make_batch([str(i)]) for i in range(30)])
    return [source, Grow(), Hold(folder).with_(num_workers=2)]


def rows(results: list[Any]) -> list[dict[str, int]]:
    return [row for task in results for row in task.to_pyarrow().to_pylist()]


def test_lost_machine_does_not_change_the_output(machines: Machines, tmp_path: Path) -> None:
    """Large tasks are stored on a machine when it is lost; they are made again from the source tasks."""
    machines.add(num_cpus=2)
    doomed = machines.add(num_cpus=2)
    running = Running(stages(tmp_path), tmp_path)
    running.wait_for(lambda: len(list(tmp_path.glob("held-*"))) >= 2)
    machines.remove(doomed)
    (tmp_path / "go").touch()
    assert rows(running.results()) == expected()
    told = summary(tmp_path)
    assert any("was lost" in plan["reason"] for plan in told["plans"])
    counted = {stage["stage"]: stage["items_out"] for stage in told["stages"]}
    assert counted["hold"] == 30
    assert counted["grow"] == 30 * 50_000  # what was done twice is counted once


def test_killed_worker_does_not_change_the_output(machines: Machines, tmp_path: Path) -> None:
    machines.add(num_cpus=3)
    running = Running(stages(tmp_path), tmp_path)
    running.wait_for(lambda: any(tmp_path.glob("held-*")))
    victim = next(iter(tmp_path.glob("held-*")))
    os.kill(int(victim.name.split("-")[2]), signal.SIGKILL)
    (tmp_path / "go").touch()
    assert rows(running.results()) == expected()


class Variable(Docs):
    """Return a variable of its environment."""

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, task: DocumentBatch) -> DocumentBatch:
        said = [*task.to_pyarrow()["text"].to_pylist(), f"{self.name}={os.environ.get('FLAVOUR')}"]
        return DocumentBatch("", pa.table({"text": pa.array(said, pa.large_string())}))


def test_each_stage_has_its_own_environment(machines: Machines, tmp_path: Path) -> None:
    machines.add(num_cpus=2)
    stages = [
        ListSource([make_batch([])]),
        Variable("one").with_(runtime_env={"env_vars": {"FLAVOUR": "sweet"}}),
        Variable("two").with_(runtime_env={"env_vars": {"FLAVOUR": "sour"}}),
    ]
    [result] = run(stages, tmp_path)
    assert result.to_pyarrow()["text"].to_pylist() == ["one=sweet", "two=sour"]


def test_address_without_a_cluster_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ClusterError, match="no Ray cluster answers at RAY_ADDRESS"):
        run([ListSource([])], tmp_path)
