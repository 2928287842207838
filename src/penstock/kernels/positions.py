"""Count the characters between two positions of a document in constant time, after marking the document."""

from __future__ import annotations

import numpy as np

from penstock.kernels.native import count_ones, native
from penstock.kernels.spans import Bytes, Hashes, Places, gather, read_eight

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@native
def mark_continuations(data: Bytes, start: int, end: int, marks: Hashes, before: Places) -> None:
    """Set a bit for every UTF-8 continuation byte, and count those before every 64 bytes."""
    total = 0
    for block in range((end - start) // 64 + 1):
        before[block] = total
        bits = _ZERO
        for part in range(8):
            word = read_eight(data, start + 64 * block + 8 * part)
            # The highest bit is set, the next one is not.
            bits |= gather(word & ~(word << _ONE)) << np.uint64(8 * part)
        marks[block] = bits
        total += count_ones(bits)


@native
def characters_until(place: int, marks: Hashes, before: Places) -> int:
    """Return the number of characters of a marked document before a byte position."""
    going_on = before[place >> 6] + count_ones(marks[place >> 6] & ((_ONE << np.uint64(place & 63)) - _ONE))
    return place - going_on
