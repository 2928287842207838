"""The driver of the local backend never waits for a process that does not answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, Pipeline, ProcessingStage, StreamingExecutor
from penstock.errors import StageError
from penstock.executors import streaming_run
from penstock.testing import ListSource, make_batch

Docs = ProcessingStage[DocumentBatch, DocumentBatch]


class Stops(Docs):
    """Stop its own process by a signal on one task, once for each token file in the folder."""

    name = "stops"

    def __init__(self, folder: Path, times: int) -> None:
        self.folder = folder
        self.times = times

    def process(self, task: DocumentBatch) -> DocumentBatch:
        seen = len(list(self.folder.glob("stopped-*")))
        if task.to_pyarrow()["text"][0].as_py() == "0" and seen < self.times:
            (self.folder / f"stopped-{seen}").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return task


def executor(folder: Path, **config: float) -> StreamingExecutor:
    return StreamingExecutor(dict(config), backend="local", cpus=2, run_dir=str(folder / "run"), show_progress=False)


def sources(count: int) -> ListSource:
    return ListSource([make_batch([str(i)]) for i in range(count)])


def test_stopped_worker_is_replaced_and_no_task_is_lost(tmp_path: Path) -> None:
    """More messages wait for the worker than the driver could send without blocking."""
    source = ListSource([make_batch([str(i), "x" * 6_000]) for i in range(200)])
    stages: list[ProcessingStage[Any, Any]] = [source, Stops(tmp_path, 1).with_(num_workers=1)]
    results: list[Any] = Pipeline("p", stages=stages).run(executor(tmp_path, stall_timeout_s=0.5))
    assert [task.to_pyarrow()["text"][0].as_py() for task in results] == [str(i) for i in range(200)]
    assert not (tmp_path / "run/dead_letters.jsonl").exists()


def test_task_that_stops_every_worker_ends_the_run_and_names_the_state(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"(?s)given to 3 workers.*none of them answered.*stops: 2 items to do"):
        Pipeline("p", stages=[sources(2), Stops(tmp_path, 99).with_(num_workers=1)]).run(
            executor(tmp_path, stall_timeout_s=0.3)
        )
    pids = [int(path.read_text()) for path in tmp_path.glob("stopped-*")]
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


class Long(Docs):
    """Take several times the stall timeout for a task."""

    name = "long"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(1.5)
        return task


def test_long_task_of_a_live_worker_is_not_a_stall(tmp_path: Path) -> None:
    assert len(Pipeline("p", stages=[sources(2), Long()]).run(executor(tmp_path, stall_timeout_s=0.2))) == 2


class SlowStart(Docs):
    """Only its first worker becomes ready; the others are set up until the test is over."""

    name = "slow"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def setup(self, worker_metadata: object = None) -> None:
        try:
            (self.folder / "first").touch(exist_ok=False)
        except FileExistsError:
            (self.folder / f"waits-{os.getpid()}").touch()
            wait_until(lambda: (self.folder / "go").exists())

    def process(self, task: DocumentBatch) -> DocumentBatch:
        wait_until(lambda: any(self.folder.glob("waits-*")))
        return task


def wait_until(is_so: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        threading.Event().wait(0.02)


def test_finished_run_does_not_wait_long_for_workers_in_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_run, "_STOP_TIMEOUT_S", 1.0)
    results = Pipeline("p", stages=[sources(4), SlowStart(tmp_path).with_(num_workers=2)]).run(executor(tmp_path))
    assert len(results) == 4
    [waiting] = tmp_path.glob("waits-*")
    wait_until(lambda: not Path(f"/proc/{waiting.name.split('-')[1]}").exists())
    assert not Path(f"/proc/{waiting.name.split('-')[1]}").exists()


class NeverReady(Docs):
    name = "never"

    def setup(self, worker_metadata: object = None) -> None:
        threading.Event().wait(120)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_setup_that_hangs_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"workers of pool 'never' cannot be set up: .* start_timeout_s=0.5"):
        Pipeline("p", stages=[sources(1), NeverReady()]).run(executor(tmp_path, start_timeout_s=0.5))


def test_fork_server_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing import forkserver

    from penstock.backends.local import fork_server

    Pipeline("p", stages=[sources(1)]).run(executor(tmp_path))
    end_server = fork_server._end_server

    def end_this_one() -> None:
        monkeypatch.setattr(fork_server, "_ANSWER_TIMEOUT_S", 300.0)
        end_server()

    monkeypatch.setattr(fork_server, "_ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(fork_server, "_end_server", end_this_one)
    with stopped(forkserver._forkserver._forkserver_pid):  # type: ignore[attr-defined]
        assert len(Pipeline("p", stages=[sources(3)]).run(executor(tmp_path))) == 3


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    yield
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("key", ["place_timeout_s", "start_timeout_s", "stall_timeout_s"])
def test_timeout_of_zero_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key}=0; it has to be more than 0 seconds"):
        StreamingExecutor({key: 0})
