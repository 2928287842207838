"""Small fastText classifiers, written in fastText's own file format.

The package that runs models cannot train them, and the one that can takes the same name. So `train` weighs words by how
much likelier they are under one label than under the other (naive Bayes), which is a fastText model of one dimension.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

LOSSES = {"hierarchical": 1, "negative sampling": 2, "softmax": 3, "one against all": 4}
_SUPERVISED = 3


def write(
    path: Path,
    words: Sequence[str],
    labels: Sequence[str],
    vectors: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    loss: str = "softmax",
    buckets: int = 0,
    pieces: tuple[int, int] = (0, 0),
    neighbours: int = 1,
) -> None:
    """Write a model of these vectors, one for each word and each bucket, and weights, one for each label."""
    dimensions = np.atleast_2d(vectors).shape[1]
    settings = (dimensions, 5, 5, 1, 5, neighbours, LOSSES[loss], _SUPERVISED, buckets, *pieces, 100, 1e-4)
    entries = [*((word, 0) for word in words), *((label, 1) for label in labels)]
    content = struct.pack("<ii12id", 793712314, 12, *settings)
    content += struct.pack("<iiiqq", len(entries), len(words), len(labels), 100, -1)
    for rank, (name, kind) in enumerate(entries):
        content += name.encode() + b"\0" + struct.pack("<qb", 1000 - 7 * rank, kind)
    path.write_bytes(content + _matrix(vectors) + _matrix(weights))


def train(path: Path, documents: Mapping[str, Sequence[str]]) -> None:
    """Learn to tell two labels apart, and write the model."""
    good, bad = (Counter(" ".join(texts).split()) for texts in documents.values())
    words = sorted({*good, *bad})
    weights = [[math.log((good[word] + 1) / (bad[word] + 1))] for word in words]
    # A line ends in </s>, so even an empty one has a word.
    write(path, ["</s>", *words], list(documents), [[0.0], *weights], [[2.0], [-2.0]])


def _matrix(values: npt.ArrayLike) -> bytes:
    matrix = np.atleast_2d(np.asarray(values, "<f4"))
    return struct.pack("<?qq", False, *matrix.shape) + matrix.tobytes()
