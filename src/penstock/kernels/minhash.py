"""MinHash signatures: estimate the similarity of two sets of shingles from a few hundred numbers.

Each permutation is ``a * h + b`` modulo 2^32 (or 2^64) with odd ``a``, applied to mixed hashes; the signature holds the
minimum of each. Four families were compared on versions of real pages (this one, multiplication alone, modulo a
Mersenne prime, full mixing); the errors of their estimates did not differ significantly. This one costs one
multiply-add and one minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.native import is_compiled, native
from penstock.kernels.polynomial import Bytes, mix
from penstock.kernels.shingles import Scratch, Shingling, next_windows
from penstock.kernels.text_buffer import text_buffer

# Unsigned, of 32 or 64 bits.
Words = npt.NDArray[Any]


@dataclass(frozen=True)
class Permutations:
    """The constants of a signature."""

    a: Words
    b: Words

    @property
    def count(self) -> int:
        """The number of values of a signature."""
        return len(self.a)


def permutations(count: int, seed: int = 42, bits: int = 32) -> Permutations:
    """Draw permutations from a seed, the same on every machine.

    >>> permutations(2, seed=1).a.dtype, permutations(2, bits=64).a.dtype
    (dtype('uint32'), dtype('uint64'))
    """
    if bits not in (32, 64):
        raise ValueError(f"permutations: bits={bits}; it is 32 or 64.")
    # Not NumPy's generators: their streams may change between versions, and signatures are stored.
    state, drawn = seed % 2**64, []
    for _ in range(2 * count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        drawn.append(int(mix(np.uint64(state))))
    values = np.array(drawn, dtype=np.uint64)
    if bits == 32:
        values = values >> np.uint64(32)
    values = values.astype(np.uint32 if bits == 32 else np.uint64)
    return Permutations(values[:count] | values.dtype.type(1), values[count:])


def signatures(texts: pa.Array, shingling: Shingling, chosen: Permutations) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Return the signature of every text, and whether it has a shingle; without one, all bits are set."""
    data, offsets = text_buffer(texts)
    dtype = chosen.a.dtype
    signature = np.full((len(texts), chosen.count), np.iinfo(dtype).max, dtype=dtype)
    has_shingles = np.zeros(len(texts), dtype=np.bool_)
    buffers = Scratch(shingling, dtype)
    _signatures(
        data, offsets, buffers.width, buffers.by_words, buffers.powers, buffers.prefixes, buffers.words,
        buffers.shift, buffers.hashes, chosen.a, chosen.b, signature, has_shingles,
    )  # fmt: skip
    return signature, has_shingles


def is_warm() -> bool:
    """Return True if signing has been compiled on this machine."""
    return is_compiled(_signatures)


@native
def _signatures(
    data: Bytes, offsets: npt.NDArray[np.int64], width: int, by_words: bool, powers: Words, prefixes: Words,
    words: Words, shift: np.uint64, hashes: Words, a: Words, b: Words, signature: Words,
    has_shingles: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    for row in range(offsets.shape[0] - 1):
        start, stop = offsets[row], offsets[row + 1]
        held = 0
        while start < stop:
            count, start, held = next_windows(
                data, start, stop, width, by_words, held, powers, prefixes, words, shift, hashes
            )
            _lower(hashes, count, a, b, signature[row])
            has_shingles[row] |= count > 0


@native
def _lower(hashes: Words, count: int, a: Words, b: Words, least: Words) -> None:
    """Update the minima of a signature with some hashes, eight at a time to load and store it less often."""
    i = 0
    while i + 8 <= count:
        h0, h1, h2, h3 = hashes[i], hashes[i + 1], hashes[i + 2], hashes[i + 3]
        h4, h5, h6, h7 = hashes[i + 4], hashes[i + 5], hashes[i + 6], hashes[i + 7]
        for p in range(a.shape[0]):
            factor, term, value = a[p], b[p], least[p]
            value = min(value, type(value)(factor * h0 + term))
            value = min(value, type(value)(factor * h1 + term))
            value = min(value, type(value)(factor * h2 + term))
            value = min(value, type(value)(factor * h3 + term))
            value = min(value, type(value)(factor * h4 + term))
            value = min(value, type(value)(factor * h5 + term))
            value = min(value, type(value)(factor * h6 + term))
            value = min(value, type(value)(factor * h7 + term))
            least[p] = value
        i += 8
    while i < count:
        for p in range(a.shape[0]):
            least[p] = min(least[p], type(least[p])(a[p] * hashes[i] + b[p]))
        i += 1


def band_hashes(signature: Words, bands: int) -> npt.NDArray[np.uint64]:
    """Return one hash per document and band, of the numbers in that band; equal bands have equal hashes.

    >>> band_hashes(np.array([[1, 2, 3, 4], [1, 2, 9, 9]], dtype=np.uint32), 2).shape
    (2, 2)
    """
    hashes = np.empty((signature.shape[0], bands), dtype=np.uint64)
    _band_hashes(signature, signature.shape[1] // bands, hashes)
    return hashes


@native
def _band_hashes(signature: Words, rows: int, out: npt.NDArray[np.uint64]) -> None:
    for document in range(out.shape[0]):
        for band in range(out.shape[1]):
            value = np.uint64(band + 1)
            for k in range(band * rows, (band + 1) * rows):
                value = mix(value ^ np.uint64(signature[document, k]))
            out[document, band] = value
