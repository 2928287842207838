"""Find the documents in a block of JSON lines, and the errors in lines that are not documents.

Every line is validated in full (JSON, UTF-8, no lone surrogates), so later code need not check it again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_EXCERPT = 2000
# After this many bad lines in one block excerpts are short: a file of another format must not fill the memory.
_MAX_LONG_EXCERPTS = 1000
_WINDOW = 1 << 20
_NEWLINE, _BACKSLASH, _OPEN, _CLOSE, _QUOTE, _U, _N = b'\n\\{}"un'
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_checked = msgspec.json.Decoder(dict[str, Any], float_hook=str).decode


@dataclass
class BadLine:
    """A line that is not a document, and the reason."""

    # Counted from 1 within the block.
    number: int
    # Where it begins in the block.
    offset: int
    reason: str
    excerpt: str
    # True if it was not parsed because it is longer than allowed.
    is_too_long: bool = False


@dataclass
class Scan:
    """The good lines of a block by begin and end, the names of their fields, and the bad lines."""

    starts: Positions
    ends: Positions
    names: list[str] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)
    # The number of lines, blank ones included.
    lines: int = 0
    # The field names of lines without text.
    names_without_text: list[str] = field(default_factory=list)


def scan_lines(block: pa.Buffer, text_field: str | None = None, max_line_bytes: int = sys.maxsize) -> Scan:
    """Find the documents in a block; blank lines are ignored. With ``text_field`` each must have text or null there.

    A line of more than ``max_line_bytes`` is not a document, whatever it contains.
    """
    data = np.frombuffer(block, np.uint8)
    starts, ends = _split(data)
    lines = len(starts)
    numbers = np.arange(1, lines + 1)
    bad: list[BadLine] = []
    if data.size > max_line_bytes and len(too_long := np.flatnonzero(ends - starts > max_line_bytes)):
        for row in too_long.tolist():
            start, end = int(starts[row]), int(ends[row])
            beginning = data[start : min(start + LONGEST_EXCERPT, end)].tobytes()
            bad.append(long_line(row + 1, start, end - start, beginning, max_line_bytes))
        starts, ends, numbers = (np.delete(array, too_long) for array in (starts, ends, numbers))
    starts, ends, numbers = _stripped(block, data, starts, ends, numbers)
    utf8 = _is_utf8(block)
    suspects = set(_lines_at(_half_characters(data), starts))
    view = memoryview(block)
    names: dict[str, None] = {}
    without_text: dict[str, None] = {}
    bad_rows: list[int] = []
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        line = view[start:end]
        try:
            document = _decode_object(line)
            if not document:
                reason = "an object without any field"
            elif not utf8 and (reason := _utf8_trouble(line)):
                pass
            elif text_field is not None and not _is_text(document.get(text_field)):
                reason = f"no text in its field '{text_field}'"
                without_text.update(dict.fromkeys(document))
            else:
                if row in suspects:
                    _decode_checked(line)
                if not document.keys() <= names.keys():
                    names.update(dict.fromkeys(document))
                continue
        except RecursionError:
            reason = "not JSON: nested too deeply"
        except msgspec.DecodeError as error:
            reason = _utf8_trouble(line) or _reason(line, error)
        except UnicodeDecodeError:
            reason = _utf8_trouble(line)
        bad_rows.append(row)
        shown = bytes(line[: LONGEST_EXCERPT if len(bad) < _MAX_LONG_EXCERPTS else 100])
        bad.append(BadLine(int(numbers[row]), start, reason, shown.decode("utf-8", "backslashreplace")))
    bad.sort(key=lambda line: line.number)
    if bad_rows:
        starts, ends = np.delete(starts, bad_rows), np.delete(ends, bad_rows)
    return Scan(starts, ends, list(names), bad, lines, list(without_text))


def long_line(number: int, offset: int, length: int, beginning: bytes, max_line_bytes: int) -> BadLine:
    """Return the report of a line that is longer than allowed."""
    reason = f"the line has {length:,} bytes, more than max_line_bytes={max_line_bytes:,}"
    return BadLine(number, offset, reason, beginning.decode("utf-8", "backslashreplace"), is_too_long=True)


def _split(data: npt.NDArray[np.uint8]) -> tuple[Positions, Positions]:
    """Return where lines begin and end, without line breaks."""
    # In windows: a mask as large as the block would cost as much memory as the block.
    found = [np.flatnonzero(data[at : at + _WINDOW] == _NEWLINE) + at for at in range(0, len(data), _WINDOW)]
    newlines = np.concatenate(found) if found else np.empty(0, np.int64)
    starts = np.concatenate([[0], newlines + 1]).astype(np.int64)
    ends = np.concatenate([newlines, [len(data)]]).astype(np.int64)
    return (starts[:-1], ends[:-1]) if starts[-1] == len(data) else (starts, ends)


def _stripped(
    block: pa.Buffer, data: npt.NDArray[np.uint8], starts: Positions, ends: Positions, numbers: Positions
) -> tuple[Positions, Positions, Positions]:
    """Strip white space around lines, and remove blank lines."""
    filled = ends > starts
    starts, ends, numbers = starts[filled], ends[filled], numbers[filled]
    loose = np.flatnonzero((data[starts] != _OPEN) | (data[ends - 1] != _CLOSE))
    if not len(loose):
        return starts, ends, numbers
    view = memoryview(block)
    for row in loose.tolist():
        line = bytes(view[starts[row] : ends[row]])
        ends[row] = starts[row] + len(line.rstrip())
        starts[row] = min(starts[row] + len(line) - len(line.lstrip()), ends[row])
    filled = ends > starts
    return starts[filled], ends[filled], numbers[filled]


def _is_utf8(block: pa.Buffer) -> bool:
    offsets = pa.py_buffer(np.array([0, block.size], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, block]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _utf8_trouble(line: memoryview) -> str:
    try:
        str(line, "utf-8")
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}"
    return ""


def _half_characters(data: npt.NDArray[np.uint8]) -> Positions:
    r"""Return positions of possible lone surrogates: ``\ud83d`` not followed by ``\ude00``, or the reverse."""
    found = []
    for at in range(0, len(data), _WINDOW):
        window = data[at : at + _WINDOW + 1]  # one more byte: an escape may cross the boundary
        found.append(np.flatnonzero((window[:-1] == _BACKSLASH) & (window[1:] == _U)) + at)
    escapes: Positions = np.concatenate(found) if found else np.empty(0, np.int64)
    escapes = escapes[escapes + 3 < len(data)]
    escapes = escapes[(data[escapes + 2] | 0x20) == ord("d")]
    if not len(escapes):
        return escapes
    second = data[escapes + 3] | 0x20
    is_high = ((second >= ord("8")) & (second <= ord("9"))) | ((second >= ord("a")) & (second <= ord("b")))
    is_low = (second >= ord("c")) & (second <= ord("f"))
    high, low = escapes[is_high], escapes[is_low]
    # After another backslash it may not be an escape, and then not a partner either.
    doubtful = np.concatenate([high, low])
    doubtful = doubtful[data[np.maximum(doubtful - 1, 0)] == _BACKSLASH]
    return np.concatenate([high[~np.isin(high + 6, low)], low[~np.isin(low - 6, high)], doubtful])


def _lines_at(positions: Positions, starts: Positions) -> Iterator[int]:
    return iter((np.searchsorted(starts, positions, side="right") - 1).tolist())


def _is_text(value: msgspec.Raw | None) -> bool:
    return value is not None and memoryview(value)[0] in (_QUOTE, _N)


def _reason(line: memoryview, error: msgspec.DecodeError) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"expected a JSON object, got {_kind(bytes(line[:1]))}"
    return f"not JSON: {error}"


def _kind(first: bytes) -> str:
    return {b"[": "an array", b'"': "a string", b"t": "true", b"f": "false", b"n": "null"}.get(first, "a number")
