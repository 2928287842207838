"""Draw a reproducible sample of documents from a ledger, spread over the whole run."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import InputError, suggestion
from penstock.ledger.query.decisions import KEPT, Decisions, Flags, LedgerPosition
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.store.fragment import ID
from penstock.ledger.store.ledger_part import LedgerPart


@dataclass(frozen=True)
class Sample:
    """One document of a sample."""

    place: LedgerPosition
    id: str | None
    score: float | None
    files: list[str]
    bytes: int


class Candidate(NamedTuple):
    """A document that may become part of a sample: ordered by distance, then by a pseudo-random number."""

    distance: float
    chance: int
    place: LedgerPosition
    score: float | None
    files: list[str]
    bytes: int
    # Where its id is stored; it is read only if the document is chosen.
    part: LedgerPart
    position: int


def dropped_sample(ledger: Ledger, rule: str, count: int, near: float | None = None) -> list[Sample]:
    """Return documents that a stage dropped.

    With ``near``, return those whose score is at most that far from a score that the stage kept, closest first.
    """
    labels = ledger.rules.labels
    if rule not in labels:
        dropping = [label for label in labels if label in ledger.rule_labels()] or labels
        raise InputError(f"no stage '{rule}' in this run; it has {', '.join(dropping)}.{suggestion(rule, labels)}")
    number = labels.index(rule)
    bounds = _kept_scores(ledger, rule) if near is not None else None
    drawn: list[Candidate] = []
    for decisions in ledger.shards():
        chosen = decisions.dropped == number
        scores = decisions.scores(rule)
        distance = np.zeros(len(decisions))
        if bounds is not None and near is not None:
            distance = np.maximum(np.maximum(bounds[0] - scores, scores - bounds[1]), 0)
            chosen &= distance <= near
        drawn += draw(decisions, chosen, count, distance, scores)
    return nearest(drawn, count)


def kept_sample(ledger: Ledger, count: int) -> list[Sample]:
    """Return documents that no stage dropped."""
    drawn = [
        one
        for decisions in ledger.shards()
        for one in draw(decisions, (decisions.dropped == KEPT) & ~decisions.remade(), count)
    ]
    return nearest(drawn, count)


def nearest(drawn: Sequence[Candidate], count: int) -> list[Sample]:
    """Return the first ``count`` candidates of several shards, by distance, then by pseudo-random number."""
    chosen = heapq.nsmallest(count, drawn, key=lambda one: (one.distance, one.chance))
    ids = [one.part.read([ID])[ID][one.position].as_py() for one in chosen]
    return [Sample(one.place, name, one.score, one.files, one.bytes) for one, name in zip(chosen, ids, strict=True)]


def draw(
    decisions: Decisions,
    chosen: Flags,
    count: int,
    distance: npt.NDArray[np.float64] | None = None,
    scores: npt.NDArray[np.float64] | None = None,
) -> list[Candidate]:
    """Return the first ``count`` of the chosen documents, by distance, then by pseudo-random number."""
    candidates = np.flatnonzero(chosen)
    if not len(candidates):
        return []
    chance = _chance(decisions, candidates)
    far = distance[candidates] if distance is not None else np.zeros(len(candidates))
    order = np.lexsort((chance, far))[:count]
    drawn = []
    for at, key, gap in zip(candidates[order].tolist(), chance[order].tolist(), far[order].tolist(), strict=True):
        about = decisions.about[decisions.block[at]]
        score = float(scores[at]) if scores is not None and not np.isnan(scores[at]) else None
        place = LedgerPosition(decisions.blocks[decisions.block[at]], int(decisions.row[at]))
        part, position = decisions.locate(at)
        drawn.append(
            Candidate(gap, key, place, score, about.get("files", []), int(decisions.sizes[at]), part, position)
        )
    return drawn


def _chance(decisions: Decisions, candidates: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a pseudo-random number for each document, derived from its block and row."""
    seeds = [int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) for name in decisions.blocks]
    mixed = np.array(seeds, np.uint64)[decisions.block[candidates]] + decisions.row[candidates].astype(np.uint64)
    # The finalizer of splitmix64.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _kept_scores(ledger: Ledger, rule: str) -> tuple[float, float]:
    """Return the lowest and the highest score among the documents that pass a rule."""
    low, high = np.inf, -np.inf
    for decisions in ledger.shards():
        if rule in decisions.asked:
            scores = decisions.scores(rule)[decisions.asked[rule] & ~decisions.fails[rule]]
            scores = scores[~np.isnan(scores)]
            if len(scores):
                low, high = min(low, scores.min()), max(high, scores.max())
    return float(low), float(high)
