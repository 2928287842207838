"""Who is who: a document is known by its file and its place in it.

The id of a document is the number of its file in the listing, and the byte or row where it begins there. So it does
not matter what was read together with it, in blocks of which size, or by whom; and order of ids is order of reading.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import PLACE_BITS, SizedFile
from penstock.core.paths import shown
from penstock.errors import InputError, StageError
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_stored
from penstock.storage.input_files import FileMark, mark_files

ID_FIELD = "_curator_dedup_id"
Ids = npt.NDArray[np.int64]

# A document that is known from an index has an id below zero: the same, from here on.
INDEXED = -(1 << 62)

_IN_FILE = (1 << PLACE_BITS) - 1


@dataclass(frozen=True)
class FileTable:
    """The files of a data set, numbered."""

    # Where each is now, and what it is called below the path the user gave: that stays when all of it is moved.
    paths: tuple[str, ...]
    names: tuple[str, ...]
    # What the files were called whose documents are in the index.
    indexed: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: Sequence[SizedFile]) -> FileTable:
        """Give files numbers, in the order they are listed in."""
        return cls(tuple(file.path for file in files), tuple(file.name for file in files))

    def save(self, path: str, given: Sequence[str] = (), marks: Sequence[FileMark] = ()) -> None:
        """Write the table, so that ids can be understood later.

        ``given`` is where the files were looked for, ``marks`` what they are known by.
        """
        files: list[dict[str, Any]] = [{"path": p, "name": n} for p, n in zip(self.paths, self.names, strict=True)]
        for entry, mark in zip(files, marks, strict=False):
            entry |= {"size": mark.size, "content": mark.content}
        with atomic_write(path) as stream:
            contents = {"place_bits": PLACE_BITS, "input": list(given), "files": files}
            stream.write(json.dumps(contents, indent=1).encode())

    @classmethod
    def load(
        cls,
        path: str,
        files: Sequence[SizedFile],
        storage_options: dict[str, Any] | None = None,
        input_options: dict[str, Any] | None = None,
    ) -> FileTable:
        """Read a table, and find its files among those there are now: where they were, or under the same names.

        A name is what a file is called from the folder down that was read, with that folder or, if it was renamed,
        without. Raise ``InputError`` if a file has changed since: ids are places in it.
        """
        with open_stored(path, storage_options) as stream:
            known = json.loads(stream.read())["files"]
        there = {file.path for file in files}
        named, inside = _by_name(files, lambda name: name), _by_name(files, _below_first_folder)
        paths = []
        for entry in known:
            found = entry["path"] if entry["path"] in there else named.get(entry["name"])
            paths.append(found or inside.get(_below_first_folder(entry["name"]), ""))
        if len({path for path in paths if path}) < sum(map(bool, paths)):
            raise InputError(
                f"{path}: several of its files have one name and have been moved, so that nobody can tell which is "
                "which. Put them back, or look for duplicates again."
            )
        strangers = there - set(paths)
        if strangers:
            raise InputError(
                f"{min(strangers)}: not among the {len(known)} files that duplicates were looked for in (see {path}). "
                "Give the same input, or look for duplicates in this one first."
            )
        _require_unchanged(path, known, paths, files, input_options)
        return cls(tuple(paths), tuple(entry["name"] for entry in known))

    def ids(self, batch: DocumentBatch) -> Ids:
        """Return the id of every document of a batch."""
        if batch.source_rows is None:
            raise StageError(
                f"task '{batch.task_id}': a stage in front of this one has made new documents, so that nobody can tell "
                "which is which. Look for duplicates right after reading, or write the documents down and read again."
            )
        numbers = np.array([self._numbers[path] for path in batch._metadata["source_files"]], dtype=np.int64)
        places = batch.source_rows
        ids: Ids = (numbers[places >> PLACE_BITS] << PLACE_BITS) | (places & _IN_FILE)
        return ids

    def file_of(self, ids: Ids) -> Ids:
        """Return the number of the file each id belongs to."""
        return ids >> PLACE_BITS

    def names_of(self, ids: Ids) -> pa.Array:
        """Return the name of the file each document is in."""
        numbers = np.where(ids < 0, len(self.names) + (ids - INDEXED >> PLACE_BITS), self.file_of(ids))
        return pa.DictionaryArray.from_arrays(
            numbers.astype(np.int32), pa.array(map(shown, self.names + self.indexed), pa.string())
        )

    def counts(self, ids: Ids) -> dict[str, Any]:
        """Return how many of some documents are in which file."""
        files, counts = np.unique(self.file_of(ids), return_counts=True)
        return {"documents": dict(zip(files.tolist(), counts.tolist(), strict=True))}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self.paths)}


def _require_unchanged(
    path: str,
    known: Sequence[dict[str, Any]],
    paths: Sequence[str],
    files: Sequence[SizedFile],
    options: dict[str, Any] | None,
) -> None:
    """Raise if a file of a table has another content now. A table that does not say what its files hold is believed."""
    before = {found: entry for found, entry in zip(paths, known, strict=True) if found and "content" in entry}
    for mark in mark_files([file for file in files if file.path in before], options):
        entry = before[mark.path]
        was = FileMark(entry["path"], entry["name"], entry["size"], 0, 0, entry["content"])
        if was.path != mark.path and mark.content.startswith("tag:"):
            was = was._replace(content="")  # a store may give the copy of an object another tag
        if not mark._replace(modified=0).is_same_as(was):
            raise InputError(
                f"{mark.path}: has changed since duplicates were looked for in it (see {path}), so that the ids of "
                "documents do not fit any more. Look for duplicates again."
            )


def _by_name(files: Sequence[SizedFile], shortened: Callable[[str], str]) -> dict[str, str]:
    """Return where the files are, by what they are called; a name that several have says nothing."""
    counts = Counter(shortened(file.name) for file in files)
    return {name: file.path for file in files if counts[name := shortened(file.name)] == 1}


def _below_first_folder(name: str) -> str:
    return name.partition("/")[2]
