"""Temporary files of dead processes are removed; those of live ones, and files of the user, never are."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from penstock import InlineExecutor, Pipeline
from penstock.storage.atomic import atomic_write
from penstock.storage.leftovers import remove_leftovers, temporary_name
from penstock.storage.process_identity import is_alive, machine
from penstock.testing import make_batch
from penstock.text import JsonlWriter

DIES_WRITING = """
    import os, signal, sys
    from penstock.storage.atomic import atomic_write
    with atomic_write(sys.argv[1]) as stream:
        stream.write(b"half")
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def die_writing(target: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(DIES_WRITING), str(target)], check=False)
    assert killed.returncode == -9


def elsewhere(name: str) -> str:
    """Return a temporary name of a process on another machine."""
    return temporary_name(name).replace(machine(), "0" * 8)


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*"))


def test_only_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".mine.penstock-tmp").write_text("the user's own")
    (tmp_path / elsewhere("b.txt")).write_text("of another machine")
    before = hidden(tmp_path)
    die_writing(tmp_path / "a.txt")
    assert len(hidden(tmp_path)) == 3
    with atomic_write(str(tmp_path / "c.txt")) as stream:
        stream.write(b"whole")
        remove_leftovers(str(tmp_path))
    assert hidden(tmp_path) == before
    assert (tmp_path / "c.txt").read_bytes() == b"whole"
    remove_leftovers(str(tmp_path), no_other_writer=True)
    assert hidden(tmp_path) == [".mine.penstock-tmp"]


def test_subfolders_are_searched_only_if_requested(tmp_path: Path) -> None:
    die_writing(tmp_path / "below/a.txt")
    remove_leftovers(str(tmp_path))
    assert len(hidden(tmp_path)) == 1
    remove_leftovers(str(tmp_path), below=True)
    assert hidden(tmp_path) == []
    remove_leftovers(str(tmp_path / "nowhere"), below=True)


def test_process_is_identified_by_pid_and_start_time() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(os.getpid(), since=0.0), "another process had this number then"
    with subprocess.Popen(["true"]) as dead:
        pass
    assert not is_alive(dead.pid)


def test_file_names_of_maximum_length_can_be_written(tmp_path: Path) -> None:
    with atomic_write(str(tmp_path / ("x" * 255))) as stream:
        stream.write(b"whole")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]


def test_next_run_removes_leftovers_of_a_killed_run_and_keeps_output_of_others(tmp_path: Path) -> None:
    for place in ("a.jsonl", "_penstock/summary.json", "_penstock/ledger/rules.json"):
        die_writing(tmp_path / place)
    (tmp_path / elsewhere("b.jsonl")).write_text("of a worker on another machine")
    # A live run may write into a subfolder of this one.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / temporary_name("c.jsonl")).write_text("being written")
    (tmp_path / "other" / elsewhere("d.jsonl")).write_text("being written")
    others = hidden(tmp_path / "other")
    Pipeline("p", stages=[JsonlWriter(tmp_path)]).run(InlineExecutor(show_progress=False), [make_batch(["a"])])
    assert hidden(tmp_path) == others
