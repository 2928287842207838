"""Only one run at a time may use a folder, and the error names the other run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

from penstock import InlineExecutor, Pipeline
from penstock.errors import OutputError
from penstock.storage import run_lock
from penstock.storage.leftovers import temporary_name
from penstock.storage.run_lock import Holder, RunLock
from penstock.testing import make_batch
from penstock.text import JsonlReader, JsonlWriter

HOLDS = """
    import sys
    from penstock.storage.run_lock import RunLock
    lock = RunLock(sys.argv[1])
    lock.take()
    print("holds", flush=True)
    sys.stdin.read()
"""

WRITES = """
    import sys
    from penstock import InlineExecutor, Pipeline, ProcessingStage
    from penstock.testing import make_batch
    from penstock.text import JsonlWriter
    class Waits(ProcessingStage):
        def process(self, task):
            print("holds", flush=True)
            sys.stdin.read()
            return task
    Pipeline("p", stages=[Waits(), JsonlWriter(sys.argv[1])]).run(InlineExecutor(show_progress=False), [make_batch(["a"])])
"""


@contextmanager
def other_process(script: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"holds\n"
            yield other
        finally:
            other.kill()


def test_second_process_is_rejected_until_the_first_releases_the_lock(tmp_path: Path) -> None:
    lock = RunLock(str(tmp_path / "new/_penstock/lock"), removes_folder=True)
    with other_process(HOLDS, tmp_path / "new/_penstock/lock") as other:
        with pytest.raises(OutputError) as caught:
            lock.take()
        message = str(caught.value)
        assert f"{tmp_path}/new/_penstock: another run is at work there: process {other.pid} on " in message
        assert "Let it end, or stop it and run again; or give another output." in message
        other.kill()
        other.wait()
        lock.take()
        assert json.loads((tmp_path / "new/_penstock/lock").read_text())["pid"] == os.getpid()
    lock.release()
    assert not (tmp_path / "new/_penstock").exists()


def test_one_process_cannot_take_a_lock_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one, other = RunLock(str(tmp_path / "lock")), RunLock(str(tmp_path / "link/lock"))
    one.take()
    with pytest.raises(OutputError, match=f"process {os.getpid()} "):
        other.take()
    one.release()
    other.take()
    other.release()
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_failed_lock_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="a part of this path is a file"):
        RunLock(str(tmp_path / "file/_penstock/lock")).take()
    lock = RunLock(str(tmp_path / "a/b/lock"))
    lock.take()
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def store() -> Iterator[fsspec.AbstractFileSystem]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()
    store.pseudo_dirs[:] = [""]


def left_by(store: fsspec.AbstractFileSystem, **changes: object) -> None:
    holder = {**json.loads(Holder.this_process().written()), "token": "another", **changes}
    store.pipe_file("/bucket/lock", json.dumps(holder).encode())


def test_remote_lock_is_valid_while_its_heartbeat_is_recent(store: fsspec.AbstractFileSystem) -> None:
    lock = RunLock("memory://bucket/lock")
    left_by(store)
    with pytest.raises(OutputError, match="another run is at work there"):
        lock.take()
    left_by(store, machine="elsewhere", pid=1, host="elsewhere")
    with pytest.raises(OutputError, match="process 1 on elsewhere"):
        lock.take()
    left_by(store, machine="elsewhere", beat=time.time() - 1000)
    lock.take()
    lock.release()
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    left_by(store, pid=dead.pid)
    lock.take()
    assert json.loads(store.cat_file("/bucket/lock"))["pid"] == os.getpid()
    lock.release()
    assert not store.exists("/bucket/lock")


def test_remote_lock_holder_renews_its_heartbeat(
    store: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lock, "_HEARTBEAT_INTERVAL_S", 0.01)
    lock = RunLock("memory://bucket/lock")
    lock.take()
    first = json.loads(store.cat_file("/bucket/lock"))["beat"]
    deadline = time.monotonic() + 60
    while json.loads(store.cat_file("/bucket/lock"))["beat"] == first:
        assert time.monotonic() < deadline
    lock.release()
    assert not store.exists("/bucket/lock")


def test_concurrent_runs_cannot_write_to_the_same_output(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "b"}\n')
    curate = [sys.executable, "-m", "penstock", "curate", "in.jsonl", "out", "--overwrite"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old.jsonl").write_text("old")
    with other_process(WRITES, tmp_path / "out") as other:
        being_written = tmp_path / "out" / temporary_name("new.jsonl")
        being_written.touch()
        refused = subprocess.run(curate, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert f"out/_penstock: another run is at work there: process {other.pid} on " in refused.stderr
        assert "Traceback" not in refused.stderr
        assert (tmp_path / "out/old.jsonl").read_text() == "old", "nothing was overwritten"
        second = Pipeline("p", stages=[JsonlReader(tmp_path / "in.jsonl"), JsonlWriter(tmp_path / "out")])
        with pytest.raises(OutputError, match="another run is at work there"):
            second.run(InlineExecutor(show_progress=False), checkpoint_path=tmp_path / "c")
        assert not (tmp_path / "c").exists()
        assert being_written.exists()
        assert other.stdin is not None
        other.stdin.close()
        assert other.wait(60) == 0
    assert not (tmp_path / "out/_penstock/lock").exists()
    Pipeline("p", stages=[JsonlWriter(tmp_path / "out")]).run(InlineExecutor(show_progress=False), [make_batch(["c"])])


def test_failed_run_releases_its_lock(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("broken\n")
    reader = JsonlReader(tmp_path / "in.jsonl", on_bad_line="fail")
    pipeline = Pipeline("p", stages=[reader, JsonlWriter(tmp_path / "out")])
    for _ in range(2):
        with pytest.raises(Exception, match=r"in\.jsonl"):
            pipeline.run(InlineExecutor(show_progress=False))
