"""How similar two candidates are: counted from their texts, or estimated from their signatures."""

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

# How much a worker holds of documents that others are being compared with.
HELD_BYTES = 128 << 20


class Evidence(Protocol):
    """What is known about some documents, by their rows."""

    def similarity(self, stays: int, document: int) -> float:
        """Return how similar a document is to one that stays."""

    def is_estimated(self, stays: int, document: int) -> bool:
        """Tell whether that is only an estimate."""


class Texts:
    """Texts, whose shingles are counted; those compared with most recently are held taken apart."""

    def __init__(self, column: pa.ChunkedArray, shingling: Shingling, most_bytes: int = HELD_BYTES) -> None:
        self._data, self._offsets = text_buffer(column)
        self._comparing = Comparing(shingling)
        self._held: OrderedDict[int, ShingleSet] = OrderedDict()
        self._held_bytes = 0
        self._most_bytes = most_bytes

    def similarity(self, stays: int, document: int) -> float:
        """Return the shingles in both over the shingles in either."""
        return self._comparing.similarity(self._shingles(stays), self._text(document))

    def is_estimated(self, stays: int, document: int) -> bool:
        """Say yes where a text is so large that its shingles are sampled."""
        return is_sampled(self._text(stays))

    def _text(self, row: int) -> npt.NDArray[np.uint8]:
        return self._data[self._offsets[row] : self._offsets[row + 1]]

    def _shingles(self, row: int) -> ShingleSet:
        if row in self._held:
            self._held.move_to_end(row)
            return self._held[row]
        made = self._held[row] = self._comparing.shingles(self._text(row))
        self._held_bytes += made.num_bytes
        while self._held_bytes > self._most_bytes and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= oldest.num_bytes
        return made


class Signatures:
    """Signatures: the share of numbers that two have in common is about the similarity of the texts."""

    def __init__(self, signatures: Words) -> None:
        self._signatures = signatures

    def similarity(self, stays: int, document: int) -> float:
        """Return the share of equal numbers."""
        return float((self._signatures[stays] == self._signatures[document]).mean())

    def is_estimated(self, stays: int, document: int) -> bool:
        """Say yes."""
        return True


class TextsWhereThereAre:
    """Texts of documents that are being read, and signatures of those known from an index, which come after them."""

    def __init__(self, texts: Evidence, count: int, signatures: Signatures) -> None:
        self._texts = texts
        self._count = count
        self._signatures = signatures

    def similarity(self, stays: int, document: int) -> float:
        """Return the best there is."""
        return self._for(stays).similarity(stays, document)

    def is_estimated(self, stays: int, document: int) -> bool:
        """Say yes of what is known from an index."""
        return self._for(stays).is_estimated(stays, document)

    def _for(self, stays: int) -> Evidence:
        return self._texts if stays < self._count else self._signatures
