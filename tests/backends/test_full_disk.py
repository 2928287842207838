"""A full disk stops the run with an error; no document is rejected, and the run can be resumed."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from places import Place, somewhere

from penstock import DocumentBatch, Task
from penstock.errors import OutputError, StageError
from penstock.runtime.isolation import call_with_care, stops_everybody
from penstock.testing import make_batch
from penstock.text import JsonlWriter, Modify

workers = somewhere("local", "ray")


class Writer(JsonlWriter):
    """Fail with a full disk on one document unless a marker file exists."""

    def __init__(self, path: Path, space_marker: Path) -> None:
        super().__init__(path)
        self.space_marker = space_marker

    def write_documents(self, task: DocumentBatch, stream: Any) -> None:
        if "doc 7" in task.column("text").to_pylist() and not self.space_marker.exists():
            stream.write(b'{"text"')
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_documents(task, stream)


def batches() -> list[Task[Any]]:
    return [make_batch([f"doc {number}", f"more of {number}"]) for number in range(12)]


def written(folder: Path) -> dict[str, list[str]]:
    lines = {path.name: path.read_text().splitlines() for path in folder.glob("*.jsonl")}
    return {name: [json.loads(line)["text"] for line in of_file] for name, of_file in lines.items()}


def test_full_disk_stops_the_run_without_rejecting_documents(workers: Place, tmp_path: Path) -> None:
    space_marker, checkpoint = tmp_path / "space", tmp_path / "checkpoint"
    stages = [Modify(str.upper).with_(name="shout"), Modify(str.lower), Writer(tmp_path / "out", space_marker)]
    with pytest.raises(StageError, match=r"out/.*\.jsonl: the disk is full"):
        workers.run(stages, initial_tasks=batches(), checkpoint=checkpoint)
    assert workers.letters() == []
    assert workers.summary is not None
    assert workers.summary.stopped is not None
    assert all(len(texts) == 2 for texts in written(tmp_path / "out").values()), "no file with a part of a batch"
    space_marker.touch()
    workers.run(stages, initial_tasks=batches(), checkpoint=checkpoint)
    workers.run([*stages[:-1], Writer(tmp_path / "whole", space_marker)], initial_tasks=batches())
    assert len(written(tmp_path / "out")) == 12
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_disk_that_fills_during_the_search_for_bad_rows_stops_the_run() -> None:
    def call(tasks: list[Task[Any]]) -> list[Task[Any]]:
        if sum(task.num_items for task in tasks) > 2:
            raise ValueError("one of these is bad")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        call_with_care(call, [make_batch(["a", "b", "c", "d"])], max_attempts=1)


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EDQUOT, "more than you may"), True),
        (PermissionError(errno.EACCES, "not yours to read"), False),
        (FileNotFoundError(errno.ENOENT, "gone"), False),
        (ValueError("a bad row"), False),
    ],
)
def test_only_errors_that_affect_every_task_stop_a_run(error: Exception, stops: bool) -> None:
    assert stops_everybody(error) is stops
    wrapped = StageError("stage 's' failed")
    wrapped.__cause__ = error
    assert stops_everybody(wrapped) is stops


def test_output_folder_without_write_permission_stops_a_run() -> None:
    refused = OutputError("out/a.jsonl: not writable by this user")
    refused.__cause__ = PermissionError(errno.EACCES, "not yours to write")
    assert stops_everybody(refused)
