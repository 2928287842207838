"""List the files under some paths: which are read, which are not, and why. No file is opened.

Symbolic links to folders are followed. Every folder is visited once, however many links lead to it, so circular links
terminate and no folder is read twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fsspec.utils import glob_translate

from penstock.core.files import SizedFile
from penstock.errors import InputError
from penstock.storage.compression import bare_name
from penstock.storage.filesystem import filesystem_of, is_local, reading, refuse_special_file, special_kind
from penstock.storage.formats import ends_in

_WILDCARD = re.compile(r"[*?\[]")
_EXAMPLES = 2
_OTHER_ENDING = "other ending "
# Names of content tags in the metadata of object stores.
_CONTENT_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "crc32c")


# Prefix of the counters of a run for files that are not read; the reason follows.
NOT_READ = "not read: "


class NotRead(NamedTuple):
    """A file or folder under the input paths that is not read."""

    path: str
    # Relative to the path the user gave.
    name: str
    # Why it is not read: "named pipe", "other ending .txt".
    reason: str


class Listing(NamedTuple):
    """The files under some paths that are read, and those that are not."""

    files: list[SizedFile]
    not_read: list[NotRead]

    def notes(self) -> dict[str, int]:
        """Return the number of files that are not read for each reason, with examples.

        >>> Listing([], [NotRead("/data/in/x", "in/x", "socket"), NotRead("/data/in/y", "in/y", "socket")]).notes()
        {'socket (in/x, in/y)': 2}
        """
        names: dict[str, list[str]] = {}
        for other in self.not_read:
            names.setdefault(other.reason, []).append(other.name)
        return {f"{reason} ({_examples(sorted(found))})": len(found) for reason, found in sorted(names.items())}


class _Found(NamedTuple):
    """A file that was found, or a folder that matches a pattern."""

    path: str
    size: int
    # Why it cannot be read, independent of its name; empty if it can.
    trouble: str = ""
    # Content tag of an object store.
    tag: str = ""


def list_files(
    paths: str | Path | Sequence[str | Path],
    extensions: Sequence[str],
    storage_options: dict[str, Any] | None = None,
) -> Listing:
    """Find the files under some paths (files, folders, globs, URLs), sorted, each with its size.

    A file that is named explicitly is read whatever its extension. In folders only files with one of the extensions
    are read, ignoring case and an ending for compression. Names that begin with '.' or '_' are skipped. Anything that
    is not a regular file (a named pipe, a socket, a device) is never read.

    Raise ``InputError`` if a path leads to no file that can be read.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise InputError("no input: the list of file_paths is empty. Give a file, a folder, a glob or a URL.")
    found: dict[str, SizedFile] = {}
    not_read: dict[str, NotRead] = {}
    for path in given:
        listing = _list_one(os.fspath(path), tuple(extensions), storage_options)
        for file in listing.files:
            found.setdefault(file.path, file)
        for other in listing.not_read:
            not_read.setdefault(other.path, other)
    return Listing(
        [found[path] for path in sorted(found)], [not_read[path] for path in sorted(not_read) if path not in found]
    )


def describe(notes: Mapping[str, int]) -> str:
    """Return a sentence for the user about the files that are not read.

    >>> describe({"named pipe (in/x.jsonl)": 1, "other ending .txt (in/a.txt, in/b.txt, …)": 7})
    'Not read: 7, other ending .txt (in/a.txt, in/b.txt, …); 1, named pipe (in/x.jsonl).'
    """
    by_count = sorted(notes.items(), key=lambda item: (-item[1], item[0]))
    return f"Not read: {'; '.join(f'{count:,}, {reason}' for reason, count in by_count)}."


def _list_one(path: str, extensions: tuple[str, ...], options: dict[str, Any] | None) -> Listing:
    filesystem, name = filesystem_of(path, options)
    local = is_local(filesystem)
    if not local:
        filesystem.invalidate_cache()  # of an earlier listing in this process: objects may have changed since
    with reading(path):
        if filesystem.isdir(name):
            root, pattern = filesystem._parent(name), None
            found = list(_walk(name) if local else _find(filesystem, name))
        elif filesystem.exists(name):
            return Listing([_named_explicitly(filesystem, path, name)], [])
        elif _WILDCARD.search(name):
            fixed = _WILDCARD.split(name)[0]
            root, pattern = filesystem._parent(fixed), path
            found = list(_match(name, fixed.rpartition("/")[0]) if local else _glob(filesystem, name, fixed))
        else:
            raise InputError(f"{path}: there is no such file or folder.")
    wanted = [file for file in found if not file.trouble and (pattern or ends_in(file.path, extensions))]
    listing = Listing(
        [
            SizedFile(_full(filesystem, file.path), file.size, file.path.removeprefix(root).strip("/"), tag=file.tag)
            for file in wanted
        ],
        [
            NotRead(
                _full(filesystem, own),
                own.removeprefix(root).strip("/"),
                trouble or f"{_OTHER_ENDING}{_ending(own)}",
            )
            for own, _, trouble, _ in found
            if trouble or not (pattern or ends_in(own, extensions))
        ],
    )
    if not wanted:
        raise InputError(_nothing_found(path, pattern, extensions, listing))
    return listing


def _named_explicitly(filesystem: Any, path: str, name: str) -> SizedFile:  # noqa: ANN401 - fsspec has no types
    if is_local(filesystem):
        refuse_special_file(name)
    entry = filesystem.info(name)
    below = name.removeprefix(filesystem._parent(name)).strip("/")
    return SizedFile(_full(filesystem, name), int(entry["size"] or 0), below, tag=_tag(entry))


