"""Decide which candidates are removed: a document is removed only if it is similar enough to a kept document.

Documents are taken in order of preference, the most preferred first. Each is compared with its preceding candidates
that are kept, and with the documents kept in place of its removed candidates. The first that is similar enough is the
document kept for it. So a chain of small differences cannot remove a document that differs from the kept one: every
removed document was compared directly with the document that is kept for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.dedup.candidates import Pairs, unique_pairs
from penstock.dedup.document_ids import Ids
from penstock.dedup.duplicate_pairs import Removed, nothing_removed
from penstock.dedup.similarity import SimilarityMeasure


@dataclass(frozen=True)
class Candidates:
    """Documents to compare. Documents from an index have negative ids and are always kept."""

    components: Ids
    ranks: npt.NDArray[np.float64]
    documents: Ids


def choose_removed(
    found: npt.NDArray[np.void], candidates: Candidates, measure: SimilarityMeasure, threshold: float
) -> Removed:
    """Return the documents to remove, from the records of candidate pairs and a measure of similarity."""
    if not len(found):
        return nothing_removed()
    documents = candidates.documents
    order = np.lexsort((documents, candidates.ranks, candidates.components))
    place_of = np.empty(len(order), dtype=np.int64)
    place_of[order] = np.arange(len(order))
    by_id = np.argsort(documents)
    pairs = unique_pairs(np.stack([found["worse"], found["better"]], axis=1))
    places = place_of[by_id[np.searchsorted(documents[by_id], pairs)]]
    # In each pair, the document with the higher position is the one that may be removed.
    pairs = unique_pairs(np.sort(places, axis=1)[:, ::-1])
    removed, kept, similarities = _match_with_kept(pairs, order, measure, threshold)
    estimated = [
        measure.is_estimated(kept_row, row) for kept_row, row in zip(kept.tolist(), removed.tolist(), strict=True)
    ]
    return Removed(documents[removed], documents[kept], similarities, np.array(estimated, dtype=np.bool_))


def _match_with_kept(
    pairs: Pairs, order: Ids, measure: SimilarityMeasure, threshold: float
) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """Return the rows of removed documents, the rows of the documents kept for them, and their similarities.

    Pairs hold positions in the order of preference, and are sorted by the first.
    """
    rows = order.tolist()
    kept_for: dict[int, int] = {}
    similarities: list[float] = []
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=True):
        document = int(pairs[start, 0])
        tried: set[int] = set()
        for candidate in pairs[start:stop, 1].tolist():
            kept = kept_for.get(candidate, candidate)
            if kept in tried:
                continue
            tried.add(kept)
            similarity = measure.similarity(rows[kept], rows[document])
            if similarity >= threshold:
                kept_for[document] = kept
                similarities.append(similarity)
                break
    removed = np.fromiter(kept_for, dtype=np.int64, count=len(kept_for))
    kept_rows = np.fromiter(kept_for.values(), dtype=np.int64, count=len(kept_for))
    return order[removed], order[kept_rows], np.array(similarities)
