"""With small or full shared memory, as in most containers, tasks are stored on disk, and runs do not fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mounts import needs_mounts, with_small_disk
from penstock import Pipeline, StreamingExecutor
from penstock.backends.local.task_files import has_room, write_task
from penstock.errors import OutputError
from penstock.runtime.transport import dump_task, load
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlWriter

# Twelve tasks of 2 MB each are stored at the same time: a stage with a batch size of twelve waits for the last.
SCRIPT = """
import sys
from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources
from penstock.executors.streaming import StreamingExecutor
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlWriter

class All(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "all"
    resources = Resources(cpus=0.9)
    batch_size = 12
    def process(self, task):
        raise AssertionError
    def process_batch(self, tasks):
        return tasks

class Pass(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "pass"
    def process(self, task):
        return task

tasks = [make_batch([f"{i}" + "x" * 2_000_000]) for i in range(12)]
executor = StreamingExecutor(cpus=3, show_progress=False, memory_budget="1GB", run_dir="run", profile=False)
results = Pipeline("p", stages=[ListSource(tasks), Pass(), All(), JsonlWriter("out")]).run(executor)
print(len(results))
"""


@needs_mounts
@pytest.mark.parametrize("size", ["8m", "4k"])
def test_run_with_more_data_in_flight_than_shared_memory_succeeds(size: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    command = with_small_disk(Path("/dev/shm"), size, [sys.executable, "job.py"])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr
    written = [json.loads(path.read_text())["text"] for path in (tmp_path / "out").glob("*.jsonl")]
    assert sorted(text.rstrip("x") for text in written) == sorted(str(number) for number in range(12))
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["budget_bytes"] == 10**9, "tasks on disk for lack of shared memory count against the budget"
    assert summary["peak_bytes"] > 20_000_000


@needs_mounts
def test_doctor_reports_small_shared_memory(tmp_path: Path) -> None:
    command = with_small_disk(Path("/dev/shm"), "64m", [sys.executable, "-m", "penstock", "doctor"])
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "67.1 MB in /dev/shm, 67.1 MB free: too small." in said


def test_task_that_does_not_fit_into_shared_memory_is_written_to_disk(tmp_path: Path) -> None:
    memory, spill = tmp_path / "memory", tmp_path / "spill"
    memory.mkdir()
    spill.mkdir()
    found = os.statvfs(memory)
    assert has_room(memory, 1000)
    assert not has_room(memory, found.f_bavail * found.f_frsize)
    place = write_task(dump_task(make_batch(["small"])), "name", memory, spill)
    assert place == str(memory / "name")
    assert load(place).num_items == 1


@needs_mounts
def test_full_spill_folder_is_named_with_a_remedy(tmp_path: Path) -> None:
    job = SCRIPT.replace('run_dir="run"', 'run_dir="run", spill_dir="spill"')
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "spill").mkdir()
    inner = with_small_disk(tmp_path / "spill", "8m", [sys.executable, "job.py"])
    command = with_small_disk(Path("/dev/shm"), "8m", inner)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the disk is full" in done.stderr
    assert "StreamingExecutor(spill_dir=...)" in done.stderr


@pytest.mark.parametrize("kind", ["a file", "inside a file"])
def test_unusable_spill_folder_is_refused_before_anything_is_written(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old.jsonl").write_text('{"text": "earlier output"}\n')
    spill_dir = tmp_path / ("file" if kind == "a file" else "file/spill")
    stages: list[Any] = [ListSource([make_batch(["a"])]), JsonlWriter(str(tmp_path / "out"), mode="overwrite")]
    with pytest.raises(OutputError, match=r"spill_dir='.*' cannot be used: it is a file, or inside one"):
        Pipeline("p", stages=stages).run(StreamingExecutor(cpus=2, show_progress=False, spill_dir=str(spill_dir)))
    assert (tmp_path / "out/old.jsonl").exists()
