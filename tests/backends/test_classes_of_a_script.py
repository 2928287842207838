"""Classes of a script or notebook are sent to workers and back, and their failures can be reproduced."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock import Pipeline, ProcessingStage, Resources, StreamingExecutor, Task
from penstock.core.task import EmptyTask
from penstock.errors import StageError
from penstock.runtime.transport import joined, laid_out, load, pickle_task
from penstock.testing import make_batch

# A typical user script: no `if __name__ == "__main__"`, and the data of a task is of a class of the script, too.
SCRIPT = """
from dataclasses import dataclass
import sys
from penstock import Pipeline, ProcessingStage, Resources, StreamingExecutor, Task
from penstock.core.task import EmptyTask

FACTOR = 2

@dataclass
class Sample:
    value: int

@dataclass
class SampleTask(Task[list[Sample]]):
    @property
    def num_items(self):
        return len(self.data)

    def doubled(self):
        return [Sample(FACTOR * sample.value) for sample in self.data]

class Make(ProcessingStage[EmptyTask, SampleTask]):
    def process(self, task: EmptyTask) -> list[SampleTask]:
        return [SampleTask("samples", [Sample(number)]) for number in range(4)]

class Double(ProcessingStage[SampleTask, SampleTask]):
    resources = Resources(cpus=1.5)

    def process(self, task: SampleTask) -> SampleTask:
        assert type(task) is SampleTask and type(task.data[0]) is Sample
        # fails here
        return SampleTask("samples", task.doubled())

class DoubleAgain(Double):
    resources = Resources(cpus=1.2)

def run(stages, given=None):
    executor = StreamingExecutor(backend=sys.argv[1], cpus=3, show_progress=False, profile=False)
    results = Pipeline("script", stages=stages).run(executor, given)
    assert all(type(task) is SampleTask and type(task.data[0]) is Sample for task in results)
    return [sample.value for task in results for sample in task.data]

print(run([Make(), Double(), DoubleAgain()]))
print(run([Double(), DoubleAgain()], [SampleTask("samples", [Sample(number)]) for number in range(3)]))
FACTOR = 10
print(SampleTask("samples", [Sample(1)]).doubled()[0].value)
"""


def run_script(
    folder: Path, backend: str, *, script: str = SCRIPT, from_standard_input: bool = False
) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(script)
    return subprocess.run(
        [sys.executable, "-" if from_standard_input else "job.py", backend],
        cwd=folder,
        input=script if from_standard_input else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "ray":
        request.getfixturevalue("on_ray")
    return str(request.param)


@pytest.mark.parametrize("from_standard_input", [False, True], ids=["script", "no file"])
def test_task_classes_of_a_script_are_sent_to_workers_and_back(
    tmp_path: Path, backend: str, from_standard_input: bool
) -> None:
    done = run_script(tmp_path, backend, from_standard_input=from_standard_input)
    assert done.returncode == 0, done.stderr
    # The class of the script is unchanged: it sees a global variable that is changed after the run.
    assert done.stdout.splitlines() == ["[0, 4, 8, 12]", "[0, 4, 8]", "10"]


def test_printed_command_reproduces_the_failure(tmp_path: Path, backend: str) -> None:
    done = run_script(tmp_path, backend, script=SCRIPT.replace("# fails here", "assert task.data[0].value != 3"))
    [line] = [line for line in done.stderr.splitlines() if "To see it fail: " in line]
    command = shlex.split(line.partition("To see it fail: penstock ")[2])
    again = subprocess.run(
        [sys.executable, "-m", "penstock", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1, again.stdout
    assert "assert task.data[0].value != 3" in again.stderr


@dataclass(repr=False)
class Locked(Task[None]):
    lock: Any = field(default_factory=threading.Lock)


class MakeLocked(ProcessingStage[EmptyTask, Locked]):
    def process(self, task: EmptyTask) -> list[Locked]:
        return [Locked("locks", None)]


class Pass(ProcessingStage[Locked, Locked]):
    resources = Resources(cpus=1.5)

    def process(self, task: Locked) -> Locked:
        return task


def test_task_that_cannot_be_pickled_is_named_and_its_failure_is_reproducible(tmp_path: Path) -> None:
    executor = StreamingExecutor(backend="local", cpus=2, show_progress=False, run_dir=str(tmp_path / "run"))
    with pytest.raises(StageError, match=r"\(Locked\) cannot be sent to another process: .*pickle '_thread\.lock'"):
        Pipeline("p", stages=[MakeLocked(), Pass()]).run(executor)
    files = list((tmp_path / "run/failures").iterdir())
    again = subprocess.run(
        [sys.executable, "-m", "penstock", "reproduce", "--trust", str(files[0])],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    assert again.returncode == 1, again.stdout
    assert "cannot be sent to another process" in again.stderr


def test_importable_classes_are_sent_by_name() -> None:
    header, buffers = pickle_task(make_batch(["a"]))
    assert b"cloudpickle" not in header
    assert load(joined(laid_out(header, buffers))).data["text"].to_pylist() == ["a"]


def test_class_local_to_a_function_is_sent_by_value_and_reused() -> None:
    @dataclass
    class Local(Task[int]):
        pass

    header, buffers = pickle_task(Local("numbers", 7))
    found = load(joined(laid_out(header, buffers)))
    assert type(found) is Local
    assert found.data == 7
