"""Small blocks as a worker writes them: one record after another in a file of its own, put together after the run.

A task of a few documents takes a tenth of a millisecond; a file for each would take several times that.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from penstock.kernels.text_buffer import text_buffer
from penstock.ledger.fragment import NAME_LENGTH, Fragment
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, is_local, open_input
from penstock.storage.records import RecordFile, framed, read_records

NOTES = ".notes"
# Blocks of fewer documents are noted; others are pieces of the ledger at once.
SMALL = 8192
# In the place of a block's name: what follows are the parameters of rules.
_PARAMETERS = b"=" * NAME_LENGTH


class _Record(msgspec.Struct, array_like=True):
    block: str
    about: bytes
    rows: bytes
    dropped: bytes
    rules: tuple[str, ...]
    asked: list[bytes]
    fails: list[bytes]
    scores: list[tuple[str, str, bytes]]
    ids: tuple[bytes, bytes, bytes] | None
    sizes: bytes | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Notes:
    """What one worker has to say of small blocks."""

    def __init__(self, folder: str, storage_options: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._options = storage_options
        self._file: RecordFile | None = None
        self._described: set[str] = set()

    def add(self, fragment: Fragment, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down a block, and what its rules were made with if this file does not say so yet."""
        records = []
        new = {label: parameters[label] for label in fragment.rules if label not in self._described}
        if new:
            records.append((_PARAMETERS, json.dumps(new).encode()))
        records.append((fragment.name.encode(), _encoded(fragment)))
        if self._file is None and not self._open():
            # Nothing can be appended to an object in a store: each block is one.
            with atomic_write(f"{self._folder}/{fragment.name}{NOTES}", self._options, durable=False) as stream:
                stream.write(b"".join(framed(b"".join(parts)) for parts in records))
            return
        assert self._file is not None
        for parts in records:
            self._file.append(*parts)
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
    """Where the record of a block stands."""

    name: str
    path: str
    start: int
    size: int


def find_notes(
    folder: str, storage_options: dict[str, Any] | None = None
) -> tuple[list[Note], dict[str, dict[str, Any]], list[str]]:
    """Return every note in the order of names, what rules were made with, and the files; of one name the last."""
    filesystem, root = filesystem_of(folder, storage_options)
    names = sorted(path.rpartition("/")[2] for path in filesystem.ls(root, detail=False) if path.endswith(NOTES))
    notes: dict[str, Note] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for path in [f"{folder}/{name}" for name in names]:
        with open_input(path, storage_options) as stream:
            for body, end in read_records(stream):
                name = body[:NAME_LENGTH]
                if name == _PARAMETERS:
                    parameters |= json.loads(body[NAME_LENGTH:])
                else:
                    size = len(body) - NAME_LENGTH
                    notes[name.decode()] = Note(name.decode(), path, end - size, size)
    return [notes[name] for name in sorted(notes)], parameters, names


def read_notes(notes: Sequence[Note], storage_options: dict[str, Any] | None = None) -> list[Fragment]:
    """Read some notes, in their order."""
    found: dict[str, Fragment] = {}
    for path, there in _by_path(notes).items():
        with open_input(path, storage_options) as stream:
            for note in there:
                stream.seek(note.start)
                found[note.name] = _decoded(stream.read(note.size))
    return [found[note.name] for note in notes]


def alike(fragments: Iterable[Fragment]) -> Iterator[list[Fragment]]:
    """Sort fragments by pool and rules: bits mean the same only where those are the same."""
    kinds: dict[tuple[Any, ...], list[Fragment]] = {}
    for fragment in fragments:
        kinds.setdefault((fragment.about["pool"], fragment.rules), []).append(fragment)
    yield from kinds.values()


def _by_path(notes: Sequence[Note]) -> dict[str, list[Note]]:
    paths: dict[str, list[Note]] = {}
    for note in sorted(notes, key=lambda note: note.start):
        paths.setdefault(note.path, []).append(note)
    return paths


def _encoded(fragment: Fragment) -> bytes:
    return _encode(
        _Record(
            fragment.block,
            json.dumps(fragment.about, ensure_ascii=False).encode(),
            fragment.rows.tobytes(),
            fragment.dropped.tobytes(),
            fragment.rules,
            [word.tobytes() for word in fragment.asked],
            [word.tobytes() for word in fragment.fails],
            [(label, scores.dtype.str, scores.tobytes()) for label, scores in fragment.scores.items()],
            None if fragment.ids is None else _string_buffers(fragment.ids),
            None if fragment.sizes is None else fragment.sizes.tobytes(),
        )
    )


def _decoded(body: bytes) -> Fragment:
    record = _decode(body)
    return Fragment(
        record.block,
        json.loads(record.about),
        np.frombuffer(record.rows, np.int64),
        np.frombuffer(record.dropped, np.int16),
        record.rules,
        [np.frombuffer(word, np.int64) for word in record.asked],
        [np.frombuffer(word, np.int64) for word in record.fails],
        {label: np.frombuffer(scores, kind) for label, kind, scores in record.scores},
        None if record.ids is None else _strings(*record.ids),
        None if record.sizes is None else np.frombuffer(record.sizes, np.int64),
    )


def _string_buffers(texts: pa.Array) -> tuple[bytes, bytes, bytes]:
    """Return which are not null, borders and characters: a list of texts would take longer than all the rest."""
    data, borders = text_buffer(texts)
    known = b""
    if texts.null_count:
        known = np.packbits(texts.is_valid().to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    from_nought = (borders - borders[0]).astype(np.int32)
    return known, from_nought.tobytes(), data[borders[0] : borders[-1]].tobytes()


def _strings(known: bytes, borders: bytes, characters: bytes) -> pa.Array:
    buffers = [pa.py_buffer(known) if known else None, pa.py_buffer(borders), pa.py_buffer(characters)]
    return pa.Array.from_buffers(pa.string(), len(borders) // 4 - 1, buffers)
