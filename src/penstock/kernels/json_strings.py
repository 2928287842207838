"""Find and decode fields of JSON lines without parsing the lines.

The lines are known to be JSON objects in UTF-8 without lone surrogates. Eight bytes are examined at a time; a text
without escapes is copied at the speed of memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import byte_at, load_u64, native, store_u64, trailing_zeros

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# The kinds of values a line can have for a field.
MISSING, PLAIN, ESCAPED, NULL, OTHER = range(5)
# The number of extra bytes a target buffer needs: eight bytes are written at a time.
SLACK = 8
# Shorter texts are copied by a loop, which is faster than a call to copy memory.
_SHORT = 256

_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_NONE = np.uint64(0)
_QUOTE, _BACKSLASH, _COMMA, _COLON = ord('"'), ord("\\"), ord(","), ord(":")
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _N, _U = ord("{"), ord("}"), ord("["), ord("]"), ord("n"), ord("u")
_SPACE = ord(" ")
_HIGH_HALF, _LOW_HALF, _AFTER_HALVES = 0xD800, 0xDC00, 0xE000


@native
def find_fields(
    data: Bytes,
    starts: Places,
    ends: Places,
    names: Bytes,
    name_ends: Places,
    begins: Places,
    stops: Places,
    kinds: npt.NDArray[np.uint8],
) -> None:
    """Find some fields in every line: [field, line] where the value begins and stops (a text without its quotes)."""
    longest = 0
    for number in range(len(name_ends)):
        longest = max(longest, name_ends[number] - (name_ends[number - 1] if number else 0))
    scratch = np.empty(6 * longest + SLACK, np.uint8)  # \u0061 is the longest way to write a byte
    for row in range(len(starts)):
        at, end = starts[row] + 1, ends[row] - 1
        while True:
            while at < end and (byte_at(data, at) <= _SPACE or byte_at(data, at) == _COMMA):
                at += 1
            if at >= end:
                break
            key = at + 1
            key_end, escaped = _string_end(data, key, end)
            field = _field_named(data, key, key_end, escaped, names, name_ends, scratch)
            at = key_end + 1
            while at < end and (byte_at(data, at) <= _SPACE or byte_at(data, at) == _COLON):
                at += 1
            begin, first = at, byte_at(data, at)
            if first == _QUOTE:
                begin += 1
                stop, escaped = _string_end(data, begin, end)
                at = stop + 1
                kind = ESCAPED if escaped else PLAIN
            else:
                at = stop = _value_end(data, at, end)
                kind = NULL if first == _N else OTHER
            if field >= 0:
                begins[field, row], stops[field, row], kinds[field, row] = begin, stop, kind


@native
def copy_texts(
    data: Bytes, begins: Places, stops: Places, kinds: npt.NDArray[np.uint8], target: Bytes, offsets: Places
) -> None:
    """Copy the texts of one field with escapes decoded; any other value becomes an empty text."""
    at = 0
    for row in range(len(begins)):
        if kinds[row] == PLAIN:
            count = stops[row] - begins[row]
            if count < _SHORT and begins[row] + _SHORT + SLACK <= len(data):
                for step in range(0, count, 8):
                    store_u64(target, at + step, load_u64(data, begins[row] + step))
            else:
                target[at : at + count] = data[begins[row] : stops[row]]
            at += count
        elif kinds[row] == ESCAPED:
            at = _unescape(data, begins[row], stops[row], target, at)
        offsets[row + 1] = at


@native
def _string_end(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Return the position of the closing quote, and whether there is an escape before it."""
    escaped = False
    size = len(data)
    while at < end:
        while at + 8 <= size:
            word = load_u64(data, at)
            quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
            found = (((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)) & _HIGH
            if found != _NONE:
                at += trailing_zeros(found) >> 3
                break
            at += 8
        if at >= end:
            break
        byte = byte_at(data, at)
        if byte == _QUOTE:
            return at, escaped
        if byte == _BACKSLASH:
            escaped = True
            at += 1
        at += 1
    return end, escaped


@native
def _value_end(data: Bytes, at: int, end: int) -> int:
    """Return the end of a number, a keyword, an object or an array."""
    depth = 0
    while at < end:
        byte = byte_at(data, at)
        if byte == _QUOTE:
            at, _ = _string_end(data, at + 1, end)
        elif byte in (_OPEN, _OPEN_LIST):
            depth += 1
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
            if depth == 0:
                return at + 1
        elif depth == 0 and (byte == _COMMA or byte <= _SPACE):
            return at
        at += 1
    return end


@native
def _field_named(
    data: Bytes, key: int, key_end: int, escaped: bool, names: Bytes, name_ends: Places, scratch: Bytes
) -> int:
    """Return the number of the field with this name; -1 if there is none."""
    length = key_end - key
    if escaped:
        if length > len(scratch) - SLACK:
            return -1
        data, length = scratch, _unescape(data, key, key_end, scratch, 0)
        key = 0
    begin = 0
    for number in range(len(name_ends)):
        if name_ends[number] - begin == length:
            same = 0
            while same < length and data[key + same] == names[begin + same]:
                same += 1
            if same == length:
                return number
        begin = name_ends[number]
    return -1


@native
def _unescape(data: Bytes, at: int, end: int, target: Bytes, filled: int) -> int:
    size = len(data)
    while at < end:
        if at + 8 <= size:
            word = load_u64(data, at)
            store_u64(target, filled, word)
            backslashes = word ^ _BACKSLASHES
            found = (backslashes - _ONES) & ~backslashes & _HIGH
            run = min(8 if found == _NONE else trailing_zeros(found) >> 3, end - at)
            at += run
            filled += run
            if run == 8 or at >= end:
                continue
        elif byte_at(data, at) != _BACKSLASH:
            target[filled] = data[at]
            at += 1
            filled += 1
            continue
        letter = byte_at(data, at + 1)
        at += 2
        if letter != _U:
            target[filled] = _meaning(letter)
            filled += 1
            continue
        code = _hexadecimal(data, at)
        at += 4
        if _HIGH_HALF <= code < _LOW_HALF:
            code = 0x10000 + ((code - _HIGH_HALF) << 10) + (_hexadecimal(data, at + 2) - _LOW_HALF)
            at += 6
        filled = _encode(code, target, filled)
    return filled


@native
def _meaning(letter: int) -> int:
    if letter == ord("n"):
        return 10
    if letter == ord("t"):
        return 9
    if letter == ord("r"):
        return 13
    if letter == ord("b"):
        return 8
    if letter == ord("f"):
        return 12
    return letter  # a quote, a slash, a backslash


@native
def _hexadecimal(data: Bytes, at: int) -> int:
    code = 0
    for place in range(4):
        digit = byte_at(data, at + place)
        code = code * 16 + (digit - 48 if digit <= ord("9") else (digit | 0x20) - 87)
    return code


@native
def _encode(code: int, target: Bytes, filled: int) -> int:
    """Write a character as UTF-8."""
    if code < 0x80:
        target[filled] = code
        return filled + 1
    if code < 0x800:
        target[filled] = 0xC0 | code >> 6
        target[filled + 1] = 0x80 | code & 0x3F
        return filled + 2
    if code < 0x10000:
        target[filled] = 0xE0 | code >> 12
        target[filled + 1] = 0x80 | code >> 6 & 0x3F
        target[filled + 2] = 0x80 | code & 0x3F
        return filled + 3
    target[filled] = 0xF0 | code >> 18
    target[filled + 1] = 0x80 | code >> 12 & 0x3F
    target[filled + 2] = 0x80 | code >> 6 & 0x3F
    target[filled + 3] = 0x80 | code & 0x3F
    return filled + 4
