"""Find the words and the lines of a document."""

from __future__ import annotations

import numpy as np

from penstock.kernels.characters import ALPHA, SPACE, Flags
from penstock.kernels.native import byte_at, native, trailing_zeros
from penstock.kernels.positions import characters_until
from penstock.kernels.spans import (
    Bytes,
    Hashes,
    Places,
    SmallPlaces,
    decode,
    find_byte,
    gather,
    read_eight,
    spells,
    width,
)

_ZERO, _ONE, _LAST = (np.uint64(n) for n in (0, 1, 63))
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_CASE_BITS = np.uint64(0x2020202020202020)
# Added to seven bits, these carry into the eighth bit from "!" on, from "a" on, and after "z".
_FROM_MARK, _FROM_A, _BEYOND_Z = (np.uint64((0x80 - byte) * 0x0101010101010101) for byte in (0x21, 0x61, 0x7B))


@native
def mark_blanks(data: Bytes, start: int, end: int, controls: int, flags: Flags, marks: Hashes) -> None:
    """Set a bit for every byte of white space, and for the unused rest of the last 64 bytes."""
    for block in range((end - start + 63) // 64):
        bits = np.uint64(0)
        for part in range(8):
            word = read_eight(data, start + 64 * block + 8 * part)
            bits |= gather(~(((word & _LOW_SEVEN) + _FROM_MARK) | word)) << np.uint64(8 * part)
        marks[block] = bits
    if (end - start) % 64:
        marks[(end - start) // 64] |= _ALL_BITS << np.uint64((end - start) % 64)
    if controls:
        for at in range(start, end):
            if byte_at(data, at) <= 0x20 and not flags[byte_at(data, at)] & SPACE:
                marks[(at - start) >> 6] &= ~(_ONE << np.uint64((at - start) & 63))


@native
def mark_wide_blank(start: int, at: int, size: int, marks: Hashes) -> None:
    """Set the bits of a white-space character beyond ASCII."""
    for place in range(at - start, at - start + size):
        marks[place >> 6] |= _ONE << np.uint64(place & 63)


@native
def find_words(start: int, end: int, marks: Hashes, borders: SmallPlaces) -> int:
    """Store where each word begins and ends, as ``str.split`` finds them, and return their number."""
    count = 0
    before = _ONE
    for block in range((end - start + 63) // 64):
        blank = marks[block]
        changes = blank ^ ((blank << _ONE) | before)
        before = blank >> _LAST
        while changes != _ZERO:
            borders[count] = start + 64 * block + trailing_zeros(changes)
            count += 1
            changes &= changes - _ONE
    if count & 1:
        borders[count] = end
        count += 1
    return count // 2


@native
def find_lines(data: Bytes, start: int, end: int, borders: SmallPlaces, words: int, lines: SmallPlaces) -> int:
    """Store each line that has words, and return their number.

    A line is four numbers: its first byte, the one after its last, its first word, the one after its last.
    """
    count, word, free_from = 0, 0, start
    while word < words:
        line_start = borders[2 * word]
        line_end = find_byte(data, 10, line_start, end)
        while line_start > free_from and byte_at(data, line_start - 1) != 10:
            line_start -= 1
        lines[4 * count] = line_start
        lines[4 * count + 1] = line_end
        lines[4 * count + 2] = word
        while word < words and borders[2 * word] < line_end:
            word += 1
        lines[4 * count + 3] = word
        free_from = line_end
        count += 1
    return count


@native
def letters_among(word: np.uint64) -> np.uint64:
    """Return eight bytes that are not 0 where the input has an ASCII letter."""
    small = (word | _CASE_BITS) & _LOW_SEVEN
    return (small + _FROM_A) & ~(small + _BEYOND_Z) & ~word & _HIGH_BITS


@native
def has_letter(data: Bytes, start: int, end: int, flags: Flags) -> bool:
    """Return True if a character of a word is a letter."""
    at = start
    while at < end:
        if flags[decode(data, at)] & ALPHA:
            return True
        at += width(byte_at(data, at))
    return False


def _as_word(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(text.encode(), "little"))


_BE, _TO, _OF, _THE, _AND, _THAT, _HAVE, _WITH = (
    _as_word(word) for word in ("be", "to", "of", "the", "and", "that", "have", "with")
)


@native
def is_common_english(word: np.uint64, size: int) -> bool:
    """Return True if the eight bytes from the start of a word are one of the eight common English words."""
    # All comparisons without short cut: a mispredicted branch costs more than the comparisons.
    two = (word == _BE) | (word == _TO) | (word == _OF)
    three = (word == _THE) | (word == _AND)
    four = (word == _THAT) | (word == _HAVE) | (word == _WITH)
    return (two & (size == 2)) | (three & (size == 3)) | (four & (size == 4))


def _as_bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), dtype=np.uint8)


_DOTS, _ELLIPSIS, _DASH_QUOTE = _as_bytes("..."), _as_bytes("…"), _as_bytes("-»")
_DOTS_SQUARE, _DOTS_ROUND, _ELLIPSIS_SQUARE = _as_bytes("[...]"), _as_bytes("(...)"), _as_bytes("[…]")
_READ_MORE, _READ_MORE_DOTS = _as_bytes("read more"), _as_bytes("read more..")


@native
def _equals(data: Bytes, start: int, end: int, phrase: Bytes) -> bool:
    return end - start == phrase.size and spells(data, start, phrase)


# The first bytes of the words that the next function looks for.
SYMBOL_STARTS = np.isin(np.arange(256), [0x23, 0x28, 0x2D, 0x2E, 0x5B, 0xE2])


@native
def is_symbol_word(data: Bytes, start: int, end: int) -> bool:
    """Return True if a word is an ellipsis, or if every other character, from the first, is a hash sign."""
    first = byte_at(data, start)
    if first == 0x23:  # "#", "#a#", "#a#b#": only then are runs of "#" more than half of the characters
        at, odd = start, True
        while at < end:
            if (byte_at(data, at) == 0x23) != odd:
                return False
            at += width(byte_at(data, at))
            odd = not odd
        return not odd
    if first == 0x2E:
        return _equals(data, start, end, _DOTS)
    if first == 0xE2:
        return _equals(data, start, end, _ELLIPSIS)
    if first == 0x2D:
        return _equals(data, start, end, _DASH_QUOTE)
    if first == 0x28:
        return _equals(data, start, end, _DOTS_ROUND)
    if first == 0x5B:
        return _equals(data, start, end, _DOTS_SQUARE) or _equals(data, start, end, _ELLIPSIS_SQUARE)
    return False


@native
def _ends_with(data: Bytes, start: int, end: int, phrase: Bytes) -> bool:
    return end - start >= phrase.size and spells(data, end - phrase.size, phrase)


@native
def ends_in_ellipsis(data: Bytes, start: int, end: int) -> bool:
    """Return True if a stripped line ends in an ellipsis or in "read more"."""
    last = byte_at(data, end - 1)
    if last == 0x2E:
        return _ends_with(data, start, end, _DOTS) or _ends_with(data, start, end, _READ_MORE_DOTS)
    if last == 0xA6:
        return _ends_with(data, start, end, _ELLIPSIS)
    if last == 0x5D:
        return _ends_with(data, start, end, _DOTS_SQUARE) or _ends_with(data, start, end, _ELLIPSIS_SQUARE)
    if last == 0x29:
        return _ends_with(data, start, end, _DOTS_ROUND)
    if last == 0xBB:
        return _ends_with(data, start, end, _DASH_QUOTE)
    return (last == 0x65 or last == 0x45) and _ends_with(data, start, end, _READ_MORE)


@native
def measure_words(
    start: int,
    borders: SmallPlaces,
    words: int,
    ascii_only: bool,
    goes_on: Hashes,
    gone_on: Places,
    before: SmallPlaces,
) -> int:
    """Store the number of characters of all words before each word, and return the length of the longest."""
    total, longest = 0, 0
    for i in range(words):
        before[i] = total
        size = borders[2 * i + 1] - borders[2 * i]
        if not ascii_only:
            size = characters_until(borders[2 * i + 1] - start, goes_on, gone_on)
            size -= characters_until(borders[2 * i] - start, goes_on, gone_on)
        total += size
        longest = max(longest, size)
    before[words] = total
    return longest
