"""Atomic writes: a reader sees the complete file or no file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from penstock.errors import OutputError
from penstock.storage.filesystem import filesystem_of, is_local
from penstock.storage.leftovers import temporary_name


@contextmanager
def atomic_write(
    path: str, storage_options: dict[str, Any] | None = None, *, durable: bool = True
) -> Iterator[IO[bytes]]:
    """Open a file that gets its name only when the block succeeds; otherwise nothing is left on disk.

    With ``durable=False`` the file is not synced: this is faster, but the file may be lost if the machine crashes
    within the next seconds.
    """
    filesystem, name = filesystem_of(path, storage_options)
    writer = _write_local(name, durable=durable) if is_local(filesystem) else _write_remote(filesystem, name)
    with explain_write(path), writer as stream:
        yield stream


@contextmanager
def explain_write(path: str) -> Iterator[None]:
    """Turn an ``OSError`` while writing into an ``OutputError`` that says what to do."""
    try:
        yield
    except OSError as error:
        raise OutputError(_explain(path, error)) from error


@contextmanager
def _write_local(name: str, *, durable: bool) -> Iterator[IO[bytes]]:
    target = Path(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(temporary_name(target.name))
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _write_remote(filesystem: Any, name: str) -> Iterator[IO[bytes]]:  # noqa: ANN401 - fsspec has no types
    # An object becomes visible when its upload is completed; an aborted upload never becomes visible.
    stream = filesystem.open(name, "wb", autocommit=False)
    try:
        yield stream
        stream.close()
        stream.commit()
    except BaseException:
        with suppress(Exception):
            stream.discard()
        raise


def _explain(path: str, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"{path}: the disk is full. Nothing half-written was left; free some space and run again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path}: not writable by this user ({error.strerror}). Choose another output folder."
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"{path}: a part of this path is a file, not a folder. Choose another output folder."
    return f"{path}: cannot be written: {error}"
