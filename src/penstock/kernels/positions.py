"""How many characters lie between two places: asked of any span in a moment, once a document has been marked."""

from __future__ import annotations

import numpy as np

from penstock.kernels.native import count_ones, native
from penstock.kernels.spans import Bytes, Hashes, Places, gather, read_eight

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@native
def mark_continuations(data: Bytes, start: int, end: int, marks: Hashes, before: Places) -> None:
    """Set a bit for every byte that goes on with a character of UTF-8, and count those before every 64 bytes."""
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
    """Return how many characters a marked document has before a place, counted in bytes from its beginning."""
    going_on = before[place >> 6] + count_ones(marks[place >> 6] & ((_ONE << np.uint64(place & 63)) - _ONE))
    return place - going_on
