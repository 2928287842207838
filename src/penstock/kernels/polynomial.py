"""The hash of shingles: a polynomial over bytes, mixed at the end.

A polynomial modulo 2^64 over any stretch of a text follows from two prefixes, so the hash of a window costs the same
for every width. ``mix`` (the finaliser of MurmurHash3) spreads the low bits over all bits. A 32-bit hash is the upper
half of a 64-bit hash.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import native

BASE = 0x9E3779B97F4A7C15
MIX_1 = 0xFF51AFD7ED558CCD
MIX_2 = 0xC4CEB9FE1A85EC53

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]

_BASE, _MIX_1, _MIX_2 = np.uint64(BASE), np.uint64(MIX_1), np.uint64(MIX_2)
_33 = np.uint64(33)


@native
def mix(value: np.uint64) -> np.uint64:
    """Spread all bits of a value over all bits of the result."""
    value ^= value >> _33
    value *= _MIX_1
    value ^= value >> _33
    value *= _MIX_2
    value ^= value >> _33
    return value


@native
def extend(value: np.uint64, byte: np.uint8) -> np.uint64:
    """Return the polynomial of a text with one byte appended; a zero byte counts too."""
    return value * _BASE + np.uint64(byte) + np.uint64(1)


@native
def prefixes(data: Bytes, start: int, stop: int, out: Hashes) -> bool:
    """Write the polynomial of every prefix of a stretch; return True if the stretch is all ASCII."""
    value = np.uint64(0)
    seen = np.uint8(0)
    out[0] = value
    for i in range(stop - start):
        byte = data[start + i]
        seen |= byte
        value = extend(value, byte)
        out[i + 1] = value
    return bool(seen < 128)


def powers(count: int) -> Hashes:
    """Return the first powers of the base.

    >>> [hex(power) for power in powers(2)]
    ['0x1', '0x9e3779b97f4a7c15']
    """
    values = [1]
    for _ in range(count - 1):
        values.append(values[-1] * BASE % 2**64)
    return np.array(values, dtype=np.uint64)
