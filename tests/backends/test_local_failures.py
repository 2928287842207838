"""Failures of worker processes and of the driver, with real processes that are really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from misbehaving import Picky
from places import Docs, texts

from penstock import DocumentBatch, Pipeline, Resources
from penstock.backends.local.fork_server import start
from penstock.core.worker_info import WorkerMetadata
from penstock.errors import ClusterError, StageError
from penstock.executors.streaming import StreamingExecutor
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter


def batches() -> list[DocumentBatch]:
    return [make_batch([f"good {i}-{j}" for j in range(8)]) for i in range(4)]


def with_poison() -> list[DocumentBatch]:
    tasks = batches()
    tasks[2] = make_batch([f"good 2-{j}" if j != 5 else "poison" for j in range(8)])
    return tasks


def run(stages: list[Any], tmp_path: Path, **settings: Any) -> list[Any]:
    settings.setdefault("config", {"ignore_failures": True})
    executor = StreamingExecutor(run_dir=str(tmp_path / "run"), show_progress=False, cpus=2, **settings)
    return Pipeline("test", stages=stages).run(executor)


def letters(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "run/dead_letters.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def shared_memory(pid: int) -> list[str]:
    return [path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(f"penstock-{pid}-")]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Any:
    yield
    assert shared_memory(os.getpid()) == []
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    _, alive = psutil.wait_procs(psutil.Process(server).children(recursive=True) if server else [], timeout=5)
    assert alive == []


@pytest.mark.parametrize("what", ["raise", "segfault", "kill", "exit"])
def test_one_bad_row_loses_only_that_row(what: str, tmp_path: Path) -> None:
    results = run([ListSource(with_poison()), Picky(what)], tmp_path)
    expected = texts(with_poison())
    expected[2].remove("poison")
    assert texts(results) == expected
    [letter] = letters(tmp_path)
    assert (letter["stage"], letter["position"], letter["failed"]) == ("picky", 5, True)
    assert "poison" in letter["excerpt"]
    assert letter["reproduce"].startswith("penstock reproduce ")


def test_task_that_hangs_is_killed_and_its_row_found(tmp_path: Path) -> None:
    results = run([ListSource(with_poison()), Picky("hang")], tmp_path, task_timeout_s=2, max_retries=0)
    assert [len(rows) for rows in texts(results)] == [8, 8, 7, 8]
    [letter] = letters(tmp_path)
    assert "took longer than task_timeout_s=2" in letter["reason"]


def test_worker_that_uses_more_than_its_declared_memory_is_killed(tmp_path: Path) -> None:
    stage = Picky("memory").with_(resources=Resources(cpus=1, memory_gb=0.6))
    results = run([ListSource(with_poison()), stage], tmp_path, max_retries=0)
    assert [len(rows) for rows in texts(results)] == [8, 8, 7, 8]
    assert "more than its memory_gb=0.6" in letters(tmp_path)[0]["reason"]


@pytest.mark.parametrize("what", ["raise", "kill"])
def test_task_that_fails_once_is_retried_without_an_error(what: str, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    results = run([ListSource(with_poison()), Picky(what, tmp_path / "marks", times=2)], tmp_path)
    assert texts(results) == texts(with_poison())
    assert letters(tmp_path) == []


def test_by_default_a_failed_row_fails_the_run_after_all_other_rows(tmp_path: Path) -> None:
    stages = [ListSource(with_poison()), Picky("raise"), JsonlWriter(str(tmp_path / "out"))]
    with pytest.raises(StageError) as caught:
        run(stages, tmp_path, config={})
    message = str(caught.value)
    assert "1 input item could not be processed; all others were" in message
    assert "stage 'picky': process failed" in message
    assert "ValueError: this one is poison" in message
    assert "penstock reproduce" in message
    assert sum(len(path.read_text().splitlines()) for path in (tmp_path / "out").glob("*.jsonl")) == 31


@pytest.mark.parametrize(("allowed", "passes"), [(1, True), (0, False), (0.5, True), (0.001, False)])
def test_max_failed_limits_ignored_failures(allowed: float, passes: bool, tmp_path: Path) -> None:
    stages = [ListSource(with_poison()), Picky("raise")]
    if passes:
        assert len(run(stages, tmp_path, max_failed=allowed)) == 4
    else:
        with pytest.raises(StageError, match="could not be processed"):
            run(stages, tmp_path, max_failed=allowed)


def test_run_with_more_failures_than_max_failed_is_stopped_early(tmp_path: Path) -> None:
    tasks = [make_batch(["poison"]) for _ in range(40)]
    stages = [ListSource(tasks), Picky("kill"), JsonlWriter(str(tmp_path / "out"))]
    with pytest.raises(StageError, match="could not be processed; the run was stopped"):
        run(stages, tmp_path, max_failed=1, max_retries=0)
    assert 1 < len(letters(tmp_path)) < 40


class BadSetup(Docs):
    name = "bad_setup"

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        raise FileNotFoundError("weights.bin is not there")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_setup_that_always_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"cannot be set up: .*weights\.bin is not there"):
        run([ListSource(batches()), BadSetup()], tmp_path)


def test_stage_that_cannot_be_pickled_is_named_before_the_run_starts(tmp_path: Path) -> None:
    stage = Picky("raise")
    stage.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"cannot be sent to a worker process.*setup\(\)"):
        run([ListSource(batches()), stage], tmp_path)


SCRIPT = """
import sys, time
from multiprocessing import forkserver
from pathlib import Path
from penstock import DocumentBatch, Pipeline, ProcessingStage
from penstock.executors.streaming import StreamingExecutor
from penstock.text import JsonlReader, JsonlWriter

