"""Operations on a span of bytes in a buffer: hash it, count its characters, find a byte, compare it with a phrase."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import byte_at, load_u64, native, trailing_zeros

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
# Positions in one document and numbers of words: 32 bits, because there may be millions of them.
SmallPlaces = npt.NDArray[np.int32]

_ZERO, _ONE, _SEVEN, _EIGHT, _SHIFT, _TOP = (np.uint64(n) for n in (0, 1, 7, 8, 29, 56))
_LOW_BITS = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
# Multiplier that moves the lowest bit of each byte into the highest byte.
_GATHER = np.uint64(0x0102040810204080)
# The fraction of the golden ratio, and a prime with a different bit pattern.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)


@native
def read_eight(data: Bytes, at: int) -> np.uint64:
    """Return the eight bytes from a position, with zeros after the end of the buffer."""
    if at + 8 <= data.size:
        return load_u64(data, at)
    word = np.uint64(0)
    for i in range(data.size - 1, at - 1, -1):
        word = (word << _EIGHT) | np.uint64(byte_at(data, i))
    return word


@native
def first_bytes(word: np.uint64, count: int) -> np.uint64:
    """Return the first bytes of eight, with zeros for the others."""
    return word & _FIRST_BYTES[count]


@native
def gather(word: np.uint64) -> np.uint64:
    """Return the highest bits of eight bytes as one byte."""
    return (((word & _HIGH_BITS) >> _SEVEN) * _GATHER) >> _TOP


@native
def mix(state: np.uint64, word: np.uint64) -> np.uint64:
    """Mix eight more bytes into a hash."""
    state = (state ^ word) * _SPREAD
    return (state ^ (state >> _SHIFT)) * _STIR


@native
def hash_word(data: Bytes, start: int, size: int) -> np.uint64:
    """Return a 64-bit hash of a word, in the same time for all words of up to sixteen bytes."""
    if size > 16:
        return hash_span(data, start, start + size)
    one = read_eight(data, start) & _FIRST_BYTES[min(size, 8)]
    two = read_eight(data, start + 8) & _FIRST_BYTES[max(size - 8, 0)]
    return mix(one * _STIR + np.uint64(size), two * _SPREAD) | _ONE


@native
def hash_span(data: Bytes, start: int, end: int) -> np.uint64:
    """Return a 64-bit hash of a span; never 0, which marks an empty slot in a table."""
    # Spread over all bits, and never 0: otherwise bytes that spell the size would cancel it, and "\x01" would equal "".
    state = np.uint64(end - start) * _SPREAD + _STIR
    at = start
    while at + 8 <= end:
        state = mix(state, load_u64(data, at))
        at += 8
    if at < end:
        state = mix(state, first_bytes(read_eight(data, at), end - at))
    return state ^ (state >> _SHIFT) | _ONE


@native
def find_byte(data: Bytes, byte: int, start: int, end: int) -> int:
    """Return the first position of a byte in a span, or the end of the span."""
    pattern = np.uint64(byte) * _LOW_BITS
    at = start
    while at < end:
        word = read_eight(data, at) ^ pattern
        found = (word - _LOW_BITS) & ~word & _HIGH_BITS
        if found != _ZERO:
            return min(at + (trailing_zeros(found) >> 3), end)
        at += 8
    return end


@native
def find_non_ascii(data: Bytes, start: int, end: int) -> int:
    """Return the position of the first character beyond ASCII in a span, or the end of the span."""
    at = start
    while at < end:
        found = read_eight(data, at) & _HIGH_BITS
        if found != _ZERO:
            return min(at + (trailing_zeros(found) >> 3), end)
        at += 8
    return end


@native
def spells(data: Bytes, at: int, phrase: Bytes) -> bool:
    """Return True if the bytes from a position are a phrase given in lower case; ASCII case is ignored."""
    for i in range(phrase.size):
        byte = byte_at(data, at + i)
        if byte >= 65 and byte <= 90:
            byte += 32
        if byte != phrase[i]:
            return False
    return True


@native
def decode(data: Bytes, at: int) -> int:
    """Return the code point that begins at a position; the text is assumed to be valid UTF-8."""
    lead: Any = np.int64(byte_at(data, at))
    if lead < 0x80:
        return lead
    if lead < 0xE0:
        return ((lead & 0x1F) << 6) | (np.int64(byte_at(data, at + 1)) & 0x3F)
    if lead < 0xF0:
        return (
            ((lead & 0x0F) << 12)
            | ((np.int64(byte_at(data, at + 1)) & 0x3F) << 6)
            | (np.int64(byte_at(data, at + 2)) & 0x3F)
        )
    return (
        ((lead & 0x07) << 18)
        | ((np.int64(byte_at(data, at + 1)) & 0x3F) << 12)
        | ((np.int64(byte_at(data, at + 2)) & 0x3F) << 6)
        | (np.int64(byte_at(data, at + 3)) & 0x3F)
    )


@native
def decode_last(data: Bytes, end: int) -> int:
    """Return the code point that ends at a position."""
    at = end - 1
    while byte_at(data, at) & 0xC0 == 0x80:
        at -= 1
    return decode(data, at)


@native
def width(lead: int) -> int:
    """Return the length in bytes of a character that begins with this byte."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4
