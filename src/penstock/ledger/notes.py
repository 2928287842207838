"""Small blocks as a worker writes them: one record after another in a file of its own, put together after the run.

A task of a few documents takes a tenth of a millisecond; a file for each would take several times that.
"""

from __future__ import annotations

import io
import json
import mmap
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.text_buffer import text_buffer
from penstock.ledger.fragment import NAME_LENGTH, Fragment
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, is_local, reading
from penstock.storage.records import RecordFile, framed, read_records

NOTES = ".notes"
# Blocks of fewer documents are noted; others are pieces of the ledger at once.
SMALL = 8192
# In the place of a block's name: what follows are the parameters of rules.
_PARAMETERS = b"=" * NAME_LENGTH
# Behind a name: how many bytes of columns follow the record.
_SIZE = struct.Struct("<Q")


class _Head(msgspec.Struct, array_like=True):
    """What is in a note. The columns stand behind it, in the order of these fields."""

    block: str
    about: bytes
    count: int
    rules: tuple[str, ...]
    # How many words of bits it takes to say who was asked, and who failed.
    words: int
    scores: list[tuple[str, str]]
    # Whether some are null, and how many bytes of characters.
    ids: tuple[bool, int] | None
    sizes: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Head).decode


class Notes:
    """What one worker has to say of small blocks."""

    def __init__(self, folder: str, storage_options: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._options = storage_options
        self._file: RecordFile | None = None
        self._described: set[str] = set()

    def add(self, fragment: Fragment, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down a block, and what its rules were made with if this file does not say so yet."""
        records: list[tuple[bytes, list[memoryview]]] = []
        new = {label: parameters[label] for label in fragment.rules if label not in self._described}
        if new:
            records.append((_PARAMETERS + json.dumps(new).encode(), []))
        columns = _columns(fragment)
        size = _SIZE.pack(sum(column.nbytes for column in columns))
        records.append((fragment.name.encode() + size + _encode(_head(fragment)), columns))
        if self._file is None and not self._open():
            # Nothing can be appended to an object in a store: each block is one.
            with atomic_write(f"{self._folder}/{fragment.name}{NOTES}", self._options, durable=False) as stream:
                for body, attached in records:
                    stream.write(b"".join([framed(body), *attached]))
            return
        assert self._file is not None
        for body, attached in records:
            self._file.append(body, *attached)
        self._described |= new.keys()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> bool:
        filesystem, folder = filesystem_of(self._folder, self._options)
        if is_local(filesystem):
            self._file = RecordFile(f"{folder}/{uuid.uuid4().hex}{NOTES}")
        return self._file is not None


class Note(NamedTuple):
    """Where a block is noted."""

    name: str
    # The whole file, mapped into memory where it is one of this machine's.
    file: memoryview
    start: int
    columns: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return self.end - self.start


def find_notes(
    folder: str, storage_options: dict[str, Any] | None = None
) -> tuple[list[Note], dict[str, dict[str, Any]], list[str]]:
    """Return every note in the order of names, what rules were made with, and the files; of one name the last."""
    filesystem, root = filesystem_of(folder, storage_options)
    names = sorted(path.rpartition("/")[2] for path in filesystem.ls(root, detail=False) if path.endswith(NOTES))
    notes: dict[str, Note] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for path in [f"{root}/{name}" for name in names]:
        stream = _opened(filesystem, path)
        whole = memoryview(stream) if isinstance(stream, mmap.mmap) else stream.getbuffer()
        for body, end in read_records(stream):
            name = body[:NAME_LENGTH]
            if name == _PARAMETERS:
                parameters |= json.loads(body[NAME_LENGTH:])
                continue
            head = NAME_LENGTH + _SIZE.size
            past = end + _SIZE.unpack(body[NAME_LENGTH:head])[0]
            if past > len(whole):
                break
            notes[name.decode()] = Note(name.decode(), whole, end - len(body) + head, end, past)
            stream.seek(past)
    return [notes[name] for name in sorted(notes)], parameters, names


def _opened(filesystem: Any, path: str) -> mmap.mmap | io.BytesIO:  # noqa: ANN401 - fsspec has no types
    with reading(path):
        if is_local(filesystem) and filesystem.size(path):
            with Path(path).open("rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return io.BytesIO(filesystem.cat_file(path))


def alike(fragments: Iterable[Fragment]) -> Iterator[list[Fragment]]:
    """Sort fragments by pool and rules: bits mean the same only where those are the same."""
    kinds: dict[tuple[Any, ...], list[Fragment]] = {}
    for fragment in fragments:
        kinds.setdefault((fragment.about["pool"], fragment.rules), []).append(fragment)
    yield from kinds.values()


def _head(fragment: Fragment) -> _Head:
    return _Head(
        fragment.block,
        json.dumps(fragment.about, ensure_ascii=False).encode(),
        len(fragment.rows),
        fragment.rules,
        len(fragment.asked),
        [(label, scores.dtype.str) for label, scores in fragment.scores.items()],
        None if fragment.ids is None else (fragment.ids.null_count > 0, _characters(fragment.ids).nbytes),
        fragment.sizes is not None,
    )


def _columns(fragment: Fragment) -> list[memoryview]:
    arrays = [fragment.rows, fragment.dropped, *fragment.asked, *fragment.fails, *fragment.scores.values()]
    if (ids := fragment.ids) is not None:
        if ids.null_count:
            arrays.append(np.packbits(ids.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
        borders = text_buffer(ids)[1]
        arrays += [(borders - borders[0]).astype(np.int32), _characters(ids)]
    if fragment.sizes is not None:
        arrays.append(fragment.sizes)
    return [np.ascontiguousarray(array).data for array in arrays]


def _characters(texts: pa.Array) -> npt.NDArray[np.uint8]:
    data, borders = text_buffer(texts)
    return data[borders[0] : borders[-1]]


def read_note(note: Note) -> Fragment:
    """Return a block as it was noted; its columns stay where they are."""
    head = _decode(note.file[note.start : note.columns])
    count, at = head.count, note.columns

    def take(kind: npt.DTypeLike, length: int = count) -> npt.NDArray[Any]:
        nonlocal at
        column = np.frombuffer(note.file, kind, length, at)
        at += column.nbytes
        return column

    return Fragment(
        head.block,
        json.loads(head.about),
        take(np.int64),
        take(np.int16),
        head.rules,
        [take(np.int64) for _ in range(head.words)],
        [take(np.int64) for _ in range(head.words)],
        {label: take(kind) for label, kind in head.scores},
        None if head.ids is None else _texts(take, count, *head.ids),
        take(np.int64) if head.sizes else None,
    )


def _texts(take: Callable[[npt.DTypeLike, int], npt.NDArray[Any]], count: int, has_null: bool, size: int) -> pa.Array:
    known = pa.py_buffer(take(np.uint8, (count + 7) // 8)) if has_null else None
    borders, characters = pa.py_buffer(take(np.int32, count + 1)), pa.py_buffer(take(np.uint8, size))
    return pa.Array.from_buffers(pa.string(), count, [known, borders, characters])
