"""A run without progress for some time explains why."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock import DocumentBatch, Pipeline, ProcessingStage, StreamingExecutor
from penstock.executors import streaming_run
from penstock.testing import ListSource, make_batch


class Slow(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "slow"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(1.5)
        return task


def test_console_explains_why_there_is_no_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streaming_run, "_SILENCE_S", 0.5)
    executor = StreamingExecutor(cpus=2, run_dir=str(tmp_path))
    Pipeline("wait", stages=[ListSource([make_batch(["a"])]), Slow()]).run(executor)
    said = capsys.readouterr().err
    assert "Nothing has moved for" in said
    assert "runs for 1 s" in said
