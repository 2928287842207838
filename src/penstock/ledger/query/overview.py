"""Count what each stage of a run dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.ledger.query.decisions import KEPT
from penstock.ledger.query.ledger import Ledger, superseded_blocks


@dataclass
class StageTotals:
    """The totals of one stage or rule."""

    stage: str
    # Documents it was asked about, those that fail it, and those that it dropped (no earlier stage had).
    asked: int = 0
    fails: int = 0
    dropped: int = 0
    # Documents that fail this rule and no other rule.
    alone: int = 0


@dataclass
class Overview:
    """The totals of a run."""

    documents: int = 0
    kept: int = 0
    stages: list[StageTotals] = field(default_factory=list)


def overview(ledger: Ledger) -> Overview:
    """Count, for every stage, the documents that it was asked about, that fail it and that it dropped."""
    result = Overview()
    totals: dict[str, StageTotals] = {}
    superseded = superseded_blocks(ledger)
    for decisions in ledger.shards():
        counts = np.array([block not in superseded for block in decisions.blocks], bool)
        result.documents += int(counts[decisions.block].sum())
        result.kept += int(((decisions.dropped == KEPT) & ~decisions.remade()).sum())
        failing = np.zeros(len(decisions), np.int32)
        for rule in decisions.rules:
            failing += decisions.fails[rule]
        by_number = np.bincount(decisions.dropped[decisions.dropped >= 0], minlength=len(decisions.labels))
        for rule in decisions.rules:
            total = totals.setdefault(rule, StageTotals(rule))
            total.asked += int(decisions.asked[rule].sum())
            total.fails += int(decisions.fails[rule].sum())
            total.alone += int((decisions.fails[rule] & (failing == 1)).sum())
        for label, count in zip(decisions.labels, by_number.tolist(), strict=True):
            if count or label in totals:
                totals.setdefault(label, StageTotals(label)).dropped += count
    order = {label: number for number, label in enumerate(ledger.rules.labels)}
    result.stages = sorted(totals.values(), key=lambda total: order.get(total.stage.split("/")[0], len(order)))
    return result
