"""Read blocks of whole lines: from a stream of any length, or from a part of a file."""

from __future__ import annotations

from collections.abc import Iterator
from io import RawIOBase
from typing import IO, NamedTuple

import pyarrow as pa

from penstock.text.io.json_lines import BYTE_ORDER_MARK, LONGEST_EXCERPT

_PEEK_BYTES = 1 << 16
_READ_ON_BYTES = 1 << 18
_NEWLINE = ord("\n")


class LongLine(NamedTuple):
    """A line that is longer than allowed: it was skipped and is not in memory."""

    length: int
    beginning: bytes


class LineBlock(NamedTuple):
    """A block of whole lines."""

    data: pa.Buffer
    # The byte of the (decompressed) file at which they begin.
    offset: int
    # True for the last block.
    is_last: bool
    # Why reading stopped before the end of the file.
    trouble: str = ""
    # The next line, if it is longer than allowed.
    long_line: LongLine | None = None


def read_blocks(stream: IO[bytes] | RawIOBase, blocksize: int, max_line_bytes: int) -> Iterator[LineBlock]:
    """Read a stream in blocks that end with a line; a block exceeds ``blocksize`` only for a single longer line.

    A line that exceeds ``max_line_bytes`` before it ends is not held in memory; ``LineBlock.long_line`` reports it.
    """
    pending: list[bytes] = []
    size = offset = 0
    # The number of bytes of the last line, which has not ended yet.
    unfinished = 0
    trouble = ""
    while True:
        data, trouble = _read(stream, max(blocksize - size, _PEEK_BYTES))
        if not data:
            break
        pending.append(data)
        size += len(data)
        line_end = data.rfind(b"\n")
        unfinished = unfinished + len(data) if line_end < 0 else len(data) - line_end - 1
        if unfinished > max_line_bytes:
            before, beginning = _parted(pending, size - unfinished)
            pending = []
            length, data, trouble = _rest_of_long_line(stream, unfinished)
            long_line = LongLine(length, beginning)
            yield _block(before, len(before), offset, is_last=not data, trouble=trouble, long_line=long_line)
            if not data:
                return
            offset += len(before) + length + 1
            pending, size, unfinished = [data], len(data), len(data) - data.rfind(b"\n") - 1
        if size <= blocksize or unfinished == size:
            continue  # a line of many blocks is joined once, when it ends
        held = b"".join(pending)
        del pending, data
        while len(held) > blocksize:
            cut = held.rfind(b"\n", 0, blocksize) + 1 or held.find(b"\n") + 1
            if cut in (0, len(held)):
                break  # whether more follows is not known yet
            yield _block(held, cut, offset, is_last=False)
            offset += cut
            held = held[cut:]
        pending, size = [held], len(held)
        del held
    if size or trouble:
        yield _block(b"".join(pending), size, offset, is_last=True, trouble=trouble)


def read_part(stream: IO[bytes], start: int, end: int, max_line_bytes: int) -> Iterator[LineBlock]:
    """Read the lines that begin in a byte range of a file; the last of them may end after the range.

    So every line of a file belongs to exactly one of its parts, wherever the file is split. If the last line is longer
    than ``max_line_bytes``, only that many bytes are held.
    """
    begin = max(start - 1, 0)
    stream.seek(begin)
    # A buffer of Arrow's allocator, which reuses memory, with space for the rest of the last line: no further copy.
    buffer = pa.allocate_buffer(end - begin + _READ_ON_BYTES)
    view = memoryview(buffer).cast("B")
    filled = _fill(stream, view[: end - begin])
    first = _line_end(view[:filled]) + 1 if start > 0 else 0
    if filled == 0 or (start > 0 and first in (0, filled)):
        return  # everything belongs to a line that begins before this part
    last = filled if view[filled - 1] == _NEWLINE else max(_last_line_end(view[:filled]) + 1, first)
    rest, is_too_long = (b"", False) if last == filled else _rest_of_line(stream, max_line_bytes - (filled - last))
    if is_too_long:
        length, _, trouble = _rest_of_long_line(stream, filled - last + len(rest), looks_ahead=False)
        long_line = LongLine(length, b"".join([view[last:filled], rest])[:LONGEST_EXCERPT])
        del view
        block = LineBlock(buffer.slice(first, last - first), begin + first, is_last=True, trouble=trouble)
        yield _without_mark(block)._replace(long_line=long_line)
        return
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
    yield _without_mark(LineBlock(buffer.slice(first, filled + len(rest) - first), begin + first, is_last=True))


