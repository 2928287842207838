"""Failures of a stage have the same effect in every backend: a rejected row, a retry, or a failed run."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from misbehaving import Picky
from places import Docs, Place, somewhere, texts

from penstock import (
    DocumentBatch,
    Resources,
)
from penstock.backends.simulated.law import Law, constant
from penstock.core.worker_info import WorkerMetadata
from penstock.errors import PlanError, StageError
from penstock.testing import ListSource, make_batch

anywhere = somewhere("inline", "local", "simulated", "ray")
workers = somewhere("local", "ray")
# Places whose workers can die, real or simulated.
mortal = somewhere("local", "simulated", "ray")


def with_poison() -> list[DocumentBatch]:
    return [make_batch(["good", "poison" if i == 1 else "fine", "well"]) for i in range(3)]


def without_poison() -> list[list[str]]:
    return [[text for text in batch if text != "poison"] for batch in texts(with_poison())]


@pytest.mark.parametrize("what", ["raise", "segfault"])
def test_one_bad_row_loses_only_that_row(workers: Place, what: str) -> None:
    stages = [ListSource(with_poison()), Picky(what)]
    results = workers.run(stages, config={"ignore_failures": True}, max_retries=0)
    assert texts(results) == without_poison()
    [letter] = workers.letters()
    assert (letter["stage"], letter["position"], letter["failed"]) == ("picky", 1, True)
    assert letter["reproduce"].startswith("penstock reproduce ")
    assert Path(letter["reproduce"].split()[-1]).exists()


def test_row_that_kills_its_worker_is_found_and_no_other_row_is_lost(mortal: Place) -> None:
    stages = [ListSource(with_poison()), Picky("segfault")]
    laws = [
        Law(constant(0.1), lambda order: 3, rows=3),
        Law(constant(0.1), poison=lambda order: (1,) if order[-1] == 1 else ()),
    ]
    outcome = mortal.outcome(stages, laws, config={"ignore_failures": True}, max_retries=0)
    assert (outcome.results, outcome.letters) == (3, 1)


def test_error_names_cause_and_row_and_the_command_to_reproduce_it(workers: Place) -> None:
    with pytest.raises(StageError) as caught:
        workers.run([ListSource(with_poison()), Picky("segfault" if workers.kind == "ray" else "raise")], max_retries=0)
    message = str(caught.value)
    assert "1 input item could not be processed; all others were" in message
    assert "penstock reproduce" in message
    if workers.kind == "ray":  # the log of a worker elsewhere is not at hand otherwise
        assert "SIGSEGV" in message
        assert "in process" in message


@pytest.mark.parametrize("what", ["raise", "exit"])
def test_task_that_fails_once_is_retried_without_an_error(workers: Place, what: str) -> None:
    stages = [ListSource(with_poison()), Picky(what, workers.folder / "marks", times=1)]
    assert texts(workers.run(stages)) == texts(with_poison())
    assert workers.letters() == []


class BadSetup(Docs):
    name = "bad_setup"

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        raise FileNotFoundError("weights.bin is not there")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_setup_that_always_fails_ends_the_run_with_its_reason(anywhere: Place) -> None:
    laws = [Law(constant(0.1), lambda order: 3), Law(constant(0.1), setup_fails=lambda attempt: True)]
    with pytest.raises(StageError, match=r"weights\.bin is not there|setup failed"):
        anywhere.outcome([ListSource(with_poison()), BadSetup()], laws)


def test_stage_that_cannot_be_pickled_is_named_before_the_run_starts(workers: Place) -> None:
    stage = Picky("raise")
    stage.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match=r"'picky' cannot be sent to a worker process.*setup\(\)"):
        workers.run([ListSource(with_poison()), stage])


class Hang(Docs):
    """Hang on a poisonous document."""

    name = "hang"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "poison" in task.to_pyarrow()["text"].to_pylist():
            threading.Event().wait()
        return task


def test_task_that_hangs_is_killed_and_its_row_found(workers: Place) -> None:
    settings: dict[str, Any] = {"config": {"ignore_failures": True}, "task_timeout_s": 3.0, "max_retries": 0}
    assert texts(workers.run([ListSource(with_poison()), Hang()], **settings)) == without_poison()
    assert "took longer than task_timeout_s=3" in workers.letters()[0]["reason"]


class HangNoting(Hang):
    """Log every input document."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        with (self.folder / task.task_id).open("a") as stream:
            stream.write("once ")
        return super().process(task)


def test_task_that_hangs_does_not_repeat_other_tasks(workers: Place) -> None:
    """Short tasks are sent ahead; those that end before the one that hangs are reported in time."""
    given = [make_batch(["poison" if number == 150 else f"text {number}"]) for number in range(200)]
    settings: dict[str, Any] = {"config": {"ignore_failures": True}, "task_timeout_s": 3.0, "max_retries": 0}
    stage = HangNoting(workers.folder / "noted").with_(num_workers=1)
    (workers.folder / "noted").mkdir()
    assert len(workers.run([stage], initial_tasks=given, **settings)) == 199
    assert [letter["task_id"] for letter in workers.letters()] == ["0_150"]
    noted = {path.name: len(path.read_text().split()) for path in (workers.folder / "noted").iterdir()}
    assert {name for name, times in noted.items() if times > 1} <= {"0_150"}
    assert len(noted) == 200


class KillNoted(Docs):
    """Kill the worker on a poisonous document."""

    name = "killed"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "poison" in task.to_pyarrow()["text"].to_pylist():
            os._exit(3)
        return task


def test_task_that_kills_its_worker_does_not_repeat_other_tasks(workers: Place) -> None:
    given = [make_batch(["poison" if number == 150 else f"text {number}"]) for number in range(200)]
    settings: dict[str, Any] = {"config": {"ignore_failures": True}, "max_retries": 0}
    assert len(workers.run([KillNoted().with_(num_workers=1)], initial_tasks=given, **settings)) == 199
    assert [letter["task_id"] for letter in workers.letters()] == ["0_150"]


def test_worker_that_uses_more_than_its_declared_memory_is_killed(workers: Place) -> None:
    stage = Hoard().with_(resources=Resources(cpus=1, memory_gb=0.6))
    settings: dict[str, Any] = {"config": {"ignore_failures": True}, "max_retries": 0}
    assert texts(workers.run([ListSource(with_poison()), stage], **settings)) == without_poison()
    assert "more than its memory_gb=0.6" in workers.letters()[0]["reason"]


class Hoard(Docs):
    """Allocate a gigabyte for a poisonous document."""

    name = "hoard"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "poison" in task.to_pyarrow()["text"].to_pylist():
            hoard = bytearray(900_000_000)
            hoard[::4096] = b"x" * len(hoard[::4096])
            threading.Event().wait()
        return task
