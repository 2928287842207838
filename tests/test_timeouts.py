"""No test can hang the test command: each has a limit, and fails at it with the stacks of its threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

HANGING = """
import subprocess, sys, threading

def test_that_waits_for_a_thread():
    threading.Thread(target=threading.Event().wait, name="stuck", daemon=True).start()
    threading.Event().wait()

def test_that_waits_for_a_child():
    subprocess.run([sys.executable, "-c", "import threading; threading.Event().wait()"])

def test_after_them():
    pass
"""


def test_every_test_has_a_limit(pytestconfig: pytest.Config) -> None:
    limit = float(str(pytestconfig.getini("timeout")))
    assert 0 < limit <= 600
    assert float(str(pytestconfig.getini("faulthandler_timeout"))) > 600


@pytest.mark.ray
def test_a_test_with_a_cluster_has_a_longer_limit(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("timeout")
    assert marker is not None
    assert marker.args == (600,)


def test_a_test_that_hangs_fails_with_its_stacks_and_the_next_one_runs(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}",
               f"--confcutdir={tmp_path}", "-p", "no:cacheprovider", "-o", "timeout=1", "test_hanging.py"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "2 failed, 1 passed" in done.stdout
    assert "Failed: Timeout" in done.stdout
    assert "Stack of stuck" in done.stdout + done.stderr
