"""A small fastText classifier, learned from a few documents and written in fastText's own file format.

The package that runs models cannot train them, and the one that can takes the same name. So words are weighed here by
how much likelier they are under one label than under the other (naive Bayes), which is a fastText model of one dimension.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

_SUPERVISED, _SOFTMAX = 3, 3


def train(path: Path, documents: Mapping[str, Sequence[str]]) -> None:
    """Learn to tell two labels apart, and write the model."""
    (first, good), (second, bad) = ((label, Counter(" ".join(texts).split())) for label, texts in documents.items())
    words = sorted({*good, *bad})
    weights = {word: math.log((good[word] + 1) / (bad[word] + 1)) for word in words}
    arguments = struct.pack("<12id", 1, 5, 5, 1, 5, 1, _SOFTMAX, _SUPERVISED, 0, 0, 0, 100, 1e-4)
    # A line ends in </s>, so even an empty one has a word.
    entries = [("</s>", 0), *((word, 0) for word in words), (first, 1), (second, 1)]
    dictionary = struct.pack("<iiiqq", len(entries), len(words) + 1, 2, 100, -1)
    dictionary += b"".join(word.encode() + b"\0" + struct.pack("<qb", 1, kind) for word, kind in entries)
    inputs = _matrix([0.0, *(weights[word] for word in words)])
    outputs = _matrix([2.0, -2.0])
    path.write_bytes(struct.pack("<ii", 793712314, 12) + arguments + dictionary + inputs + outputs)


def _matrix(column: Sequence[float]) -> bytes:
    return struct.pack(f"<?qq{len(column)}f", False, len(column), 1, *column)
