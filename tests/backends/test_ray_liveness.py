"""A run on Ray ends even if an actor never gets its resources, or stops answering."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_machines import Machines, Running, wait_until_there

from penstock import DocumentBatch, ProcessingStage, Resources
from penstock.errors import StageError
from penstock.testing import ListSource, make_batch

pytestmark = [pytest.mark.ray, pytest.mark.slow]
Docs = ProcessingStage[DocumentBatch, DocumentBatch]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    """Start a head, and one machine with two CPUs."""
    pytest.importorskip("ray")
    machines = Machines()
    machines.add(num_cpus=2)
    yield machines
    machines.close()


@pytest.fixture
def joined(cluster: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    import ray

    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()


class First(Docs):
    """Log that it runs, wait, and return one task per row."""

    name = "first"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:
        (self.folder / "begun").touch()
        wait_until_there(self.folder / "go")
        return [make_batch([text]) for text in task.to_pyarrow()["text"].to_pylist()]


class Then(Docs):
    """Start after the first stage has ended; optionally stop the process by a signal on its first task."""

    name = "then"
    is_barrier = True

    def __init__(self, folder: Path, *, is_stopped: bool = False) -> None:
        self.folder = folder
        self.is_stopped = is_stopped

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self.is_stopped and not (self.folder / "stopped").exists():
            (self.folder / "stopped").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return task


def begin(folder: Path, then: Docs, *, first_cpus: float = 1, on_head: bool = False, **config: float) -> Running:
    source = ListSource([make_batch([str(i) for i in range(4)])])
    first = First(folder).with_(resources=Resources(cpus=first_cpus))
    return Running([source, first, then], folder, ignore_head_node=not on_head, config=config)


def texts(results: list[Any]) -> list[str]:
    return [text for task in results for text in task.to_pyarrow()["text"].to_pylist()]


def test_finished_run_does_not_wait_for_an_actor_without_resources(joined: Machines, tmp_path: Path) -> None:
    """While the first stage runs, another job takes the CPU of the head that a worker of the second one needs."""
    running = begin(tmp_path, Then(tmp_path).with_(num_workers=3), first_cpus=2, on_head=True)
    running.wait_for((tmp_path / "begun").exists)
    other = joined.occupy(1, joined.head)
    (tmp_path / "go").touch()
    try:
        assert texts(running.results()) == ["0", "1", "2", "3"]
    finally:
        joined.vacate(other)


def test_run_whose_resources_were_taken_by_other_jobs_ends_with_an_error(joined: Machines, tmp_path: Path) -> None:
    then = Then(tmp_path).with_(resources=Resources(cpus=2))
    running = begin(tmp_path, then, place_timeout_s=2, stall_timeout_s=8)
    running.wait_for((tmp_path / "begun").exists)
    other = joined.occupy(1)
    (tmp_path / "go").touch()
    try:
        with pytest.raises(StageError, match=r"(?s)nothing has moved for 8 s.*then: 4 items to do"):
            running.results()
    finally:
        joined.vacate(other)


def test_worker_that_does_not_answer_is_replaced(joined: Machines, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    running = begin(tmp_path, Then(tmp_path, is_stopped=True).with_(num_workers=1), stall_timeout_s=5)
    assert texts(running.results()) == ["0", "1", "2", "3"]
    assert (tmp_path / "stopped").exists()
