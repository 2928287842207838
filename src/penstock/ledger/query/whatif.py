"""Apply other thresholds to stored scores: count documents and bytes, and find documents with another outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from penstock.errors import InputError, suggestion
from penstock.ledger.query.decisions import KEPT, Decisions, Flags
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.query.sampling import Candidate, Sample, draw, nearest
from penstock.ledger.query.thresholds import load_decider, threshold_names, verdicts_with
from penstock.ledger.store.fragment import DROPPED_BY, SCORE
from penstock.ledger.store.rules import StageRule

# The fate of a document is the number of the stage that drops it, KEPT or this.
_UNKNOWN = -2
# With more source files than this, totals are shown per folder.
_MAX_SOURCES = 20
# Minimum share of verdicts that the stored scores must reproduce. Below it the filter decides by more than the score.
_MIN_REPRODUCED_SHARE = 0.999

Changes = dict[str, dict[str, Any]]
Fates = npt.NDArray[np.int16]


@dataclass
class Tally:
    """Documents and bytes, in the run and with other thresholds."""

    documents: int = 0
    bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0
    would_keep: int = 0
    would_keep_bytes: int = 0
    # Documents whose outcome depends on a stage that was not asked about them in the run.
    unknown: int = 0
    unknown_bytes: int = 0

    def add(self, sizes: npt.NDArray[np.int64], before: Flags, after: Flags, unknown: Flags) -> None:
        """Add documents."""
        self.documents += len(sizes)
        self.bytes += int(sizes.sum())
        self.kept += int(before.sum())
        self.kept_bytes += int(sizes[before].sum())
        self.would_keep += int(after.sum())
        self.would_keep_bytes += int(sizes[after].sum())
        self.unknown += int(unknown.sum())
        self.unknown_bytes += int(sizes[unknown].sum())


@dataclass
class Outcome:
    """The result of applying other thresholds."""

    total: Tally = field(default_factory=Tally)
    sources: dict[str, Tally] = field(default_factory=dict)
    # For each stage the number of documents it dropped, and the number it would drop.
    dropped: dict[str, tuple[int, int]] = field(default_factory=dict)
    now_kept: list[Sample] = field(default_factory=list)
    now_dropped: list[Sample] = field(default_factory=list)


def parse_changes(ledger: Ledger, assignments: Sequence[str]) -> Changes:
    """Parse changes such as ``word_count.min_words=80``; an error lists the names that are valid."""
    changes: Changes = {}
    for assignment in assignments:
        target, equals, value = assignment.partition("=")
        label, dot, parameter = target.rpartition(".")
        if not equals or not dot:
            raise InputError(f"'{assignment}': expected FILTER.PARAMETER=VALUE, such as word_count.min_words=80.")
        _check(ledger, label, parameter)
        changes.setdefault(label, {})[parameter] = yaml.safe_load(value)
    return changes


def _check(ledger: Ledger, label: str, parameter: str) -> None:
    labels = ledger.rule_labels()
    if label not in labels:
        raise InputError(f"no filter '{label}' in this run; it has {', '.join(labels)}.{suggestion(label, labels)}")
    if not any(SCORE + label in part.names for part in ledger.parts) or label not in ledger.rules:
        raise InputError(
            f"'{label}' stores no score, so another threshold cannot be applied. Run the pipeline again with another "
            f"{parameter}."
        )
    rule = ledger.rules[label]
    if parameter not in rule.parameters:
        known = list(rule.parameters)
        raise InputError(f"'{label}' has no '{parameter}'; it has {', '.join(known)}.{suggestion(parameter, known)}")
    thresholds = threshold_names(load_decider(rule))
    if parameter not in thresholds:
        others = f" Its thresholds are {', '.join(thresholds)}." if thresholds else ""
        raise InputError(
            f"'{label}.{parameter}' changes the score itself; run the pipeline again with the new value.{others}"
        )


def what_if(ledger: Ledger, changes: Mapping[str, Mapping[str, Any]], examples: int = 3) -> Outcome:
    """Return the outcome of a run with other thresholds, computed from its stored scores."""
    silent = _silent_stages(ledger)
    name_of = _source_names(ledger)
    outcome = Outcome()
    now_kept: list[Candidate] = []
    now_dropped: list[Candidate] = []
    counts = np.zeros((2, len(ledger.rules.labels)), np.int64)
    for decisions in ledger.shards():
        fates = _fates(ledger, decisions, changes, silent)
        finished = ~decisions.remade()
        before, after = (decisions.dropped == KEPT) & finished, (fates == KEPT) & finished
        unknown = fates == _UNKNOWN
        outcome.total.add(decisions.sizes, before, after, unknown)
        names = [name_of(about) for about in decisions.about]
        distinct = sorted(set(names))
        codes = np.array([distinct.index(name) for name in names], np.int64)[decisions.block]
        for code, name in enumerate(distinct):
            here = slice(None) if len(distinct) == 1 else codes == code
            tally = outcome.sources.setdefault(name, Tally())
            tally.add(decisions.sizes[here], before[here], after[here], unknown[here])
        size = len(decisions.labels)
        counts += [np.bincount(stages[stages >= 0], minlength=size) for stages in (decisions.dropped, fates)]
        now_kept += draw(decisions, after & ~before, examples)
        now_dropped += draw(decisions, before & (fates >= 0), examples)
    totals = zip(ledger.rules.labels, counts.T.tolist(), strict=True)
    outcome.dropped = {label: (was, would) for label, (was, would) in totals if was or would}
    outcome.now_kept, outcome.now_dropped = nearest(now_kept, examples), nearest(now_dropped, examples)
    return outcome


def _fates(ledger: Ledger, decisions: Decisions, changes: Mapping[str, Mapping[str, Any]], silent: set[str]) -> Fates:
    """Apply the stages to every document again, in order, with the stored verdicts and scores."""
    fates: Fates = np.full(len(decisions), KEPT, np.int16)
    alive = np.ones(len(decisions), bool)
    uncertain = np.zeros(len(decisions), bool)
    first_change = min((decisions.labels.index(label) for label in changes), default=len(decisions.labels))
    for number, label in enumerate(decisions.labels):
        rules = [rule for rule in decisions.rules if _belongs(rule, label)]
        dropped_here = decisions.dropped == number
        if number < first_change or (not rules and label not in silent):
            dropped_now = alive & dropped_here
        else:
            fails, asked = dropped_here.copy(), np.ones(len(decisions), bool)
            for rule in rules:
                asked &= decisions.asked[rule]
                fails |= decisions.fails[rule]
            if label in changes:
                scores = decisions.scores(label)
                asked &= ~np.isnan(scores) & _reproduced(ledger.rules[label], decisions, scores)
                fails = ~verdicts_with(ledger.rules[label], changes[label], scores)
            if label in silent:
                # The verdict of a stage without recorded verdicts is unknown for documents that did not reach it.
                asked &= (decisions.dropped == KEPT) | (decisions.dropped >= number)
            dropped_now = alive & asked & fails
            # A later stage may still drop the document for certain.
            uncertain |= alive & ~asked
        fates[dropped_now] = number
        alive &= ~dropped_now
    fates[alive & uncertain] = _UNKNOWN
    return fates


def _reproduced(rule: StageRule, decisions: Decisions, scores: npt.NDArray[np.float64]) -> Flags:
    """Return for which documents the stored score reproduces the stored verdict; raise if too few do."""
    same: Flags = verdicts_with(rule, {}, scores) != decisions.fails[rule.label]
    asked = decisions.asked[rule.label] & ~np.isnan(scores)
    share = float(same[asked].mean()) if asked.any() else 1.0
    if share < _MIN_REPRODUCED_SHARE:
        raise InputError(
            f"'{rule.label}': its stored scores do not reproduce its verdicts (only {share:.1%} match), so other "
            "thresholds cannot be applied to them. Run the pipeline again with the new value."
        )
    return same


def _silent_stages(ledger: Ledger) -> set[str]:
    """Return the stages that may drop documents without a verdict: user-defined ones, and those that did so."""
    with_verdicts = ledger.rule_labels()
    found = {stage.label for stage in ledger.rules.stages if stage.label not in with_verdicts and _is_users_own(stage)}
    dropping = {label for part in ledger.parts for label in part.read([DROPPED_BY])[DROPPED_BY].unique().to_pylist()}
    return found | {label for label in dropping - {None} if not any(_belongs(rule, label) for rule in with_verdicts)}


def _belongs(rule: str, label: str) -> bool:
    return rule == label or rule.startswith(f"{label}/")


def _is_users_own(stage: StageRule) -> bool:
    return not stage.decider.startswith("penstock.") or stage.decider.startswith("penstock.core.function_stage:")


def _source_names(ledger: Ledger) -> Any:  # noqa: ANN401 - a function
    """Return a function that names the source of a block: its file, or its folder if there are many files."""
    files = {_file(about) for part in ledger.parts for about in part.blocks.values()}
    if len(files) <= _MAX_SOURCES:
        return _file
    return lambda about: str(PurePosixPath(_file(about)).parent)


def _file(about: Mapping[str, Any]) -> str:
    files = about.get("files") or ["(no file)"]
    return str(files[0]) if len(files) == 1 else str(PurePosixPath(files[0]).parent)
