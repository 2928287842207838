"""Normalise texts before comparing them: Unicode composition, lower case, single spaces."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def normalised(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts in Unicode NFC, in lower case, with single spaces.

    >>> normalised(pa.chunked_array([["Cafe\\u0301  au\\tLait\\n"]])).to_pylist()
    ['café au lait']
    """
    composed = pc.utf8_normalize(texts.cast(pa.large_string()), form="NFC")
    spaced = pc.replace_substring_regex(pc.utf8_lower(composed), r"[\s\p{Z}]+", " ")
    return pc.utf8_trim_whitespace(spaced)
