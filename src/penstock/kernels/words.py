"""Where the words and the lines of a document are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels.characters import ALPHA, SPACE, Flags
from penstock.kernels.native import native, trailing_zeros
from penstock.kernels.spans import Bytes, count_characters, decode, first_bytes, read_eight, spells, width

Places = npt.NDArray[np.int64]

# In the lowest byte where `(word - _BLANK | word) & _HIGH_BITS` is not 0 there is a control character, a blank or the
# beginning of a character beyond ASCII. (In higher bytes that may be a borrow.)
_BLANK = np.uint64(0x2121212121212121)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ZERO = np.uint64(0)


@native
def is_space(data: Bytes, at: int, flags: Flags) -> bool:
    """Tell whether the character that begins at a place is white space."""
    lead = data[at]
    if lead < 0x80:
        return (flags[lead] & SPACE) != 0
    # All white space beyond ASCII begins with one of these four.
    if lead == 0xC2 or (lead >= 0xE1 and lead <= 0xE3):
        return (flags[decode(data, at)] & SPACE) != 0
    return False


@native
def end_of_word(data: Bytes, start: int, end: int, flags: Flags) -> int:
    """Return where the word that begins at a place ends."""
    at = start
    while at < end:
        word = read_eight(data, at)
        odd = ((word - _BLANK) | word) & _HIGH_BITS
        if odd == _ZERO:
            at += 8
            continue
        at += trailing_zeros(odd) >> 3
        while at < end and (data[at] >= 0x80 or data[at] <= 0x20):
            if is_space(data, at, flags):
                return at
            at += width(data[at])
    return min(at, end)


@native
def find_words(
    data: Bytes, start: int, end: int, flags: Flags, starts: Places, ends: Places, lines: Places
) -> tuple[int, int]:
    """Write down where each word begins and ends, as ``str.split`` finds them, and each line that has any.

    A line is four numbers: its first byte, the one after its last, its first word, the one after its last.
    """
    count, line_count = 0, 0
    line_start, line_first = start, 0
    at = start
    while True:
        while at < end:
            byte = data[at]
            if byte == 10:
                if count > line_first:
                    lines[line_count : line_count + 4] = (line_start, at, line_first, count)
                    line_count += 4
                line_start, line_first = at + 1, count
                at += 1
            elif byte > 0x20 and byte < 0x80:
                break
            elif is_space(data, at, flags):
                at += width(byte)
            else:
                break
        if at >= end:
            break
        starts[count] = at
        at = end_of_word(data, at, end, flags)
        ends[count] = at
        count += 1
    if count > line_first:
        lines[line_count : line_count + 4] = (line_start, end, line_first, count)
        line_count += 4
    return count, line_count // 4


@native
def has_letter(data: Bytes, start: int, end: int, flags: Flags) -> bool:
    """Tell whether one of the characters of a word is a letter."""
    at = start
    while at < end:
        if flags[decode(data, at)] & ALPHA:
            return True
        at += width(data[at])
    return False


def _as_word(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(text.encode(), "little"))


_BE, _TO, _OF, _THE, _AND, _THAT, _HAVE, _WITH = (
    _as_word(word) for word in ("be", "to", "of", "the", "and", "that", "have", "with")
)


@native
def is_common_english(data: Bytes, start: int, end: int) -> bool:
    """Tell whether a word is one of the eight commonest of English, in small letters."""
    size = end - start
    if size < 2 or size > 4:
        return False
    word = first_bytes(read_eight(data, start), size)
    if size == 2:
        return word in (_BE, _TO, _OF)
    if size == 3:
        return word in (_THE, _AND)
    return word in (_THAT, _HAVE, _WITH)


def _as_bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), dtype=np.uint8)


_DOTS, _ELLIPSIS, _DASH_QUOTE = _as_bytes("..."), _as_bytes("…"), _as_bytes("-»")
_DOTS_SQUARE, _DOTS_ROUND, _ELLIPSIS_SQUARE = _as_bytes("[...]"), _as_bytes("(...)"), _as_bytes("[…]")
_READ_MORE, _READ_MORE_DOTS = _as_bytes("read more"), _as_bytes("read more..")


@native
def _equals(data: Bytes, start: int, end: int, phrase: Bytes) -> bool:
    return end - start == phrase.size and spells(data, start, phrase)


@native
def is_symbol_word(data: Bytes, start: int, end: int) -> bool:
    """Tell whether a word is an ellipsis, or a hash sign and then every other character one."""
    first = data[start]
    if first == 0x23:  # "#", "#a#", "#a#b#": only then are runs of "#" more than half of the characters
        at, odd = start, True
        while at < end:
            if (data[at] == 0x23) != odd:
                return False
            at += width(data[at])
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
    """Tell whether a line without white space around it ends as if it were to be continued."""
    last = data[end - 1]
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
def measure_words(data: Bytes, starts: Places, ends: Places, count: int, ascii_only: bool, before: Places) -> int:
    """Write down how many characters all words before each word have, and return the length of the longest."""
    total, longest = 0, 0
    for i in range(count):
        before[i] = total
        size = ends[i] - starts[i] if ascii_only else count_characters(data, starts[i], ends[i])
        total += size
        longest = max(longest, size)
    before[count] = total
    return longest
