"""A cluster shared with other jobs: object stores that fill up, objects that are lost, resources in use."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ray_machines import Machines, Running, summary, wait_until_there

from penstock import DocumentBatch, ProcessingStage, Resources
from penstock.testing import ListSource, make_batch

pytestmark = [pytest.mark.ray, pytest.mark.slow]
Docs = ProcessingStage[DocumentBatch, DocumentBatch]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    """Start a head, and one machine with three CPUs."""
    pytest.importorskip("ray")
    machines = Machines()
    machines.add(num_cpus=3)
    yield machines
    machines.close()


@pytest.fixture
def joined(cluster: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Connect to it, as a script does that uses Ray itself."""
    import ray

    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()


class Make(Docs):
    """Make a large task from a small one, on the machine with two free CPUs, and log it."""

    name = "make"
    resources = Resources(cpus=2)

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.rows = rows

    def process(self, task: DocumentBatch) -> DocumentBatch:
        number = int(task.to_pyarrow()["text"][0].as_py())
        with (self.folder / f"made-{number}").open("a") as stream:
            stream.write("once ")
        return DocumentBatch("", pa.table({"number": np.full(self.rows, number)}))


class Hold(Docs):
    """Process nothing before it may."""

    name = "hold"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        (self.folder / f"held-{os.getpid()}").touch()
        wait_until_there(self.folder / "go")
        numbers = task.to_pyarrow()["number"].to_numpy()
        return DocumentBatch("", pa.table({"number": [int(numbers[0])], "rows": [len(numbers)]}))


class HoldLate(Hold):
    """Finish setup only when it may."""

    def setup(self, worker_metadata: object = None) -> None:
        wait_until_there(self.folder / "up")


def sources(count: int) -> ListSource:
    return ListSource([make_batch([str(i)]) for i in range(count)])


def rows(results: list[Any]) -> list[dict[str, int]]:
    return [row for task in results for row in task.to_pyarrow().to_pylist()]


def count(folder: Path, pattern: str) -> int:
    return len(list(folder.glob(pattern)))


def test_object_store_is_not_filled_to_the_point_of_spilling(joined: Machines, tmp_path: Path) -> None:
    """Four tasks would be more than Ray keeps in one store, and the budget for both stores allows five.

    A fourth may have been made by the only worker, which has to keep it until there is space.
    """
    many = 3_000_000
    stages = [sources(12), Make(tmp_path, many).with_(num_workers=1), HoldLate(tmp_path).with_(num_workers=1)]
    running = Running(stages, tmp_path)
    running.wait_for(lambda: count(tmp_path, "made-*") >= 2)
    threading.Event().wait(1.0)  # that something does not happen can only be seen by waiting
    made_while_held = count(tmp_path, "made-*")
    (tmp_path / "up").touch()
    running.wait_for(lambda: count(tmp_path, "held-*") >= 1)
    threading.Event().wait(1.0)
    made = count(tmp_path, "made-*")
    (tmp_path / "go").touch()
    assert rows(running.results()) == [{"number": i, "rows": many} for i in range(12)]
    assert made_while_held <= made <= 4
    assert joined.spilled_bytes() == 0


def test_lost_objects_are_recomputed(joined: Machines, tmp_path: Path) -> None:
    """No machine is lost: only its objects are, and a call that needs one fails with that error."""
    import ray
    from ray.exceptions import ObjectLostError

    from penstock.backends.ray.payload import StoreObject

    def gone() -> None:
        raise ObjectLostError("", None, "")

    nothing = ray.remote(num_cpus=0, max_retries=0)(gone)

    running = Running([sources(20), Make(tmp_path, 50_000), Hold(tmp_path).with_(num_workers=1)], tmp_path)
    running.wait_for(lambda: count(tmp_path, "held-*") >= 1 and count(tmp_path, "made-*") >= 4)
    stored = [thing for thing in gc.get_objects() if isinstance(thing, StoreObject) and thing.reference is not None]
    assert any(store_object.node is not None for store_object in stored)
    for store_object in stored:
        store_object.reference = nothing.remote()
    (tmp_path / "go").touch()
    assert rows(running.results()) == [{"number": i, "rows": 50_000} for i in range(20)]
    counted = {stage["stage"]: stage["items_out"] for stage in summary(tmp_path)["stages"]}
    assert counted["make"] == 20 * 50_000  # what was done twice is counted once, and some was:
    assert sum(len(path.read_text().split()) for path in tmp_path.glob("made-*")) > 20


class Begin(Docs):
    """Log that a worker has started, and wait."""

    name = "begin"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        (self.folder / f"began-{os.getpid()}").touch()
        wait_until_there(self.folder / "go")
        return task


def test_run_uses_free_resources_and_grows_when_other_jobs_end(
    joined: Machines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large, small = joined.occupy(2), joined.occupy(1)
    said: list[str] = []

    def waits() -> bool:
        captured = capsys.readouterr()
        said.append(captured.out + captured.err)
        return "Waiting for other jobs" in "".join(said)

    running = Running([sources(12), Begin(tmp_path)], tmp_path, ignore_head_node=True, show_progress=True)
    running.wait_for(waits)
    line = next(line for line in "".join(said).splitlines() if "Waiting" in line)
    assert "which leave 1 node, 0 CPUs" in line
    assert "needs 1 CPU" in line
    joined.vacate(large)
    running.wait_for(lambda: count(tmp_path, "began-*") == 2)
    joined.vacate(small)
    running.wait_for(lambda: count(tmp_path, "began-*") == 3)
    (tmp_path / "go").touch()
    assert len(running.results()) == 12
    assert count(tmp_path, "began-*") == 3
    assert any("+1' joined" in plan["reason"] for plan in summary(tmp_path)["plans"])
