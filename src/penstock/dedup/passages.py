"""Split documents into lines or paragraphs, hash these, and join documents again without some of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.line_hash import line_hashes

SEPARATORS = {"line": "\n", "paragraph": "\n\n"}


@dataclass(frozen=True)
class Passages:
    """The lines or paragraphs of some documents, in order."""

    texts: pa.Array
    # Index of the first passage of each document, and one past the last passage.
    borders: npt.NDArray[np.int64]
    # Hash of each passage without surrounding white space, and whether it is long enough to be considered.
    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.bool_]

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Row of the document that each passage belongs to."""
        return np.repeat(np.arange(len(self.borders) - 1), np.diff(self.borders))

    def first_in_document(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the passages that do not repeat an earlier passage of the same document."""
        order = np.lexsort((np.arange(len(self.hashes)), self.hashes[:, 1], self.hashes[:, 0], self.rows))
        same = (self.rows[order][1:] == self.rows[order][:-1]) & (
            self.hashes[order][1:] == self.hashes[order][:-1]
        ).all(1)
        first = np.ones(len(order), dtype=np.bool_)
        first[order[1:][same]] = False
        return first

    def joined(self, keep: npt.NDArray[np.bool_], separator: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Return the texts of some documents, joined from the passages for which ``keep`` is true."""
        sizes = np.bincount(self.rows[keep], minlength=len(self.borders) - 1)
        chosen = np.isin(self.rows, rows) & keep
        borders = np.concatenate([[0], np.cumsum(sizes[rows])])
        parts = pa.LargeListArray.from_arrays(pa.array(borders, pa.int64()), self.texts.filter(pa.array(chosen)))
        return pc.binary_join(parts, pa.scalar(separator, pa.large_string()))


def passages_of(texts: pa.ChunkedArray, unit: str, min_characters: int) -> Passages:
    """Split texts into lines or paragraphs.

    >>> apart = passages_of(pa.chunked_array([["a title\\nsome line\\n", ""]]), "line", 5)
    >>> apart.texts.to_pylist(), apart.borders.tolist(), apart.counts.tolist()
    (['a title', 'some line', '', ''], [0, 3, 4], [True, True, False, False])
    """
    lists = pc.split_pattern(texts.cast(pa.large_string()).combine_chunks(), SEPARATORS[unit])
    flat = lists.flatten()
    borders = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False))])
    trimmed = pc.utf8_trim_whitespace(flat)
    counts = pc.greater_equal(pc.utf8_length(trimmed), min_characters).to_numpy(zero_copy_only=False)
    return Passages(flat, borders.astype(np.int64), line_hashes(trimmed), counts)
