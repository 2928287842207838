"""Write blocks to a block file: each worker appends to a file of its own; the files are merged after the run.

A block is a record with a header, followed by its columns as they are in memory, compressed together. Writing a block
of a few documents takes a tenth of a millisecond; a file per block would take several times that.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.text_buffer import text_buffer
from penstock.ledger.store.fragment import NAME_LENGTH, Fragment
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, is_local
from penstock.storage.records import RecordFile, framed

# The suffix of a block file.
BLOCK_SUFFIX = ".notes"
# Takes the place of a block's name in a record that holds the parameters of rules.
PARAMETERS = b"=" * NAME_LENGTH
# After the name: the size in bytes of the columns that follow the record.
COLUMNS_SIZE = struct.Struct("<Q")
# Smaller columns are not compressed.
_MIN_COMPRESSED_BYTES = 4096


class BlockHeader(msgspec.Struct, array_like=True):
    """The header of a block. The columns follow it, in the order of these fields."""

    block: str
    about: bytes
    count: int
    rules: tuple[str, ...]
    # Number of 64-bit words per document for the "asked" flags, and again for the "fails" flags.
    words: int
    # Rule label and dtype of its scores.
    scores: list[tuple[str, str]]
    # Whether some ids are null, and the size of all ids in bytes; None without ids.
    ids: tuple[bool, int] | None
    sizes: bool
    # Size of the columns in bytes after decompression; 0 if they are not compressed.
    compressed: int


_encode = msgspec.msgpack.Encoder().encode
decode_header = msgspec.msgpack.Decoder(BlockHeader).decode


class BlockWriter:
    """Append the blocks of one worker to a block file."""

    def __init__(self, folder: str, storage_options: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._options = storage_options
        self._file: RecordFile | None = None
        self._described: set[str] = set()

    def add(self, fragment: Fragment, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        """Append a block, preceded by the parameters of rules that are new to this file."""
        records: list[tuple[bytes, list[memoryview]]] = []
        new = {label: parameters[label] for label in fragment.rules if label not in self._described}
        if new:
            records.append((PARAMETERS + json.dumps(new).encode(), []))
        columns, raw = _columns(fragment), 0
        if (whole := sum(column.nbytes for column in columns)) >= _MIN_COMPRESSED_BYTES:
            columns, raw = [memoryview(lz4().compress(b"".join(columns)))], whole
        size = COLUMNS_SIZE.pack(sum(column.nbytes for column in columns))
        records.append((fragment.name.encode() + size + _encode(_header(fragment, raw)), columns))
        if self._file is None and not self._open():
            # An object store cannot append: each block becomes an object of its own.
            with atomic_write(f"{self._folder}/{fragment.name}{BLOCK_SUFFIX}", self._options, durable=False) as stream:
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
            self._file = RecordFile(f"{folder}/{uuid.uuid4().hex}{BLOCK_SUFFIX}")
        return self._file is not None


def _header(fragment: Fragment, compressed: int) -> BlockHeader:
    return BlockHeader(
        fragment.block,
        json.dumps(fragment.about).encode(),
        len(fragment.rows),
        fragment.rules,
        len(fragment.asked),
        [(label, scores.dtype.str) for label, scores in fragment.scores.items()],
        None if fragment.ids is None else (fragment.ids.null_count > 0, _characters(fragment.ids).nbytes),
        fragment.sizes is not None,
        compressed,
    )


@cache
def lz4() -> pa.Codec:
    """Return the codec that compresses columns."""
    return pa.Codec("lz4")


def _columns(fragment: Fragment) -> list[memoryview]:
    arrays = [fragment.rows, fragment.dropped, *fragment.asked, *fragment.fails, *fragment.scores.values()]
    if (ids := fragment.ids) is not None:
        if ids.null_count:
            arrays.append(np.packbits(ids.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
        offsets = text_buffer(ids)[1]
        arrays += [(offsets - offsets[0]).astype(np.int32), _characters(ids)]
    if fragment.sizes is not None:
        arrays.append(fragment.sizes)
    return [np.ascontiguousarray(array).data for array in arrays]


def _characters(texts: pa.Array) -> npt.NDArray[np.uint8]:
    data, offsets = text_buffer(texts)
    return data[offsets[0] : offsets[-1]]
