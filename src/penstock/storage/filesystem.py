"""Any path or URL that fsspec knows: list it, size it, open it. Errors name the path and the way out."""

from __future__ import annotations

import io
import lzma
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from penstock.core.files import SizedFile
from penstock.errors import InputError
from penstock.storage.compression import Decompressed, bare_name, compression_of
from penstock.storage.reach import options_for

# How stores name what the content of an object is known by.
_CONTENT_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "crc32c")


def filesystem_of(path: str, storage_options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """Return the filesystem a path lives on, and its name there."""
    if "://" not in path and "::" not in path and not storage_options:
        if not path.startswith("/"):
            require_working_folder()
        return _this_machine(), LocalFileSystem._strip_protocol(path)  # what fsspec would say, in a tenth of the time
    try:
        filesystem, name = url_to_fs(path, **(storage_options or options_for(path)))
    except (ImportError, ValueError) as error:
        raise InputError(f"{path}: this kind of address cannot be opened here: {error}") from error
    return filesystem, name


def is_writable(folder: Path) -> bool:
    """Tell whether files can be made in a folder; to root, permissions say yes also where a disk is read-only."""
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return False
    return not os.statvfs(folder).f_flag & os.ST_RDONLY


def require_working_folder() -> None:
    """Raise if the current folder was deleted: nothing can be found from there, and no process can be started."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError as error:
        raise InputError(
            "the current folder no longer exists: it was deleted, or moved and made again. Change to a folder that "
            "exists (to the same one, if it was made again) and run again."
        ) from error


@cache
def _this_machine() -> LocalFileSystem:
    return LocalFileSystem()


def is_local(filesystem: Any) -> bool:  # noqa: ANN401 - fsspec has no types
    """Tell whether a filesystem is this machine's own."""
    protocol = filesystem.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def list_files(
    paths: str | Path | Sequence[str | Path],
    extensions: Sequence[str],
    storage_options: dict[str, Any] | None = None,
) -> list[SizedFile]:
    """Return the files under some paths (files, folders, globs, URLs), sorted, each with its size.

    A file named outright is taken whatever it is called; in folders only the extensions count, also when a
    compression follows them, and names that begin with '.' or '_' are left alone.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise InputError("no input: the list of file_paths is empty. Give a file, a folder, a glob or a URL.")
    found: dict[str, SizedFile] = {}
    for path in given:
        for file in _list_one(os.fspath(path), tuple(extensions), storage_options):
            found.setdefault(file.path, file)
    return [found[path] for path in sorted(found)]


def _list_one(path: str, extensions: tuple[str, ...], options: dict[str, Any] | None) -> Iterator[SizedFile]:
    filesystem, name = filesystem_of(path, options)
    if not is_local(filesystem):
        filesystem.invalidate_cache()  # of an earlier listing in this process: objects may have changed since
    with reading(path):
        if filesystem.isdir(name):
            entries = filesystem.find(name, detail=True)
            files = [entry for entry in entries.values() if _wanted(entry["name"], name, extensions)]
            if not files:
                raise InputError(_nothing_found(path, extensions, [str(entry) for entry in entries]))
            root = filesystem._parent(name)
        elif filesystem.exists(name):
            files, root = [filesystem.info(name)], filesystem._parent(name)
        elif any(mark in name for mark in "*?["):
            fixed = re.split(r"[*?\[]", name)[0].rpartition("/")[0]
            found = filesystem.glob(name, detail=True).values()
            files = [entry for entry in found if entry["type"] == "file" and not _hidden(entry["name"], fixed)]
            if not files:
                raise InputError(f"{path}: no file matches this pattern. Is it in quotes, and is the folder right?")
            root = filesystem._parent(re.split(r"[*?\[]", name)[0])
        else:
            raise InputError(f"{path}: there is no such file or folder.")
        for entry in files:
            own = entry["name"]
            full = own if is_local(filesystem) else filesystem.unstrip_protocol(own)
            yield SizedFile(full, int(entry["size"] or 0), own.removeprefix(root).strip("/"), tag=_tag(entry))


def _tag(entry: dict[str, Any]) -> str:
    """Return what a store knows the content of an object by, whichever of the usual names it has there."""
    return next((f"{key}={entry[key]}" for key in _CONTENT_TAGS if entry.get(key)), "")


def _wanted(name: str, folder: str, extensions: tuple[str, ...]) -> bool:
    if _hidden(name, folder):
        return False
    return bare_name(name.rpartition("/")[2]).endswith(extensions)


def _hidden(name: str, folder: str) -> bool:
    return any(part.startswith((".", "_")) for part in name[len(folder) :].strip("/").split("/"))


def _nothing_found(path: str, extensions: tuple[str, ...], others: list[str]) -> str:
    wanted = ", ".join(extensions)
    if not others:
        return f"{path}: the folder is empty; expected files that end in {wanted}."
    kinds = sorted({Path(other).suffix or Path(other).name for other in others})
    return (
        f"{path}: none of its {len(others)} files ends in {wanted}; it has {', '.join(kinds[:5])}. "
        "Set file_extensions, or use the reader for that format."
    )


@contextmanager
def open_input(path: str, storage_options: dict[str, Any] | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if its name says it is compressed."""
    with open_stored(path, storage_options) as stream, reading(path):
        ending = compression_of(path)
        yield stream if ending is None else io.BufferedReader(Decompressed(stream, ending), 1 << 20)


@contextmanager
def open_stored(path: str, storage_options: dict[str, Any] | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading as it is stored."""
    filesystem, name = filesystem_of(path, storage_options)
    with reading(path), filesystem.open(name, "rb") as stream:
        yield stream


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what the system says about a path into an error that names it and says what to do."""
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
    """Remove a folder, if it is there; of a link to one the link, not what it leads to."""
    filesystem, name = filesystem_of(path)
    if not is_local(filesystem):
        if filesystem.exists(name):
            filesystem.rm(name, recursive=True)
    elif Path(name).is_symlink():
        Path(name).unlink()
    elif Path(name).exists():
        shutil.rmtree(name)
