"""Compute the exact Jaccard similarity of two texts: shingles in both, divided by shingles in either.

One text becomes a hash table; the shingles of the other are looked up in it, and only those not found go into a second
table, which stays small for similar texts. The lower half of a 64-bit hash selects the slot, the upper half is stored
in it, so that the table of a page fits into the cache; one shingle in a billion may be mistaken for another.

For a text larger than any book only every second, fourth, … shingle counts, selected by its hash. The similarity is
then an estimate from millions of shingles, with an error below 0.001, and the tables stay as small as for a book.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import native
from penstock.kernels.polynomial import Bytes, Hashes
from penstock.kernels.shingles import Scratch, Shingling, next_windows

# An empty slot; a shingle with this key is stored under the next key.
_NONE = np.uint32(0)
_32 = np.uint64(32)
# The shift of hashes of which all bits are used.
_WHOLE = np.uint64(0)
# Longer texts, in bytes, are sampled.
LARGEST_COUNTED = 1 << 24
# The bits of a hash that select the sample; they overlap neither with the slot, in tables of that size, nor the key.
_SAMPLED_FROM = 25

Slots = npt.NDArray[np.uint32]


@dataclass
class ShingleSet:
    """The shingles of a text as a hash table; ``marks`` holds the number of the last comparison that met each."""

    slots: Slots
    marks: npt.NDArray[np.int32]
    count: int
    # Bits that are 0 in the hash of every sampled shingle.
    sample: np.uint64
    visits: int = 0

    @property
    def num_bytes(self) -> int:
        """The size in memory."""
        return self.slots.nbytes + self.marks.nbytes


class Comparing:
    """Compute similarities. It holds buffers, so each thread needs its own."""

    def __init__(self, shingling: Shingling) -> None:
        self._buffers = Scratch(shingling, np.uint64)
        self._others: Slots = np.zeros(1 << 12, dtype=np.uint32)

    def shingles(self, text: Bytes) -> ShingleSet:
        """Return the shingles of a text."""
        buffers = self._buffers
        halvings = _halvings(len(text))
        sample = np.uint64((1 << halvings) - 1 << _SAMPLED_FROM)
        most = _most_shingles(text, buffers.by_words)
        slots: Slots = np.zeros(_table_size(most, halvings), dtype=np.uint32)
        count = _fill(
            text, buffers.width, buffers.by_words, buffers.powers, buffers.prefixes, buffers.words, buffers.hashes,
            sample, slots,
        )  # fmt: skip
        return ShingleSet(slots, np.zeros(len(slots), dtype=np.int32), count, sample)

    def similarity(self, first: ShingleSet, text: Bytes) -> float:
        """Return the similarity of a text to a shingle set; 0 if neither has a shingle."""
        buffers = self._buffers
        first.visits += 1
        halvings = int(first.sample >> np.uint64(_SAMPLED_FROM)).bit_length()
        needed = _table_size(_most_shingles(text, buffers.by_words), halvings)
        if len(self._others) < needed:
            self._others = np.zeros(needed, dtype=np.uint32)
        common, only_here = _compare(
            text, buffers.width, buffers.by_words, buffers.powers, buffers.prefixes, buffers.words, buffers.hashes,
            first.sample, first.slots, first.marks, first.visits, self._others[:needed],
        )  # fmt: skip
        either = first.count + only_here
        return common / either if either else 0.0


def is_sampled(text: Bytes) -> bool:
    """Return True if the text is so large that its similarities are estimated."""
    return _halvings(len(text)) > 0


def _halvings(size: int) -> int:
    """Return how often the number of sampled shingles is halved."""
    return (max(0, size - 1) // LARGEST_COUNTED).bit_length()


def _table_size(most: int, halvings: int = 0) -> int:
    # A sample of a thousand or more is never 10% larger than expected.
    most = most if not halvings else int(1.1 * most / 2**halvings) + 1000
    return max(16, 1 << (most * 3 // 2).bit_length())


@native
def _most_shingles(data: Bytes, by_words: bool) -> int:
    """Return an upper bound on the number of shingles."""
    if not by_words:
        return data.shape[0]
    spaces = 0
    for byte in data:  # every white space character has one of these bytes
        spaces += byte <= 32 or byte >= 0x80
    return min(spaces + 1, data.shape[0])


@native
def _key(value: np.uint64) -> np.uint32:
    """Return the part of a hash that is stored in a slot."""
    return max(np.uint32(value >> _32), np.uint32(1))


@native
def _find(slots: Slots, key: np.uint32, value: np.uint64) -> np.int64:
    """Return the slot of a shingle, or the empty slot where it is to be inserted."""
    last = slots.shape[0] - 1
    at = np.int64(value & np.uint64(last))
    while slots[at] != key and slots[at] != _NONE:
        at = (at + 1) & last
    return at


@native
def _fill(
    data: Bytes, width: int, by_words: bool, powers: Hashes, prefixes: Hashes, words: Hashes, hashes: Hashes,
    sample: np.uint64, slots: Slots,
) -> int:  # fmt: skip
    start, stop, held, found = 0, data.shape[0], 0, 0
    while start < stop:
        count, start, held = next_windows(
            data, start, stop, width, by_words, held, powers, prefixes, words, _WHOLE, hashes
        )
        for i in range(count):
            if hashes[i] & sample:
                continue
            key = _key(hashes[i])
            at = _find(slots, key, hashes[i])
            found += slots[at] == _NONE
            slots[at] = key
    return found


@native
def _compare(
    data: Bytes, width: int, by_words: bool, powers: Hashes, prefixes: Hashes, words: Hashes, hashes: Hashes,
    sample: np.uint64, slots: Slots, marks: npt.NDArray[np.int32], visit: int, others: Slots,
) -> tuple[int, int]:  # fmt: skip
    start, stop, held = 0, data.shape[0], 0
    common = only_here = 0
    while start < stop:
        count, start, held = next_windows(
            data, start, stop, width, by_words, held, powers, prefixes, words, _WHOLE, hashes
        )
        for i in range(count):
            if hashes[i] & sample:
                continue
            key = _key(hashes[i])
            at = _find(slots, key, hashes[i])
            if slots[at] == key:
                common += marks[at] != visit
                marks[at] = visit
                continue
            at = _find(others, key, hashes[i])
            only_here += others[at] == _NONE
            others[at] = key
    if only_here:
        others[:] = _NONE
    return common, only_here
