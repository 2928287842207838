"""Writes are atomic: a reader sees the complete file or no file."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from penstock.errors import OutputError
from penstock.storage.atomic import atomic_write


class ObjectStore(MemoryFileSystem):  # type: ignore[misc]
    """Behaves like a bucket: an upload becomes visible when it is committed, and never if it is discarded."""

    protocol = "store"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("store://", "memory://")))

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **options: Any) -> Any:
        if mode == "wb" and not autocommit:
            return MemoryFile(self, path)
        return super()._open(path, mode, **options)


@pytest.fixture
def bucket() -> Iterator[ObjectStore]:
    fsspec.register_implementation("store", ObjectStore, clobber=True)
    yield fsspec.filesystem("store")
    ObjectStore.store.clear()


def write_and_raise(path: str, error: BaseException) -> None:
    with atomic_write(path) as stream:
        stream.write(b"half")
        raise error


def test_file_and_missing_folders_are_created_atomically(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "a.txt"
    with atomic_write(str(target)) as stream:
        stream.write(b"half")
        assert not target.exists()
        stream.write(b" and half")
    assert target.read_bytes() == b"half and half"
    assert [path.name for path in target.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt(), OSError(errno.EIO, "broken")])
def test_failed_write_leaves_no_temporary_file_and_keeps_the_older_file(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "old.txt").write_bytes(b"old")
    for name in ("old.txt", "new.txt"):
        with pytest.raises((type(error), OutputError)):
            write_and_raise(str(tmp_path / name), error)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("old.txt", b"old")]


def test_full_disk_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"a\.txt: the disk is full\. Nothing half-written was left"):
        write_and_raise(str(tmp_path / "a.txt"), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert list(tmp_path.iterdir()) == []


def test_path_through_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in ("file/a.txt", "file/b/a.txt"):
        with pytest.raises(OutputError, match="a part of this path is a file"), atomic_write(str(tmp_path / path)):
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_write_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="not writable by this user"), atomic_write(str(tmp_path / "a.txt")):
        pass


def test_remote_file_is_written_atomically(bucket: ObjectStore) -> None:
    with atomic_write("store://bucket/out/a.txt") as stream:
        stream.write(b"half")
        assert not bucket.exists("/bucket/out/a.txt")
        stream.write(b" and half")
    assert bucket.cat("/bucket/out/a.txt") == b"half and half"


def test_failed_remote_write_leaves_no_object(bucket: ObjectStore) -> None:
    with pytest.raises(RuntimeError):
        write_and_raise("store://bucket/out/a.txt", RuntimeError("boom"))
    assert bucket.find("/") == []
