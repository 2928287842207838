"""Compute shingles: the hash of every run of characters or words of a given width.

A character is a code point; words are separated by white space, as ``str.split`` defines it. Text is UTF-8; long
documents are processed in chunks, so that memory does not grow with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import native
from penstock.kernels.polynomial import Bytes, Hashes, extend, mix, powers, prefixes

# The number of windows per chunk; with their prefixes they fit into the second-level cache.
CHUNK = 1 << 14
_MAX_CHARACTER_BYTES = 4


@dataclass(frozen=True)
class Shingling:
    """The definition of a shingle: a number of characters or of words.

    >>> Shingling(width=24), Shingling(width=5, unit="word")
    (Shingling(width=24, unit='char'), Shingling(width=5, unit='word'))
    """

    width: int = 24
    unit: str = "char"

    def __post_init__(self) -> None:
        """Validate unit and width."""
        if self.unit not in ("char", "word"):
            raise ValueError(f"Shingling: unit={self.unit!r}; it is 'char' or 'word'.")
        if self.width < 1:
            raise ValueError(f"Shingling: width={self.width}; it is 1 or more.")


class Scratch:
    """Buffers for the shingles of one chunk; reused for many documents, one per thread."""

    def __init__(self, shingling: Shingling, dtype: npt.DTypeLike = np.uint32) -> None:
        self.width = shingling.width
        self.by_words = shingling.unit == "word"
        self.powers = powers(_MAX_CHARACTER_BYTES * shingling.width + 1)
        self.prefixes: Hashes = np.empty(CHUNK + _MAX_CHARACTER_BYTES * shingling.width + 1, dtype=np.uint64)
        # The last hashes of words, with which the next chunk begins.
        self.words: Hashes = np.empty(CHUNK + shingling.width, dtype=np.uint64)
        self.hashes: npt.NDArray[Any] = np.empty(CHUNK, dtype=dtype)
        self.shift = np.uint64(64 - 8 * self.hashes.itemsize)


@native
def char_windows(
    data: Bytes, start: int, stop: int, width: int, powers: Hashes, prefix: Hashes, shift: np.uint64, out: Hashes
) -> tuple[int, int]:
    """Hash the windows of characters that begin in the next chunk; return their number and the next start."""
    reach = min(stop, start + CHUNK + _MAX_CHARACTER_BYTES * width)
    if prefixes(data, start, reach, prefix):
        count = max(0, min(CHUNK, reach - start - width + 1))
        power = powers[width]
        for i in range(count):
            out[i] = mix(prefix[i + width] - prefix[i] * power) >> shift
        return count, start + count if count == CHUNK else stop
    count = chars = 0
    first = end = start
    while first < stop and first < start + CHUNK:
        while end < stop and chars < width:
            end += 1
            while end < stop and data[end] & 0xC0 == 0x80:
                end += 1
            chars += 1
        if chars < width:
            return count, stop
        out[count] = mix(prefix[end - start] - prefix[first - start] * powers[end - first]) >> shift
        count += 1
        chars -= 1
        first += 1
        while first < stop and data[first] & 0xC0 == 0x80:
            first += 1
    return count, first


@native
def space_at(data: Bytes, i: int, stop: int) -> int:
    """Return the length in bytes of the white space at a position, as in ``str.isspace``; 0 if there is none."""
    byte = data[i]
    if byte < 128:
        return 1 if byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31 else 0
    if byte == 0xC2:
        return 2 if i + 1 < stop and (data[i + 1] == 0x85 or data[i + 1] == 0xA0) else 0
    if i + 2 >= stop:
        return 0
    second, third = data[i + 1], data[i + 2]
    if byte == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if byte == 0xE2:
        if second == 0x80:
            return 3 if third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
        return 3 if second == 0x81 and third == 0x9F else 0
    return 3 if byte == 0xE3 and second == 0x80 and third == 0x80 else 0


@native
def word_windows(
    data: Bytes, start: int, stop: int, width: int, held: int, words: Hashes, shift: np.uint64, out: Hashes
) -> tuple[int, int, int]:
    """Hash the windows of words that end in the next chunk; return their number, the next start, and words held."""
    count = 0
    i = start
    while count < CHUNK and i < stop:
        length = space_at(data, i, stop)
        if length:
            i += length
            continue
        value = np.uint64(0)
        # Most bytes are clearly not white space and need no further test.
        while i < stop and (32 < data[i] < 128 or not space_at(data, i, stop)):
            value = extend(value, data[i])
            i += 1
        words[held] = mix(value)
        held += 1
        if held < width:
            continue
        window = np.uint64(width)
        for k in range(held - width, held):
            window = mix(window ^ words[k])
        out[count] = window >> shift
        count += 1
        if held == words.shape[0]:
            for k in range(width - 1):
                words[k] = words[held - width + 1 + k]
            held = width - 1
    return count, i, held


@native
def next_windows(
    data: Bytes, start: int, stop: int, width: int, by_words: bool, held: int, powers: Hashes, prefix: Hashes,
    words: Hashes, shift: np.uint64, out: Hashes,
) -> tuple[int, int, int]:  # fmt: skip
    """Hash the windows of the next chunk, of either kind; return their number, the next start, and words held."""
    if by_words:
        return word_windows(data, start, stop, width, held, words, shift, out)
    count, start = char_windows(data, start, stop, width, powers, prefix, shift, out)
    return count, start, held
