"""``penstock doctor --clean`` removes the leftovers of killed runs, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.storage.owned_folders import find_leftovers, owned_name

MAKE = """
import sys
from pathlib import Path
from penstock.storage.owned_folders import make_owned_folder
for kind in sys.argv[2:]:
    folder = make_owned_folder(kind, Path(sys.argv[1]))
    (folder / "task").write_bytes(bytes(1_000_000))
    print(folder)
"""


def leave(parent: Path, *kinds: str) -> list[Path]:
    """Start a process that makes folders and ends without removing them."""
    parent.mkdir(exist_ok=True)
    command = [sys.executable, "-c", MAKE, str(parent), *kinds]
    return [Path(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def doctor(parent: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", "doctor", *arguments]
    environment = {**os.environ, "TMPDIR": str(parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_leftovers_of_dead_runs_are_listed_and_removed_when_asked(tmp_path: Path) -> None:
    temporary, elsewhere = tmp_path / "temporary", tmp_path / "elsewhere"
    dead = [*leave(temporary, "", "spill"), *leave(temporary, "preview")]
    spilled = leave(elsewhere, "spill")
    alive = temporary / owned_name("spill")
    foreign = temporary / "penstock-notes"
    for folder in (alive, foreign):
        folder.mkdir()
    said = doctor(temporary)
    assert "2 runs, 3.0 MB; remove with penstock doctor --clean" in said
    assert all(str(folder) in said for folder in dead)
    assert all(folder.exists() for folder in dead), "only listed"
    said = doctor(temporary, "--clean", "--spill-dir", str(elsewhere))
    assert f"removed {dead[0]} (1.0 MB)" in said
    assert "4.0 MB freed." in said
    assert not any(folder.exists() for folder in (*dead, *spilled))
    assert alive.exists()
    assert foreign.exists()
    alive.rmdir()
    assert "Nothing to remove." in doctor(temporary, "--clean")


def test_the_spill_folder_of_a_leftover_is_found_wherever_it_is(tmp_path: Path) -> None:
    [memory] = leave(tmp_path / "memory", "")
    spill = tmp_path / "disk" / memory.name.replace("penstock-", "penstock-spill-", 1)
    spill.mkdir(parents=True)
    (memory / "spill").symlink_to(spill)
    assert {leftover.path for leftover in find_leftovers([tmp_path / "memory"])} == {memory, spill}
    (memory / "spill").unlink()
    (memory / "spill").symlink_to(tmp_path)  # not a folder of the same run
    assert {leftover.path for leftover in find_leftovers([tmp_path / "memory"])} == {memory}


def test_folders_of_another_machine_or_user_are_not_removed(tmp_path: Path) -> None:
    [dead] = leave(tmp_path, "")
    _, pid, start, machine, boot, random = dead.name.split("-")
    other = tmp_path / f"penstock-{pid}-{start}-{'0' * 8}-{boot}-{random}"
    dead.rename(other)
    assert find_leftovers([tmp_path]) == []
    # Of the same machine before its restart; but the folder is newer than the restart.
    restarted = tmp_path / f"penstock-{pid}-{start}-{machine}-{'0' * 8}-{random}"
    other.rename(restarted)
    assert find_leftovers([tmp_path]) == []
    os.utime(restarted, (0, 0))
    assert [leftover.path for leftover in find_leftovers([tmp_path])] == [restarted]
    if os.getuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(restarted, 12345, 12345)
    assert find_leftovers([tmp_path]) == []


def test_a_leftover_is_found_even_if_its_process_id_is_reused(tmp_path: Path) -> None:
    name = owned_name()
    _, pid, start, *rest = name.split("-")
    reused = tmp_path / "-".join(["penstock", pid, str(int(start) + 1), *rest])
    reused.mkdir()
    (tmp_path / name).mkdir()
    assert [leftover.path for leftover in find_leftovers([tmp_path])] == [reused]
