"""Workers that are killed while writing leave no temporary files, neither during the run nor after it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import IO, Any

import pytest
from places import Docs, Place, somewhere

from penstock import DocumentBatch
from penstock.errors import StageError
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlWriter

workers = somewhere("local", "ray")
local = somewhere("local")


def temporary_files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*.penstock-tmp"))


class KilledWriter(JsonlWriter):
    """A writer whose worker is killed in the middle of a file, a limited number of times."""

    def __init__(self, path: Path, marks: Path, times: int) -> None:
        super().__init__(path)
        self.marks = marks
        self.times = times

    def write_documents(self, task: DocumentBatch, stream: IO[bytes]) -> None:
        stream.write(b"half")
        stream.flush()
        if "poison" in task.to_pyarrow()["text"].to_pylist() and len(list(self.marks.iterdir())) < self.times:
            (self.marks / str(time.monotonic_ns())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        stream.seek(0)
        super().write_documents(task, stream)


def batches() -> list[DocumentBatch]:
    return [make_batch([text]) for text in ("good", "poison", "fine")]


def test_worker_killed_while_writing_leaves_no_temporary_file(workers: Place) -> None:
    marks, out = workers.folder / "marks", workers.folder / "out"
    marks.mkdir()
    workers.run([ListSource(batches()), KilledWriter(out, marks, times=2)])
    assert len(list(marks.iterdir())) == 2
    assert len(list(out.glob("*.jsonl"))) == 3
    assert temporary_files(workers.folder) == []


def test_failed_run_leaves_no_temporary_file(local: Place) -> None:
    marks, out = local.folder / "marks", local.folder / "out"
    marks.mkdir()
    with pytest.raises(StageError):
        local.run([ListSource(batches()), KilledWriter(out, marks, times=1000)], max_retries=0)
    assert list(marks.iterdir())
    assert temporary_files(local.folder) == []


class WaitsForOrder(Docs):
    """Wait until no temporary file is left, while another worker is killed as it writes."""

    name = "waits_for_order"

    def __init__(self, folder: Path, marks: Path) -> None:
        self.folder = folder
        self.marks = marks

    def process(self, task: DocumentBatch) -> Any:
        deadline = time.monotonic() + 120
        if "last" in task.to_pyarrow()["text"].to_pylist():
            while not list(self.marks.iterdir()) or temporary_files(self.folder):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"still there: {temporary_files(self.folder)}")
                time.sleep(0.01)
        return task


def test_temporary_files_of_a_killed_worker_are_removed_during_the_run(local: Place) -> None:
    marks, out = local.folder / "marks", local.folder / "out"
    marks.mkdir()
    given = [make_batch([text]) for text in ("poison", "last")]
    local.run([ListSource(given), WaitsForOrder(out, marks).with_(num_workers=2), KilledWriter(out, marks, times=1)])
    assert len(list(out.glob("*.jsonl"))) == 2
