"""Compute a 128-bit hash of every line: equal hashes mean equal lines (MurmurHash3 for 64-bit machines).

Lines are short and numerous: a library call for each would take five times as long as hashing all in one pass.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.native import load_u64, native
from penstock.kernels.polynomial import Bytes, mix
from penstock.kernels.text_buffer import text_buffer

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_5, _D1, _D2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)


def line_hashes(texts: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return two numbers for every text; a null text has the hash of the empty one.

    >>> hashes = line_hashes(pa.array(["a", "b", "a", None, ""]))
    >>> (hashes[0] == hashes[2]).all(), (hashes[0] == hashes[1]).any(), (hashes[3] == hashes[4]).all()
    (np.True_, np.False_, np.True_)
    """
    hashes = np.empty((len(texts), 2), dtype=np.uint64)
    row = 0
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:  # not concatenated: that would copy
        _hash_all(*text_buffer(chunk), hashes[row : row + len(chunk)])
        row += len(chunk)
    return hashes


@native
def _rotated(value: np.uint64, by: int) -> np.uint64:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@native
def _hash_all(data: Bytes, offsets: npt.NDArray[np.int64], out: npt.NDArray[np.uint64]) -> None:
    for row in range(offsets.shape[0] - 1):
        start, stop = offsets[row], offsets[row + 1]
        h1, h2 = np.uint64(0), np.uint64(0)
        i = start
        while i + 16 <= stop:
            h1 ^= _rotated(load_u64(data, i) * _C1, 31) * _C2
            h1 = (_rotated(h1, 27) + h2) * _5 + _D1
            h2 ^= _rotated(load_u64(data, i + 8) * _C2, 33) * _C1
            h2 = (_rotated(h2, 31) + h1) * _5 + _D2
            i += 16
        low, high = np.uint64(0), np.uint64(0)
        for k in range(i, stop):
            byte, at = np.uint64(data[k]), np.uint64(8 * ((k - i) % 8))
            if k - i < 8:
                low |= byte << at
            else:
                high |= byte << at
        h2 ^= _rotated(high * _C2, 33) * _C1
        h1 ^= _rotated(low * _C1, 31) * _C2
        size = np.uint64(stop - start)
        h1 ^= size
        h2 ^= size
        h1 += h2
        h2 += h1
        h1, h2 = mix(h1), mix(h2)
        h1 += h2
        h2 += h1
        out[row, 0], out[row, 1] = h1, h2
