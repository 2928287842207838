"""Call every compiled kernel of deduplication once on a tiny input, so that its code is loaded before it is needed.

This runs in the process that workers are forked from; otherwise every worker would load the same code. Kernels that
are not in the compilation cache are skipped: compiling takes seconds, and the worker that needs one compiles it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.dedup.signing import Banding
from penstock.dedup.similarity import TextSimilarity
from penstock.kernels import jaccard, json_strings, minhash, union
from penstock.kernels.native import is_compiled
from penstock.kernels.shingles import Shingling
from penstock.kernels.signing import Signer
from penstock.text.io.json_blocks import decode_block
from penstock.text.io.json_fields import Lines

_TEXTS = pa.chunked_array([["a few words, and a few more words"]], pa.large_string())
_LINE = b'{"text": "a few words"}\n'


def rehearse() -> None:
    """Load the code of all kernels that are in the compilation cache on disk."""
    if _are_compiled(json_strings.find_fields, json_strings.copy_texts):
        decode_block(Lines(pa.py_buffer(_LINE), np.array([0]), np.array([len(_LINE) - 1])), ["text"])
    if _are_compiled(minhash._signatures, minhash._band_hashes):
        banding = Banding()
        signer = Signer(Shingling(), banding.num_hashes, banding.seed, banding.bits, "cpu")
        minhash.band_hashes(signer.signatures(_TEXTS)[0], banding.num_bands)
    if _are_compiled(union.connect, jaccard._fill, jaccard._compare, jaccard._most_shingles):
        union.connect(np.arange(2), np.array([[0, 1]]))
        TextSimilarity(_TEXTS, Shingling()).similarity(0, 0)


def _are_compiled(*kernels: Callable[..., object]) -> bool:
    return all(is_compiled(kernel) for kernel in kernels)
