"""Notes as they are read: which there are, what each is about, and the block it holds; sorted, and put together."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ledger.store.block_writer import NOTES, PARAMETERS, SIZE, decode_head, lz4
from penstock.ledger.store.fragment import NAME_LENGTH, Fragment
from penstock.storage.filesystem import filesystem_of, is_local, reading
from penstock.storage.records import framed, read_records

_MOST_BLOCKS = 4000


class NoteFile:
    """A file of notes, of which any part can be read: mapped into memory where it is one of this machine's."""

    def __init__(self, filesystem: Any, path: str) -> None:  # noqa: ANN401 - fsspec has no types
        self._filesystem = filesystem
        self._path = path
        self._mapped: mmap.mmap | None = None
        with reading(path):
            self.size = int(filesystem.size(path))
            if self.size and is_local(filesystem):
                with Path(path).open("rb") as stream:
                    self._mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    def stream(self) -> IO[bytes] | mmap.mmap:
        """Return all of it, to be read from the beginning."""
        stream: IO[bytes] | mmap.mmap = self._mapped or self._filesystem.open(self._path, "rb")
        stream.seek(0)
        return stream

    def read(self, start: int, end: int) -> memoryview:
        """Return some bytes."""
        if self._mapped is not None:
            return memoryview(self._mapped)[start:end]
        with reading(self._path):
            return memoryview(self._filesystem.cat_file(self._path, start=start, end=end))


class Note(NamedTuple):
    """Where a block is noted."""

    name: str
    file: NoteFile
    # Where its record begins, what it says of the columns, and those.
    start: int
    head: int
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
    for file in [NoteFile(filesystem, f"{root}/{name}") for name in names]:
        stream, start = file.stream(), 0
        for body, end in read_records(stream):
            name = body[:NAME_LENGTH]
            if name == PARAMETERS:
                parameters |= json.loads(body[NAME_LENGTH:])
                start = end
                continue
            head = NAME_LENGTH + SIZE.size
            past = end + SIZE.unpack(body[NAME_LENGTH:head])[0]
            if past > file.size:
                break
            notes[name.decode()] = Note(name.decode(), file, start, end - len(body) + head, end, past)
            stream.seek(past)
            start = past
    return [notes[name] for name in sorted(notes)], parameters, names


def write_notes(notes: Iterable[Note], parameters: Mapping[str, Mapping[str, Any]], stream: IO[bytes]) -> None:
    """Write notes one after another, as they are."""
    stream.write(framed(PARAMETERS + json.dumps(parameters, sort_keys=True).encode()))
    for note in notes:
        stream.write(note.file.read(note.start, note.end))


class Summary(NamedTuple):
    """What a note says of its block, without the columns."""

    note: Note
    block: str
    about: dict[str, Any]
    documents: int
    rules: tuple[str, ...]
    words: int
    scored: tuple[str, ...]


def read_summary(note: Note) -> Summary:
    """Return what a note is about."""
    head = decode_head(note.file.read(note.head, note.columns))
    scored = tuple(label for label, _ in head.scores)
    return Summary(note, head.block, json.loads(head.about), head.count, head.rules, head.words, scored)


class _HasRules(Protocol):
    @property
    def about(self) -> dict[str, Any]: ...

    @property
    def rules(self) -> tuple[str, ...]: ...


_Some = TypeVar("_Some", bound=_HasRules)


def alike(blocks: Iterable[_Some]) -> Iterator[list[_Some]]:
    """Sort blocks by pool and rules: bits mean the same only where those are the same."""
    kinds: dict[tuple[Any, ...], list[_Some]] = {}
    for block in blocks:
        kinds.setdefault((block.about["pool"], block.rules), []).append(block)
    yield from kinds.values()


def grouped(notes: Sequence[Note], enough: int) -> Iterator[list[Note]]:
    """Group notes until there is enough of them."""
    group: list[Note] = []
    total = 0
    for note in notes:
        group.append(note)
        total += note.size
        if total >= enough or len(group) >= _MOST_BLOCKS:
            yield group
            group, total = [], 0
    if group:
        yield group


def read_note(note: Note) -> Fragment:
    """Return a block as it was noted."""
    whole = note.file.read(note.head, note.end)
    head = decode_head(whole[: note.columns - note.head])
    columns = whole[note.columns - note.head :]
    if head.compressed:
        columns = memoryview(lz4().decompress(columns, head.compressed))
    at = 0

    def take(kind: npt.DTypeLike, length: int = head.count) -> npt.NDArray[Any]:
        nonlocal at
        column = np.frombuffer(columns, kind, length, at)
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
        None if head.ids is None else _texts(take, head.count, *head.ids),
        take(np.int64) if head.sizes else None,
    )


def _texts(take: Callable[[npt.DTypeLike, int], npt.NDArray[Any]], count: int, has_null: bool, size: int) -> pa.Array:
    known = pa.py_buffer(take(np.uint8, (count + 7) // 8)) if has_null else None
    borders, characters = pa.py_buffer(take(np.int32, count + 1)), pa.py_buffer(take(np.uint8, size))
    return pa.Array.from_buffers(pa.string(), count, [known, borders, characters])
