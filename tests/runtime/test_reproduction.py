"""A failure file is opened only if the user trusts it, because opening it runs the code in it."""

from __future__ import annotations

import os
import pickle
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, ProcessingStage, Task
from penstock.core.lineage import root_tasks
from penstock.errors import InputError
from penstock.runtime.reproduction import keep_failure, load_failure
from penstock.testing import make_batch


class Harm:
    """Create a file when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


class Refuse(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        raise ValueError("no")


def reproduce(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", "reproduce", *arguments], capture_output=True, text=True, check=False
    )


def kept(folder: Path) -> Path:
    path = folder / "failures" / "w0-1.pickle"
    tasks: list[Task[Any]] = root_tasks([make_batch(["a"])])
    assert keep_failure(path, [Refuse()], tasks) == f"penstock reproduce --trust {path}"
    return path


@pytest.mark.parametrize("options", [[], ["--show"]])
def test_code_in_a_failure_file_does_not_run_unless_trusted(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "planted.pickle"
    path.write_bytes(pickle.dumps(Harm(tmp_path / "ran")))
    os.utime(path, (0, 1_700_000_000))
    done = reproduce(*options, str(path))
    assert done.returncode == 2
    assert not (tmp_path / "ran").exists()
    assert "opening it runs whatever code is in it" in done.stderr
    assert f"It belongs to user {pwd.getpwuid(os.getuid()).pw_name} and was last changed on 2023-11-" in done.stderr
    assert f"penstock reproduce --trust {path}" in done.stderr


def test_trusted_failure_file_reproduces_the_failure(tmp_path: Path) -> None:
    path = kept(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    steps, tasks = load_failure(path, trusted=True)
    assert [type(step) for step in steps] == [Refuse]
    assert tasks[0].data["text"].to_pylist() == ["a"]


def test_world_writable_failure_file_is_refused_even_if_trusted(tmp_path: Path) -> None:
    path = kept(tmp_path)
    path.chmod(0o666)
    owner = pwd.getpwuid(os.getuid()).pw_name
    with pytest.raises(InputError, match=rf"Every user of this machine may change it.*\n.*--owner {owner}"):
        load_failure(path, trusted=True)
    assert load_failure(path, trusted=True, owner=owner)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_failure_file_of_another_user_is_refused_even_if_trusted(tmp_path: Path) -> None:
    path = kept(tmp_path)
    os.chown(path, 12345, -1)
    with pytest.raises(InputError, match=r"belongs to user 12345.*another user has written what would run as you"):
        load_failure(path, trusted=True)
    with pytest.raises(InputError):
        load_failure(path, owner="12345")
    assert load_failure(path, trusted=True, owner="12345")


def test_failure_of_a_stage_that_cannot_be_pickled_is_not_stored_and_raises_nothing(tmp_path: Path) -> None:
    stage = Refuse()
    stage.connection = (tmp_path / "file").open("w")  # type: ignore[attr-defined]
    assert keep_failure(tmp_path / "w0-1.pickle", [stage], [make_batch(["a"])]) == ""
    stage.connection.close()  # type: ignore[attr-defined]
