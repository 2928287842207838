"""Every kernel of deduplication is called once on next to nothing, so that its code is there when it is needed.

The process does it that workers are forked from; otherwise each of them would load the same code. What was never
compiled is left to whoever needs it: that takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.dedup.evidence import Texts
from penstock.dedup.signing import Banding
from penstock.kernels import jaccard, json_strings, minhash, union
from penstock.kernels.native import is_compiled
from penstock.kernels.shingles import Shingling
from penstock.kernels.signing import Signer
from penstock.text.io.json_blocks import decode_block
from penstock.text.io.json_fields import Lines

_TEXTS = pa.chunked_array([["a few words, and a few more words"]], pa.large_string())
_LINE = b'{"text": "a few words"}\n'


def rehearse() -> None:
    """Load the code of all kernels, as far as it is on disk."""
    if _are_compiled(json_strings.find_fields, json_strings.copy_texts):
        decode_block(Lines(pa.py_buffer(_LINE), np.array([0]), np.array([len(_LINE) - 1])), ["text"])
    if _are_compiled(minhash._signatures, minhash._band_hashes):
        banding = Banding()
        signer = Signer(Shingling(), banding.num_hashes, banding.seed, banding.bits, "cpu")
        minhash.band_hashes(signer.signatures(_TEXTS)[0], banding.num_bands)
    if _are_compiled(union.connect, jaccard._fill, jaccard._compare, jaccard._most_shingles):
        union.connect(np.arange(2), np.array([[0, 1]]))
        Texts(_TEXTS, Shingling()).similarity(0, 0)


def _are_compiled(*kernels: Callable[..., object]) -> bool:
    return all(is_compiled(kernel) for kernel in kernels)