class _Folder(NamedTuple):
    """A folder to list."""

    path: str
    # Path with all symbolic links resolved.
    real: str
    # Number of levels to descend; None: no limit.
    depth: int | None
    through_link: bool = False


def _walk(root: str, depth: int | None = None, *, with_folders: bool = False) -> Iterator[_Found]:
    """Yield the files in a local folder, down to a depth."""
    seen: set[str] = set()
    # Links are followed last: a folder inside the root is read by its own path, not through a link.
    links: list[_Folder] = []
    folders = [_Folder(root, os.path.realpath(root), depth)]
    while folders or links:
        folder = folders.pop() if folders else links.pop(0)
        if folder.real in seen:
            yield _Found(folder.path, 0, "folder that is read already by another path")
            continue
        seen.add(folder.real)
        try:
            with os.scandir(folder.path) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:
            yield _Found(folder.path, 0, "folder that this user may not list")
            continue
        except FileNotFoundError:
            continue  # removed since it was found
        for entry in inside:
            if entry.name.startswith((".", "_")):
                continue
            path = f"{folder.path.rstrip('/')}/{entry.name}"
            if not _is_folder(entry):
                yield _found(path, entry)
                continue
            if with_folders:
                yield _Found(path, 0, "folder")
            if depth is not None and folder.depth == 1:
                continue
            left = None if folder.depth is None else folder.depth - 1
            if entry.is_symlink():
                links.append(_Folder(path, os.path.realpath(path), left, through_link=True))
            else:
                real = f"{folder.real.rstrip('/')}/{entry.name}"
                (links if folder.through_link else folders).append(_Folder(path, real, left, folder.through_link))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _found(path: str, entry: os.DirEntry[str]) -> _Found:
    try:
        about = entry.stat()
    except FileNotFoundError:
        return _Found(path, 0, "link to nothing")
    except OSError as error:
        return _Found(path, 0, f"not readable: {error.strerror}")
    return _Found(path, about.st_size, special_kind(about.st_mode) or "")


def _match(pattern: str, fixed: str) -> Iterator[_Found]:
    """Yield the local files that match a pattern."""
    matches = re.compile(glob_translate(pattern)).match
    if "**" in pattern:  # a folder that could not be listed is reported, as it could hold matches
        return (found for found in _walk(fixed or "/") if matches(found.path) or found.trouble.startswith("folder"))
    depth = pattern.count("/") - fixed.count("/")
    return (found for found in _walk(fixed or "/", depth, with_folders=True) if matches(found.path))


def _find(filesystem: Any, name: str) -> Iterator[_Found]:  # noqa: ANN401
    """Yield the files in a folder of a remote store."""
    for entry in filesystem.find(name, detail=True).values():
        if not _hidden(entry["name"], name):
            yield _of_entry(entry)


def _glob(filesystem: Any, pattern: str, fixed: str) -> Iterator[_Found]:  # noqa: ANN401
    """Yield the files of a remote store that match a pattern."""
    for entry in filesystem.glob(pattern, detail=True).values():
        if not _hidden(entry["name"], fixed.rpartition("/")[0]):
            yield _of_entry(entry)


def _of_entry(entry: dict[str, Any]) -> _Found:
    troubles = {"directory": "folder", "other": "not a regular file"}
    return _Found(entry["name"], int(entry["size"] or 0), troubles.get(entry["type"], ""), _tag(entry))


def _tag(entry: dict[str, Any]) -> str:
    """Return the content tag of an object, under whichever of the usual names the store has it; empty if none."""
    return next((f"{key}={entry[key]}" for key in _CONTENT_TAGS if entry.get(key)), "")


def _hidden(name: str, folder: str) -> bool:
    return any(part.startswith((".", "_")) for part in name[len(folder) :].strip("/").split("/"))


def _full(filesystem: Any, own: str) -> str:  # noqa: ANN401
    return own if is_local(filesystem) else filesystem.unstrip_protocol(own)


def _ending(path: str) -> str:
    """Return the ending of a file name, for messages.

    >>> _ending("crawl/a.txt"), _ending("crawl/a.TXT.gz"), _ending("crawl/LICENSE")
    ('.txt', '.txt.gz', 'no extension')
    """
    bare = bare_name(path)
    return (PurePosixPath(bare).suffix + path[len(bare) :]).lower() or "no extension"


def _examples(names: Sequence[str]) -> str:
    return ", ".join([*names[:_EXAMPLES], *(["…"] if len(names) > _EXAMPLES else [])])


def _nothing_found(path: str, pattern: str | None, extensions: Iterable[str], listing: Listing) -> str:
    wanted = ", ".join(extensions)
    notes = listing.notes()
    if pattern is not None:
        hint = f" {describe(notes)} To look into folders, write ** for a part of the pattern." if notes else ""
        return f"{path}: no file matches this pattern. Is it in quotes, and is the folder right?{hint}"
    if not notes:
        return f"{path}: the folder is empty; expected files that end in {wanted}."
    endings = sorted({_ending(other.path) for other in listing.not_read if other.reason.startswith(_OTHER_ENDING)})
    others = {reason: count for reason, count in notes.items() if not reason.startswith(_OTHER_ENDING)}
    if not endings:
        return f"{path}: no file in it can be read. {describe(others)}"
    count = sum(notes.values()) - sum(others.values())
    return (
        f"{path}: none of its {count} files ends in {wanted}; it has {', '.join(endings[:5])}. "
        f"{describe(others) + ' ' if others else ''}Set file_extensions, or use the reader for that format."
    )
