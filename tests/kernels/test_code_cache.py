"""The folder for compiled kernels: never one that another user can write to, and one in any container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from mounts import needs_mounts, with_read_only
from penstock.storage.user_cache import temporary_cache, user_cache, why_not_private

PACKAGE = Path(penstock.__file__).parent

# Compiles a function with the cache that the kernels have, and says where its code is.
COMPILE = """
from penstock.kernels.code_cache import code_cache
from penstock.kernels.native import is_compiled, native

@native
def double(number):
    return 2 * number

assert double(21) == 42
assert is_compiled(double)
print(code_cache())
"""


def compile_with(
    folder: Path, environment: dict[str, str], *, read_only: bool = True
) -> subprocess.CompletedProcess[str]:
    (folder / "compile.py").write_text(COMPILE)
    command = [sys.executable, "compile.py"]
    kept = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    return subprocess.run(
        with_read_only(PACKAGE, command) if read_only else command,
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@needs_mounts
@pytest.mark.parametrize("home", ["file", "file/below"])
def test_without_a_writable_package_and_home_code_is_kept_in_a_private_temporary_folder(
    home: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    not_there = str(tmp_path / home)
    environment = {"HOME": not_there, "XDG_CACHE_HOME": not_there, "TMPDIR": str(tmp_path / "temporary")}
    first = compile_with(tmp_path, environment)
    private = tmp_path / f"temporary/penstock-cache-{os.getuid()}"
    assert first.stdout.startswith(str(private)), first.stderr
    assert private.stat().st_mode & 0o777 == 0o700
    assert list(private.rglob("compile.double*.nbc"))
    assert f"Compiled code is kept in {private}, because neither" in first.stderr
    assert compile_with(tmp_path, environment).stderr == "", "said once"


@needs_mounts
def test_a_temporary_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    planted = tmp_path / f"temporary/penstock-cache-{os.getuid()}"
    planted.mkdir(parents=True)
    os.chown(planted, 12345, 12345)
    done = compile_with(tmp_path, {"HOME": str(tmp_path / "compile.py"), "TMPDIR": str(tmp_path / "temporary")})
    assert done.stdout == "None\n", done.stderr
    assert "Compiled code cannot be kept" in done.stderr
    assert list(planted.iterdir()) == []


def test_a_configured_folder_that_all_users_can_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    environment = {"NUMBA_CACHE_DIR": str(shared), "HOME": str(tmp_path)}
    done = compile_with(tmp_path, environment, read_only=False)
    assert f"not kept in NUMBA_CACHE_DIR={shared}: {shared} can be changed by every user" in done.stderr
    assert not list(shared.rglob("*.nb*"))
    shared.chmod(0o755)
    assert compile_with(tmp_path, environment, read_only=False).stdout.startswith(str(shared))


@pytest.mark.parametrize(
    ("mode", "is_private"), [(0o700, True), (0o755, True), (0o777, False), (0o1777, False), (0o775, False)]
)
def test_only_a_folder_that_no_other_user_can_write_to_is_private(mode: int, is_private: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if mode == 0o775 and os.getuid() == 0:
        os.chown(folder, 0, 12345)
    elif mode == 0o775:
        pytest.skip("only root can give a folder to another group")
    folder.chmod(mode)
    assert (why_not_private(folder) is None) is is_private


def test_a_folder_inside_one_that_other_users_can_write_to_is_not_private(tmp_path: Path) -> None:
    (tmp_path / "open/inside").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    assert why_not_private(tmp_path / "open/inside") == f"{tmp_path / 'open'} can be changed by every user"
    (tmp_path / "open").chmod(0o1777)  # as /tmp: only the owner of a folder can rename it
    assert why_not_private(tmp_path / "open/inside") is None


def test_the_user_cache_is_in_the_home_folder_if_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_cache() == tmp_path / "cache/penstock"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache() == tmp_path / ".cache/penstock"
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert user_cache() == temporary_cache()
