"""Compute the similarity of two candidates: exactly from their texts, or estimated from their signatures."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.jaccard import Comparing, ShingleSet, is_sampled
from penstock.kernels.minhash import Words
from penstock.kernels.shingles import Shingling
from penstock.kernels.text_buffer import text_buffer

# Memory per worker for the shingle sets of kept documents that others are compared with.
HELD_BYTES = 128 << 20


class SimilarityMeasure(Protocol):
    """A measure of similarity between documents, which are numbered by row."""

    def similarity(self, kept: int, document: int) -> float:
        """Return the similarity of a document to a kept document."""

    def is_estimated(self, kept: int, document: int) -> bool:
        """Tell whether this similarity is an estimate."""


class TextSimilarity:
    """Similarity from the shingles of the texts; the most recently used shingle sets are cached."""

    def __init__(self, column: pa.ChunkedArray, shingling: Shingling, max_bytes: int = HELD_BYTES) -> None:
        self._data, self._offsets = text_buffer(column)
        self._comparing = Comparing(shingling)
        self._held: OrderedDict[int, ShingleSet] = OrderedDict()
        self._held_bytes = 0
        self._max_bytes = max_bytes

    def similarity(self, kept: int, document: int) -> float:
        """Return the Jaccard similarity: shingles in both texts divided by shingles in either."""
        return self._comparing.similarity(self._shingles(kept), self._text(document))

    def is_estimated(self, kept: int, document: int) -> bool:
        """Return True if the kept text is so large that its shingles are sampled."""
        return is_sampled(self._text(kept))

    def _text(self, row: int) -> npt.NDArray[np.uint8]:
        return self._data[self._offsets[row] : self._offsets[row + 1]]

    def _shingles(self, row: int) -> ShingleSet:
        if row in self._held:
            self._held.move_to_end(row)
            return self._held[row]
        made = self._held[row] = self._comparing.shingles(self._text(row))
        self._held_bytes += made.num_bytes
        while self._held_bytes > self._max_bytes and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= oldest.num_bytes
        return made


class SignatureSimilarity:
    """Similarity from MinHash signatures: the share of equal values estimates the Jaccard similarity."""

    def __init__(self, signatures: Words) -> None:
        self._signatures = signatures

    def similarity(self, kept: int, document: int) -> float:
        """Return the share of equal values in the two signatures."""
        return float((self._signatures[kept] == self._signatures[document]).mean())

    def is_estimated(self, kept: int, document: int) -> bool:
        """Return True: signatures only estimate."""
        return True


class MixedSimilarity:
    """Similarity from texts for documents of the input, from signatures for those of an index.

    Rows of the input come first; row ``count`` is the first of the index.
    """

    def __init__(self, texts: SimilarityMeasure, count: int, signatures: SignatureSimilarity) -> None:
        self._texts = texts
        self._count = count
        self._signatures = signatures

    def similarity(self, kept: int, document: int) -> float:
        """Return the similarity from the texts if both are available, otherwise from the signatures."""
        return self._for(kept).similarity(kept, document)

    def is_estimated(self, kept: int, document: int) -> bool:
        """Return True if the kept document is in the index, or if its text is sampled."""
        return self._for(kept).is_estimated(kept, document)

    def _for(self, kept: int) -> SimilarityMeasure:
        return self._texts if kept < self._count else self._signatures
