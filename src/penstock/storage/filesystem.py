"""Find the filesystem of a path or URL (through fsspec) and open files. Errors name the path and say what to do."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from penstock.errors import InputError
from penstock.storage.compression import Decompressed, compression_of
from penstock.storage.folder_options import options_for

_SPECIAL_FILES = (
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device file"),
    (stat.S_ISBLK, "device file"),
    (stat.S_ISDIR, "folder"),
)


def filesystem_of(path: str, storage_options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """Return the filesystem of a path, and the path inside that filesystem."""
    if "://" not in path and "::" not in path and not storage_options:
        if not path.startswith("/"):
            require_working_folder()
        return _this_machine(), LocalFileSystem._strip_protocol(path)  # same result as fsspec, ten times as fast
    try:
        filesystem, name = url_to_fs(path, **(storage_options or options_for(path)))
    except (ImportError, ValueError) as error:
        raise InputError(f"{path}: this kind of address cannot be opened here: {error}") from error
    return filesystem, name


def is_writable(folder: Path) -> bool:
    """Tell whether files can be created in a folder. For root, permissions allow it even on a read-only disk."""
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return False
    return not os.statvfs(folder).f_flag & os.ST_RDONLY


def require_working_folder() -> None:
    """Raise if the current folder was deleted: relative paths do not resolve then, and no process can be started."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError as error:
        raise InputError(
            "the current folder no longer exists: it was deleted, or moved and created again. Change to a folder "
            "that exists (to the same one, if it was created again) and run again."
        ) from error


@cache
def _this_machine() -> LocalFileSystem:
    return LocalFileSystem()


def is_local(filesystem: Any) -> bool:  # noqa: ANN401 - fsspec has no types
    """Tell whether a filesystem is the local one."""
    protocol = filesystem.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def special_kind(mode: int) -> str | None:
    """Return the kind of a path that is not a regular file, by its mode; None for a regular file.

    >>> special_kind(Path("/dev/null").stat().st_mode)
    'device file'
    """
    return next((kind for is_kind, kind in _SPECIAL_FILES if is_kind(mode)), None)


def refuse_special_file(name: str) -> None:
    """Raise ``InputError`` for a local path that is not a regular file. Opening a named pipe would block."""
    try:
        kind = special_kind(Path(name).stat().st_mode)
    except OSError:
        return  # opening it raises the right error
    if kind is not None:
        raise InputError(f"{name}: it is a {kind}, not a regular file. Copy its content into a file, and read that.")


@contextmanager
def open_input(
    path: str, storage_options: dict[str, Any] | None = None, *, special_files: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for reading, and decompress it if its name ends in a compression."""
    with open_stored(path, storage_options, special_files=special_files) as stream, reading(path):
        ending = compression_of(path)
        yield stream if ending is None else io.BufferedReader(Decompressed(stream, ending), 1 << 20)


@contextmanager
def open_stored(
    path: str, storage_options: dict[str, Any] | None = None, *, special_files: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for reading without decompression. Pipes, sockets and devices need ``special_files=True``."""
    filesystem, name = filesystem_of(path, storage_options)
    if is_local(filesystem) and not special_files:
        refuse_special_file(name)
    with reading(path), filesystem.open(name, "rb") as stream:
        yield stream


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors of the operating system into an ``InputError`` that names the path and says what to do."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file or folder.") from error
    except PermissionError as error:
        raise InputError(
            f"{path}: not readable by this user. Change its permissions, or run as another user."
        ) from error
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {error or type(error).__name__}") from error


def remove_folder(path: str) -> None:
    """Remove a folder if it exists. Of a symbolic link, remove the link and not its target."""
    filesystem, name = filesystem_of(path)
    if not is_local(filesystem):
        if filesystem.exists(name):
            filesystem.rm(name, recursive=True)
    elif Path(name).is_symlink():
        Path(name).unlink()
    elif Path(name).exists():
        shutil.rmtree(name)
