"""Worker processes that are reused for another pool, and those that must not be."""

from __future__ import annotations

import json
import os
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.backends.local.backend import LocalBackend
from penstock.backends.local.fork_server import fork_server
from penstock.backends.local.messages import MessageChannel
from penstock.backends.local.spares import Spare, Spares
from penstock.dedup import ExactDeduplicationWorkflow
from penstock.schedule.actions import Action, StartWorker
from penstock.testing import make_batch


def test_phases_of_a_deduplication_reuse_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": i, "text": f"text {i % 7}"}) for i in range(20)]
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(lines))
    begun: list[int] = []
    forked: list[Any] = []
    start, carry_out = ForkServerProcess.start, LocalBackend.carry_out

    def count_start(process: ForkServerProcess) -> None:
        forked.append(process)
        start(process)

    def count_action(backend: LocalBackend, action: Action) -> None:
        if isinstance(action, StartWorker):
            begun.append(action.pool)
        carry_out(backend, action)

    monkeypatch.setattr(ForkServerProcess, "start", count_start)
    monkeypatch.setattr(LocalBackend, "carry_out", count_action)
    workflow = ExactDeduplicationWorkflow(
        str(tmp_path / "out"), str(tmp_path / "in"), input_filetype="jsonl", perform_removal=True, show_progress=False
    )
    found = workflow.run(StreamingExecutor(show_progress=False, cpus=2))
    assert found.metadata["num_duplicates"] == 13
    assert {*begun} == {*range(6)}, "a pool for each phase; joining stages share the pool of their phase"
    assert len(forked) <= 4, "three workers at the same time, and the cleaner of the run's folders"
    for process in forked:
        process.join(timeout=10)
    assert not any(process.is_alive() for process in forked)


class WhoAmI(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Create a file with its process id in the name."""

    def __init__(self, name: str, folder: str, cpus: float) -> None:
        self.name = name
        self.folder = folder
        self.resources = Resources(cpus=cpus)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        Path(self.folder, f"{self.name}-{os.getpid()}").touch()
        return task


def test_user_stages_do_not_reuse_processes(tmp_path: Path) -> None:
    stages = [WhoAmI(name, str(tmp_path), cpus).with_(batch_size=1) for name, cpus in (("a", 1), ("b", 1.5))]
    executor = StreamingExecutor(show_progress=False, cpus=4, config={"execution_mode": "batch"})
    Pipeline("p", stages=stages).run(executor, [make_batch(["x"]) for _ in range(4)])
    seen = [path.name.split("-") for path in tmp_path.iterdir()]
    assert {name for name, _ in seen} == {"a", "b"}
    assert not {pid for name, pid in seen if name == "a"} & {pid for name, pid in seen if name == "b"}


def _exit() -> None:
    pass


def test_only_live_processes_that_have_not_served_the_pool_are_reused() -> None:
    context = fork_server(["penstock.dedup.preload"])
    ours, theirs = context.Pipe()
    dead, alive = context.Process(target=_exit), context.Process(target=theirs.recv)
    for process in (dead, alive):
        process.start()
    dead.join()
    spares = Spares()
    spares.add(Spare(dead, MessageChannel(ours), 1, frozenset({0}), 0.0))
    spares.add(Spare(alive, MessageChannel(ours), 1, frozenset({0}), 0.0))
    assert spares.pids == [dead.pid, alive.pid]
    assert spares.take(0, 1) is None, "a process never serves the same pool twice"
    assert spares.take(1, 2) is None, "another number of threads"
    spares.let_go(1.0)
    taken = spares.take(1, 1)
    assert taken is not None
    assert taken.process is alive
    spares.add(taken)
    spares.let_go(10.0)
    alive.join(timeout=10)
    assert not alive.is_alive()
    assert spares.take(1, 1) is None
