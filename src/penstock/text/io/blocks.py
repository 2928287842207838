"""Blocks of whole lines: from a stream of any length, or from the part of a file that a task names."""

from __future__ import annotations

from collections.abc import Iterator
from io import RawIOBase
from typing import IO, NamedTuple

import pyarrow as pa

from penstock.text.io.json_lines import BYTE_ORDER_MARK

_PEEK_BYTES = 1 << 16
_READ_ON_BYTES = 1 << 20


class Block(NamedTuple):
    """Some whole lines."""

    data: pa.Buffer
    # The byte of the (decompressed) file at which they begin.
    offset: int
    # Whether nothing follows.
    is_last: bool
    # Why nothing follows although there should be more.
    trouble: str = ""


def read_blocks(stream: IO[bytes] | RawIOBase, blocksize: int) -> Iterator[Block]:
    """Read a stream in blocks that end with a line; only a line that is longer makes one longer than ``blocksize``."""
    pending: list[bytes] = []
    size = cut = offset = 0
    trouble = ""
    while True:
        try:
            data = stream.read(max(blocksize - size, _PEEK_BYTES)) or b""
        except EOFError as error:
            data, trouble = b"", str(error)
        if not data:
            break
        newline = data.rfind(b"\n")
        cut = size + newline + 1 if newline >= 0 else cut
        pending.append(data)
        size += len(data)
        # A block is given out when it is known that more follows.
        if size > blocksize and 0 < cut < size:
            joined = b"".join(pending)
            yield _block(joined, cut, offset, is_last=False)
            pending = [joined[cut:]]
            offset += cut
            size -= cut
            cut = 0
            del joined, data
    if size or trouble:
        yield _block(b"".join(pending), size, offset, is_last=True, trouble=trouble)


def read_part(stream: IO[bytes], start: int, end: int) -> Iterator[Block]:
    """Read the lines that begin in some bytes of a file; the last of them may end behind these.

    So every line of a file belongs to exactly one of the parts it is cut into, wherever the cuts fall.
    """
    stream.seek(max(start - 1, 0))
    data = _read_exactly(stream, end - max(start - 1, 0))
    first = 0
    if start > 0:
        first = data.find(b"\n") + 1
        if first in (0, len(data)):
            return  # all of it belongs to a line that begins earlier
    pieces = [data]
    while not pieces[-1].endswith(b"\n"):
        more = stream.read(_READ_ON_BYTES)
        if not more:
            break
        newline = more.find(b"\n")
        pieces.append(more if newline < 0 else more[: newline + 1])
    whole = pa.py_buffer(b"".join(pieces))
    del data, pieces
    yield _without_mark(Block(whole.slice(first), max(start - 1, 0) + first, is_last=True))


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    pieces = []
    while size and (data := stream.read(size)):
        pieces.append(data)
        size -= len(data)
    return b"".join(pieces)


def _block(joined: bytes, size: int, offset: int, *, is_last: bool, trouble: str = "") -> Block:
    return _without_mark(Block(pa.py_buffer(joined).slice(0, size), offset, is_last, trouble))


def _without_mark(block: Block) -> Block:
    """Leave out the mark that some programs put at the beginning of a file."""
    if block.offset == 0 and bytes(memoryview(block.data)[:3]) == BYTE_ORDER_MARK:
        return block._replace(data=block.data.slice(3), offset=3)
    return block