class Slow(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        Path("began").touch()
        if Path("hurry").exists():
            return task
        while not Path("go").exists():
            time.sleep(0.01)
        return task

executor = StreamingExecutor(cpus=2, show_progress=False)
stages = [JsonlReader("in"), Slow(), JsonlWriter("out")]
Pipeline("script", stages=stages).run(executor, checkpoint_path="state")
print("finished")
"""


def start_script(folder: Path) -> subprocess.Popen[str]:
    """Start a script without a main guard, as users write them, and wait until a worker works."""
    (folder / "in").mkdir(exist_ok=True)
    for i in range(6):
        (folder / f"in/{i}.jsonl").write_text(json.dumps({"text": f"doc {i}"}) + "\n")
    (folder / "job.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "job.py"], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (folder / "began").exists() and process.poll() is None:
        time.sleep(0.01)
    return process


def test_run_survives_a_killed_fork_server(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    children = psutil.Process(process.pid).children()
    [server] = [child for child in children if "multiprocessing.forkserver" in " ".join(child.cmdline())]
    server.kill()
    (tmp_path / "go").touch()
    stdout, stderr = process.communicate(timeout=60)
    assert stdout == "finished\n", stderr
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 6


@pytest.mark.parametrize("deaths", [1, 1000])
def test_fork_server_that_dies_while_forking_is_replaced_a_limited_number_of_times(deaths: int) -> None:
    class Process(BaseProcess):
        tries = 0

        def start(self) -> None:
            self.tries += 1
            if self.tries <= deaths:
                raise EOFError("unexpected EOF")

    process = Process()
    if deaths == 1:
        start(process)
        assert process.tries == 2
    else:
        with pytest.raises(ClusterError, match=r"died 5 times\. Is another process killing it"):
            start(process)


def test_ctrl_c_finishes_running_tasks_and_a_second_run_resumes(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    process.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "running tasks are being finished" in stderr
    assert "Run it with checkpoint state to resume" in stderr
    written = len(list((tmp_path / "out").glob("*.jsonl")))
    assert 1 <= written < 6
    again = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert again.stdout == "finished\n", again.stderr
    lines = sorted(line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines())
    assert lines == [json.dumps({"text": f"doc {i}"}) for i in range(6)]


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    process.send_signal(signal.SIGINT)
    while "running tasks are being finished" not in (process.stderr.readline() if process.stderr else ""):
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0


def test_killed_driver_leaves_no_process_and_no_shared_memory(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    assert len(shared_memory(process.pid)) == 1
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 3
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
    assert shared_memory(process.pid) == []


def test_random_kills_do_not_change_the_output(tmp_path: Path) -> None:
    """Workers kill themselves at random moments, many times; the output is the same, byte for byte."""
    source = tmp_path / "in"
    source.mkdir()
    for i in range(40):
        documents = [{"id": f"{i}-{j}", "text": f"document {i} {j}"} for j in range(20)]
        (source / f"{i:02}.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    marks = tmp_path / "marks"
    marks.mkdir()
    for folder, stage in (("calm", Picky("kill", marks, times=0)), ("wild", Suicidal(marks, kills=25))):
        stages = [
            JsonlReader(str(source)),
            stage.with_(resources=Resources(cpus=0.9)),
            JsonlWriter(str(tmp_path / folder)),
        ]
        run(stages, tmp_path)
    assert len(list(marks.iterdir())) == 25
    calm = {path.name: path.read_bytes() for path in (tmp_path / "calm").glob("*.jsonl")}
    wild = {path.name: path.read_bytes() for path in (tmp_path / "wild").glob("*.jsonl")}
    assert len(calm) == 40
    assert calm == wild


class Suicidal(Docs):
    """Kill the worker on every other task, a limited number of times."""

    name = "suicidal"

    def __init__(self, marks: Path, kills: int) -> None:
        self.marks = marks
        self.kills = kills
        self.seen = 0

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.seen += 1
        done = len(list(self.marks.iterdir()))
        if self.seen % 2 == 0 and done < self.kills:
            (self.marks / str(done)).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return task


def test_tables_are_returned_unchanged() -> None:
    table = pa.table({"text": ["a", None], "n": [1, 2**60], "nested": [[1], [2, 3]]})
    executor = StreamingExecutor(show_progress=False, cpus=2)
    [result] = Pipeline("t", stages=[ListSource([DocumentBatch("d", table)])]).run(executor)
    assert result.to_pyarrow().equals(table)  # type: ignore[attr-defined]
