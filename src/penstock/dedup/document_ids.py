"""Document ids: a document is identified by its file and its position in the file.

The id of a document combines the number of its file in the listing with the byte or row where the document begins. So
ids do not depend on block size, on grouping of files, or on the worker that reads; and ids sort in reading order.
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

# Documents of an index have negative ids: file number and position, plus this offset.
INDEXED = -(1 << 62)

_IN_FILE = (1 << PLACE_BITS) - 1


@dataclass(frozen=True)
class FileTable:
    """The files of a data set, numbered in listing order."""

    # Current path of each file, and its name relative to the path the user gave: the name survives a move.
    paths: tuple[str, ...]
    names: tuple[str, ...]
    # Names of the files whose documents are in the index.
    indexed: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: Sequence[SizedFile]) -> FileTable:
        """Assign numbers to files in the order of the listing."""
        return cls(tuple(file.path for file in files), tuple(file.name for file in files))

    def save(self, path: str, given: Sequence[str] = (), marks: Sequence[FileMark] = ()) -> None:
        """Write the table, so that ids can be resolved later.

        ``given`` are the paths that the user gave; ``marks`` identify the files.
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
        """Read a table, and find its files among the current files: by path, or by name if they were moved.

        A name is the path relative to the input folder, with the name of that folder or, if it was renamed, without.
        Raise ``InputError`` if a file has changed: ids are positions in it.
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
                f"{path}: several of its files have the same name and have been moved, so they cannot be told "
                "apart. Move them back, or search for duplicates again."
            )
        strangers = there - set(paths)
        if strangers:
            raise InputError(
                f"{min(strangers)}: not among the {len(known)} files that were searched for duplicates (see {path}). "
                "Use the same input, or search this one for duplicates first."
            )
        _require_unchanged(path, known, paths, files, input_options)
        return cls(tuple(paths), tuple(entry["name"] for entry in known))

    def ids(self, batch: DocumentBatch) -> Ids:
        """Return the id of every document of a batch."""
        if batch.source_rows is None:
            raise StageError(
                f"task '{batch.task_id}': an upstream stage has created new documents, which have no position in a "
                "file. Search for duplicates right after reading, or write the documents first and read them again."
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
        """Return the number of documents in each file, by file number."""
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
    """Raise if the content of a file has changed. Files without a recorded content are not checked."""
    before = {found: entry for found, entry in zip(paths, known, strict=True) if found and "content" in entry}
    for mark in mark_files([file for file in files if file.path in before], options):
        entry = before[mark.path]
        was = FileMark(entry["path"], entry["name"], entry["size"], 0, 0, entry["content"])
        if was.path != mark.path and mark.content.startswith("tag:"):
            was = was._replace(content="")  # an object store may assign another tag to a copy
        if not mark._replace(modified=0).is_same_as(was):
            raise InputError(
                f"{mark.path}: has changed since it was searched for duplicates (see {path}), so the ids of its "
                "documents are no longer valid. Search for duplicates again."
            )


def _by_name(files: Sequence[SizedFile], shortened: Callable[[str], str]) -> dict[str, str]:
    """Return the paths of files by name, without names that several files share."""
    counts = Counter(shortened(file.name) for file in files)
    return {name: file.path for file in files if counts[name := shortened(file.name)] == 1}


def _below_first_folder(name: str) -> str:
    return name.partition("/")[2]
