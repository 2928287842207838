"""Read the block files that workers wrote: list the records, read their headers and columns, group and copy them."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ledger.store.block_writer import BLOCK_SUFFIX, COLUMNS_SIZE, PARAMETERS, decode_header, lz4
from penstock.ledger.store.fragment import NAME_LENGTH, Fragment
from penstock.storage.filesystem import filesystem_of, is_local, reading
from penstock.storage.records import framed, read_records

_MAX_BLOCKS_PER_GROUP = 4000


class BlockFile:
    """A block file with random access. A local file is mapped into memory."""

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
        """Return a stream over the whole file, positioned at its start."""
        stream: IO[bytes] | mmap.mmap = self._mapped or self._filesystem.open(self._path, "rb")
        stream.seek(0)
        return stream

    def read(self, start: int, end: int) -> memoryview:
        """Return the bytes from ``start`` up to, not including, ``end``."""
        if self._mapped is not None:
            return memoryview(self._mapped)[start:end]
        with reading(self._path):
            return memoryview(self._filesystem.cat_file(self._path, start=start, end=end))


class BlockRecord(NamedTuple):
    """The position of one block in a block file."""

    name: str
    file: BlockFile
    # Byte offsets: the record, its header, its columns, and the byte after the last.
    start: int
    header: int
    columns: int
    end: int

    @property
    def size(self) -> int:
        """Return the size of the record in bytes."""
        return self.end - self.start


def find_blocks(
    folder: str, storage_options: dict[str, Any] | None = None
) -> tuple[list[BlockRecord], dict[str, dict[str, Any]], list[str]]:
    """Return all block records sorted by name, the parameters of their rules, and the block files.

    If several records have the same name, the last one is returned: the same work was done again, with the same
    result. A record that was cut off is skipped.
    """
    filesystem, root = filesystem_of(folder, storage_options)
    names = sorted(path.rpartition("/")[2] for path in filesystem.ls(root, detail=False) if path.endswith(BLOCK_SUFFIX))
    records: dict[str, BlockRecord] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for file in [BlockFile(filesystem, f"{root}/{name}") for name in names]:
        stream, start = file.stream(), 0
        for body, end in read_records(stream):
            name = body[:NAME_LENGTH]
            if name == PARAMETERS:
                parameters |= json.loads(body[NAME_LENGTH:])
                start = end
                continue
            prefix = NAME_LENGTH + COLUMNS_SIZE.size
            record_end = end + COLUMNS_SIZE.unpack(body[NAME_LENGTH:prefix])[0]
            if record_end > file.size:
                break
            records[name.decode()] = BlockRecord(name.decode(), file, start, end - len(body) + prefix, end, record_end)
            stream.seek(record_end)
            start = record_end
    return [records[name] for name in sorted(records)], parameters, names


def copy_blocks(records: Iterable[BlockRecord], parameters: Mapping[str, Mapping[str, Any]], stream: IO[bytes]) -> None:
    """Write records to a block file without decoding them."""
    stream.write(framed(PARAMETERS + json.dumps(parameters, sort_keys=True).encode()))
    for record in records:
        stream.write(record.file.read(record.start, record.end))


class BlockSummary(NamedTuple):
    """The header of a block, without its columns."""

    record: BlockRecord
    block: str
    about: dict[str, Any]
    documents: int
    rules: tuple[str, ...]
    words: int
    scored: tuple[str, ...]


def read_summary(record: BlockRecord) -> BlockSummary:
    """Read the header of a block."""
    header = decode_header(record.file.read(record.header, record.columns))
    scored = tuple(label for label, _ in header.scores)
    return BlockSummary(
        record, header.block, json.loads(header.about), header.count, header.rules, header.words, scored
    )


class _HasRules(Protocol):
    @property
    def about(self) -> dict[str, Any]: ...

    @property
    def rules(self) -> tuple[str, ...]: ...


_Some = TypeVar("_Some", bound=_HasRules)


def group_by_rules(blocks: Iterable[_Some]) -> Iterator[list[_Some]]:
    """Group blocks by pool and rules: bit n stands for the same rule only within such a group."""
    kinds: dict[tuple[Any, ...], list[_Some]] = {}
    for block in blocks:
        kinds.setdefault((block.about["pool"], block.rules), []).append(block)
    yield from kinds.values()


def group_by_size(records: Sequence[BlockRecord], enough_bytes: int) -> Iterator[list[BlockRecord]]:
    """Split records into groups of at least ``enough_bytes``; a group also ends at the maximum number of blocks."""
    group: list[BlockRecord] = []
    total = 0
    for record in records:
        group.append(record)
        total += record.size
        if total >= enough_bytes or len(group) >= _MAX_BLOCKS_PER_GROUP:
            yield group
            group, total = [], 0
    if group:
        yield group


def read_block(record: BlockRecord) -> Fragment:
    """Read a block with its columns."""
    whole = record.file.read(record.header, record.end)
    header = decode_header(whole[: record.columns - record.header])
    columns = whole[record.columns - record.header :]
    if header.compressed:
        columns = memoryview(lz4().decompress(columns, header.compressed))
    at = 0

    def take(kind: npt.DTypeLike, length: int = header.count) -> npt.NDArray[Any]:
        nonlocal at
        column = np.frombuffer(columns, kind, length, at)
        at += column.nbytes
        return column

    return Fragment(
        header.block,
        json.loads(header.about),
        take(np.int64),
        take(np.int16),
        header.rules,
        [take(np.int64) for _ in range(header.words)],
        [take(np.int64) for _ in range(header.words)],
        {label: take(kind) for label, kind in header.scores},
        None if header.ids is None else _texts(take, header.count, *header.ids),
        take(np.int64) if header.sizes else None,
    )


def _texts(take: Callable[[npt.DTypeLike, int], npt.NDArray[Any]], count: int, has_null: bool, size: int) -> pa.Array:
    known = pa.py_buffer(take(np.uint8, (count + 7) // 8)) if has_null else None
    offsets, characters = pa.py_buffer(take(np.int32, count + 1)), pa.py_buffer(take(np.uint8, size))
    return pa.Array.from_buffers(pa.string(), count, [known, offsets, characters])
