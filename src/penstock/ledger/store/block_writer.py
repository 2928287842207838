"""Blocks as a worker writes them: one record after another in a file of its own, put together after the run.

A note is a record that says what it holds, and behind it the columns, as they are in memory, compressed together. To
write one of a few documents takes a tenth of a millisecond; a file for each would take several times that.
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

NOTES = ".notes"
# In the place of a block's name: what follows are the parameters of rules.
PARAMETERS = b"=" * NAME_LENGTH
# Behind a name: how many bytes of columns follow the record.
SIZE = struct.Struct("<Q")
_WORTH_COMPRESSING = 4096


class Head(msgspec.Struct, array_like=True):
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
    # How many bytes the columns are once decompressed; 0: they are not compressed.
    compressed: int


_encode = msgspec.msgpack.Encoder().encode
decode_head = msgspec.msgpack.Decoder(Head).decode


class Notes:
    """What one worker has to say."""

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
            records.append((PARAMETERS + json.dumps(new).encode(), []))
        columns, raw = _columns(fragment), 0
        if (whole := sum(column.nbytes for column in columns)) >= _WORTH_COMPRESSING:
            columns, raw = [memoryview(lz4().compress(b"".join(columns)))], whole
        size = SIZE.pack(sum(column.nbytes for column in columns))
        records.append((fragment.name.encode() + size + _encode(_head(fragment, raw)), columns))
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


def _head(fragment: Fragment, compressed: int) -> Head:
    return Head(
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
    """Return what columns are compressed with."""
    return pa.Codec("lz4")


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
