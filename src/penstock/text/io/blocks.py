"""Blocks of whole lines: from a stream of any length, or from the part of a file that a task names."""

from __future__ import annotations

from collections.abc import Iterator
from io import RawIOBase
from typing import IO, NamedTuple

import pyarrow as pa

from penstock.text.io.json_lines import BYTE_ORDER_MARK

_PEEK_BYTES = 1 << 16
_READ_ON_BYTES = 1 << 18
_NEWLINE = ord("\n")


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
    size = offset = 0
    has_line_end = False
    trouble = ""
    while True:
        try:
            data = stream.read(max(blocksize - size, _PEEK_BYTES)) or b""
        except EOFError as error:
            data, trouble = b"", str(error)
        if not data:
            break
        pending.append(data)
        size += len(data)
        has_line_end = has_line_end or b"\n" in data
        if size <= blocksize or not has_line_end:
            continue  # a line of many blocks is put together once, when it ends
        held = b"".join(pending)
        del pending, data
        while len(held) > blocksize:
            cut = held.rfind(b"\n", 0, blocksize) + 1 or held.find(b"\n") + 1
            if cut in (0, len(held)):
                break  # it is not known that more follows
            yield _block(held, cut, offset, is_last=False)
            offset += cut
            held = held[cut:]
        pending, size, has_line_end = [held], len(held), b"\n" in held
        del held
    if size or trouble:
        yield _block(b"".join(pending), size, offset, is_last=True, trouble=trouble)


def read_part(stream: IO[bytes], start: int, end: int) -> Iterator[Block]:
    """Read the lines that begin in some bytes of a file; the last of them may end behind these.

    So every line of a file belongs to exactly one of the parts it is cut into, wherever the cuts fall.
    """
    begin = max(start - 1, 0)
    stream.seek(begin)
    # In memory that Arrow hands out again and again, with room for what the last line lacks: not copied once more.
    buffer = pa.allocate_buffer(end - begin + _READ_ON_BYTES)
    view = memoryview(buffer).cast("B")
    filled = _fill(stream, view[: end - begin])
    first = _line_end(view[:filled]) + 1 if start > 0 else 0
    if filled == 0 or (start > 0 and first in (0, filled)):
        return  # all of it belongs to a line that begins earlier
    rest = _rest_of_line(stream) if view[filled - 1] != _NEWLINE else b""
    if len(rest) <= _READ_ON_BYTES:
        view[filled : filled + len(rest)] = rest
    else:
        buffer, first, begin, filled = (
            pa.py_buffer(b"".join([view[first:filled], rest])),
            0,
            begin + first,
            filled - first,
        )
    del view
    yield _without_mark(Block(buffer.slice(first, filled + len(rest) - first), begin + first, is_last=True))


def _fill(stream: IO[bytes], view: memoryview) -> int:
    """Read as much as fits, or as there is."""
    filled = 0
    while filled < len(view) and (data := stream.readinto(view[filled:])):  # type: ignore[attr-defined]
        filled += data
    return filled


def _line_end(view: memoryview) -> int:
    """Return where the first line ends; -1 if it does not."""
    for at in range(0, len(view), _READ_ON_BYTES):
        found = view[at : at + _READ_ON_BYTES].tobytes().find(b"\n")
        if found >= 0:
            return at + found
    return -1


def _rest_of_line(stream: IO[bytes]) -> bytes:
    pieces: list[bytes] = []
    while data := stream.read(_READ_ON_BYTES):
        line_end = data.find(b"\n")
        pieces.append(data if line_end < 0 else data[: line_end + 1])
        if line_end >= 0:
            break
    return b"".join(pieces)


def _block(joined: bytes, size: int, offset: int, *, is_last: bool, trouble: str = "") -> Block:
    return _without_mark(Block(pa.py_buffer(joined).slice(0, size), offset, is_last, trouble))


def _without_mark(block: Block) -> Block:
    """Leave out the mark that some programs put at the beginning of a file."""
    if block.offset == 0 and bytes(memoryview(block.data)[:3]) == BYTE_ORDER_MARK:
        return block._replace(data=block.data.slice(3), offset=3)
    return block