def _read(stream: IO[bytes] | RawIOBase, size: int) -> tuple[bytes, str]:
    """Return the next bytes, and the reason if there are none although there should be."""
    try:
        return stream.read(size) or b"", ""
    except EOFError as error:
        return b"", str(error)


def _parted(pieces: list[bytes], at: int) -> tuple[bytes, bytes]:
    """Return the bytes before a position in some pieces, and an excerpt of those after it."""
    before: list[bytes] = []
    after: list[bytes] = []
    for piece in pieces:
        before.append(piece[:at])
        if sum(map(len, after)) < LONGEST_EXCERPT:
            after.append(piece[at : at + LONGEST_EXCERPT])
        at = max(at - len(piece), 0)
    return b"".join(before), b"".join(after)[:LONGEST_EXCERPT]


def _rest_of_long_line(
    stream: IO[bytes] | RawIOBase, length: int, *, looks_ahead: bool = True
) -> tuple[int, bytes, str]:
    """Skip the rest of a line; return its length, the bytes after it, and the error if the stream ends early."""
    while True:
        data, trouble = _read(stream, _READ_ON_BYTES)
        line_end = data.find(b"\n")
        if not data or line_end >= 0:
            break
        length += len(data)
    if line_end >= 0:
        length += line_end
        data = data[line_end + 1 :]
        if not data and looks_ahead:
            data, trouble = _read(stream, _READ_ON_BYTES)
    return length, data, trouble


def _fill(stream: IO[bytes], view: memoryview) -> int:
    """Fill the view from the stream; return the number of bytes read."""
    filled = 0
    while filled < len(view) and (data := stream.readinto(view[filled:])):  # type: ignore[attr-defined]
        filled += data
    return filled


def _line_end(view: memoryview) -> int:
    """Return the end of the first line; -1 if it has no end."""
    for at in range(0, len(view), _READ_ON_BYTES):
        found = view[at : at + _READ_ON_BYTES].tobytes().find(b"\n")
        if found >= 0:
            return at + found
    return -1


def _last_line_end(view: memoryview) -> int:
    """Return the end of the last complete line; -1 if there is none."""
    for end in range(len(view), 0, -_READ_ON_BYTES):
        begin = max(end - _READ_ON_BYTES, 0)
        found = view[begin:end].tobytes().rfind(b"\n")
        if found >= 0:
            return begin + found
    return -1


def _rest_of_line(stream: IO[bytes], most: int) -> tuple[bytes, bool]:
    """Return the rest of a line with its line break, and True if it is longer than ``most`` bytes."""
    pieces: list[bytes] = []
    size = 0
    while size <= most and (data := stream.read(_READ_ON_BYTES)):
        line_end = data.find(b"\n")
        pieces.append(data if line_end < 0 else data[: line_end + 1])
        size += len(pieces[-1])
        if line_end >= 0:
            return b"".join(pieces), False  # the scan of the block checks its length
    return b"".join(pieces), size > most


def _block(
    joined: bytes, size: int, offset: int, *, is_last: bool, trouble: str = "", long_line: LongLine | None = None
) -> LineBlock:
    return _without_mark(LineBlock(pa.py_buffer(joined).slice(0, size), offset, is_last, trouble, long_line))


def _without_mark(block: LineBlock) -> LineBlock:
    """Remove a byte order mark at the beginning of a file."""
    if block.offset == 0 and bytes(memoryview(block.data)[:3]) == BYTE_ORDER_MARK:
        return block._replace(data=block.data.slice(3), offset=3)
    return block
