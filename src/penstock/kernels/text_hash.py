"""Compute a 128-bit hash of every document of a column: equal hashes mean equal texts (XXH3)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh3_128_digest

from penstock.kernels.text_buffer import text_buffer

# Stored with hashes, so that only hashes of the same kind are compared.
TEXT_HASH = "xxh3_128"


def text_hashes(texts: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return two numbers for every text, the upper one first; a null text has the hash of the empty one.

    >>> hashes = text_hashes(pa.array(["a", "b", "a", None, ""]))
    >>> (hashes[0] == hashes[2]).all(), (hashes[0] == hashes[1]).any(), (hashes[3] == hashes[4]).all()
    (np.True_, np.False_, np.True_)
    """
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]  # not concatenated: that would copy
    digests = b"".join(digest for chunk in chunks for digest in _digests(chunk))
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def _digests(texts: pa.Array) -> list[bytes]:
    data, offsets = text_buffer(texts)
    content = data.data
    return [xxh3_128_digest(content[start:stop]) for start, stop in pairwise(offsets.tolist())]
