"""Which candidates go: a document goes only if it is similar enough to one that stays.

Documents are taken in the order in which they would stay. Each is compared with the candidates in front of it that
stay, and with those because of which its candidates go; the first that is similar enough is its twin. So no chain of
small steps ends far from where it began: what goes was measured against the very document that is kept for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.dedup.candidates import Pairs, unique_pairs
from penstock.dedup.evidence import Evidence
from penstock.dedup.places import Ids
from penstock.dedup.removed import Removed, nothing_removed


@dataclass(frozen=True)
class Candidates:
    """Documents that have to be compared; documents known from an index have ids below zero, and stay."""

    components: Ids
    ranks: npt.NDArray[np.float64]
    documents: Ids


def decide(found: npt.NDArray[np.void], candidates: Candidates, evidence: Evidence, threshold: float) -> Removed:
    """Return the documents that go, given records of pairs and what is known of the documents."""
    if not len(found):
        return nothing_removed()
    documents = candidates.documents
    order = np.lexsort((documents, candidates.ranks, candidates.components))
    place_of = np.empty(len(order), dtype=np.int64)
    place_of[order] = np.arange(len(order))
    by_id = np.argsort(documents)
    pairs = unique_pairs(np.stack([found["worse"], found["better"]], axis=1))
    places = place_of[by_id[np.searchsorted(documents[by_id], pairs)]]
    # Whoever stands in front stays rather than whoever stands behind.
    pairs = unique_pairs(np.sort(places, axis=1)[:, ::-1])
    gone, twins, similarities = _twins(pairs, order, evidence, threshold)
    estimated = [evidence.is_estimated(stays, row) for stays, row in zip(twins.tolist(), gone.tolist(), strict=True)]
    return Removed(documents[gone], documents[twins], similarities, np.array(estimated, dtype=np.bool_))


def _twins(pairs: Pairs, order: Ids, evidence: Evidence, threshold: float) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """Return the rows of documents that go and of those they go for; pairs are of places, in the order of the first."""
    rows = order.tolist()
    twin_of: dict[int, int] = {}
    similarities: list[float] = []
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=True):
        document = int(pairs[start, 0])
        tried: set[int] = set()
        for candidate in pairs[start:stop, 1].tolist():
            stays = twin_of.get(candidate, candidate)
            if stays in tried:
                continue
            tried.add(stays)
            similarity = evidence.similarity(rows[stays], rows[document])
            if similarity >= threshold:
                twin_of[document] = stays
                similarities.append(similarity)
                break
    gone = np.fromiter(twin_of, dtype=np.int64, count=len(twin_of))
    twins = np.fromiter(twin_of.values(), dtype=np.int64, count=len(twin_of))
    return order[gone], order[twins], np.array(similarities)
