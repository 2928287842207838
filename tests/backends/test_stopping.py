"""Runs stopped by a signal or killed: running tasks are finished, the exit code is set, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from places import Each

from penstock import DocumentBatch, InlineExecutor, Pipeline, StreamingExecutor
from penstock.errors import Terminated
from penstock.executors.open_run import OpenRun
from penstock.testing import ListSource, make_batch

DEADLINE_S = 60.0
FILES = 6

# Three pools, so that tasks wait in shared memory; the last one waits for a file before it passes anything on.
SCRIPT = """
import os, time
from pathlib import Path
from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources
from penstock.executors.streaming import StreamingExecutor
from penstock.executors import stop_signals
from penstock.text import JsonlReader, JsonlWriter

class Pass(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "pass"
    resources = Resources(cpus=0.9)
    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task

class Wait(Pass):
    name = "wait"
    resources = Resources(cpus=0.8)
    def process(self, task: DocumentBatch) -> DocumentBatch:
        Path("began").touch()
        while not Path("go").exists():
            time.sleep(0.01)
        return task

stop_signals.GRACE_S = float(os.environ.get("GRACE", stop_signals.GRACE_S))
executor = StreamingExecutor(cpus=3, show_progress=False, spill_dir="spill")
stages = [JsonlReader("in"), Pass(), Wait(), JsonlWriter("out")]
Pipeline("script", stages=stages).run(executor, checkpoint_path="state")
print("finished")
"""


def write_job(folder: Path) -> None:
    (folder / "in").mkdir()
    for number in range(FILES):
        text = f"document {number} " * 2000
        (folder / f"in/{number}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (folder / "job.py").write_text(SCRIPT)


def start(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the job in a separate process group, and wait until its last pool has work."""
    process = subprocess.Popen(
        [sys.executable, "job.py"],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    deadline = time.monotonic() + DEADLINE_S
    while not (folder / "began").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def left_behind(folder: Path, pid: int) -> list[Path]:
    """Return the files of a process in shared memory, its spill folder and the temporary folder."""
    in_memory = [*Path("/dev/shm").glob(f"penstock-{pid}-*"), *Path(tempfile.gettempdir()).glob(f"penstock-*{pid}-*")]
    return [*in_memory, *(folder / "spill").iterdir()]


def assert_all_gone(folder: Path, pid: int, family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, timeout=DEADLINE_S)
    assert alive == []
    assert left_behind(folder, pid) == []


@pytest.mark.parametrize(
    ("number", "code", "to_group"),
    [(signal.SIGTERM, 143, False), (signal.SIGTERM, 143, True), (signal.SIGHUP, 129, True)],
)
def test_signal_finishes_running_tasks_and_the_run_can_be_resumed(
    number: signal.Signals, code: int, to_group: bool, tmp_path: Path
) -> None:
    write_job(tmp_path)
    process = start(tmp_path, GRACE=str(DEADLINE_S))
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(left_behind(tmp_path, process.pid)) == 2
    (os.killpg if to_group else os.kill)(process.pid, number)
    (tmp_path / "go").touch()
    _, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code, stderr
    assert f"Stopping on {number.name}: running tasks are being finished" in stderr
    assert "Run it with checkpoint state to resume" in stderr
    assert "Traceback" not in stderr
    assert_all_gone(tmp_path, process.pid, family)
    assert not (tmp_path / "out/_penstock/dead_letters.jsonl").exists()
    assert 1 <= len(list((tmp_path / "out").glob("*.jsonl"))) <= FILES
    again = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert again.stdout == "finished\n", again.stderr
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    written = [json.loads(line)["text"] for line in lines]
    assert sorted(written) == [f"document {number} " * 2000 for number in range(FILES)]


def test_tasks_that_exceed_the_grace_period_are_abandoned(tmp_path: Path) -> None:
    write_job(tmp_path)
    process = start(tmp_path, GRACE="0.3")
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 143, stderr
    assert "Run it with checkpoint state to resume" in stderr
    assert_all_gone(tmp_path, process.pid, family)


@pytest.mark.parametrize("to_group", [False, True], ids=["the driver", "the group"])
def test_killed_driver_with_several_pools_leaves_no_files_or_processes(to_group: bool, tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "go").touch()
    for attempt in range(2):
        process = start(tmp_path)
        family = psutil.Process(process.pid).children(recursive=True)
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)
        assert_all_gone(tmp_path, process.pid, family)
        (tmp_path / "began").unlink()
        (tmp_path / "state/journal.penstock").rename(tmp_path / f"journal-{attempt}")


def test_workers_and_helper_processes_ignore_signals_for_the_driver(tmp_path: Path) -> None:
    """Some schedulers send SIGTERM to every process of a job, regardless of its process group."""
    write_job(tmp_path)
    process = start(tmp_path)
    family = psutil.Process(process.pid).children(recursive=True)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        for child in family:
            child.send_signal(number)
    (tmp_path / "go").touch()
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert stdout == "finished\n", stderr
    assert "died" not in stderr
    assert_all_gone(tmp_path, process.pid, family)


def test_program_started_by_a_stage_can_be_terminated() -> None:
    def start_and_end(task: DocumentBatch) -> DocumentBatch:
        program = subprocess.Popen(["sleep", "1000"])
        program.terminate()
        assert program.wait(timeout=DEADLINE_S) == -signal.SIGTERM
        return task

    stages: list[Any] = [ListSource([make_batch(["a"])]), Each(start_and_end)]
    assert len(Pipeline("p", stages=stages).run(StreamingExecutor(cpus=2, show_progress=False))) == 1


def test_signal_that_the_process_ignores_remains_ignored(tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "job.py").write_text(f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{SCRIPT}")
    process = start(tmp_path)
    os.killpg(process.pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    assert process.communicate(timeout=DEADLINE_S)[0] == "finished\n"


EXECUTORS: list[Any] = [InlineExecutor, StreamingExecutor]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("moment", ["before it begins", "while the ledger is written", "while it runs"])
def test_sigterm_at_any_point_ends_the_run_and_restores_the_handlers(
    executor: Any, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    driver = os.getpid()

    def work(task: DocumentBatch) -> DocumentBatch:
        if moment == "while it runs":
            os.kill(driver, signal.SIGTERM)
        return task

    stage = Each(work)
    if moment == "before it begins":
        monkeypatch.setattr(Each, "before_run", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    if moment == "while the ledger is written":
        monkeypatch.setattr(OpenRun, "tidy", lambda _: signal.raise_signal(signal.SIGTERM))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    pipeline = Pipeline("p", stages=[ListSource([make_batch(["a"]), make_batch(["b"])]), stage])
    with pytest.raises(Terminated) as caught:
        pipeline.run(executor(run_dir=str(tmp_path / "run"), show_progress=False))
    assert caught.value.code == 143
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    said = capfd.readouterr().err
    if moment == "while the ledger is written":
        assert "'p' had done all of its work when it was stopped." in said
        assert (tmp_path / "run/summary.json").exists()
    elif moment == "while it runs":
        assert "'p' stopped" in said
    assert list(Path("/dev/shm").glob(f"penstock-{driver}-*")) == []


def test_run_in_another_thread_installs_no_signal_handlers() -> None:
    results: list[Any] = []
    before = signal.getsignal(signal.SIGTERM)

    def run() -> None:
        pipeline = Pipeline("p", stages=[ListSource([make_batch(["a"])])])
        results.extend(pipeline.run(StreamingExecutor(cpus=2, show_progress=False)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(DEADLINE_S)
    assert len(results) == 1
    assert signal.getsignal(signal.SIGTERM) is before
