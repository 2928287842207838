"""Apply rules to a batch: one scan computes the features of all rules that can share it, then each rule decides."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.counters import PartCount
from penstock.core.documents import DocumentBatch
from penstock.errors import StageError
from penstock.kernels.features import Features
from penstock.text.filters.document_filter import DocumentFilter, ScannedFilter, is_scanned, keeps_arrays, scores_lists
from penstock.text.text_column import text_column

Rows = npt.NDArray[np.int64]
Kept = npt.NDArray[np.bool_]


@dataclass
class Rule:
    """A filter and how it is applied."""

    name: str
    filter: DocumentFilter
    text_field: str
    score_field: str | None
    invert: bool = False
    # False: only compute the score; every document passes.
    drops: bool = True

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the filter."""
        return self.filter.parameters()


@dataclass
class Judgement:
    """The scores and decisions of one rule for documents of a batch."""

    rule: Rule
    # The scored rows, in order. They may include rows that an earlier rule dropped.
    rows: Rows
    scores: Any
    kept: Kept
    # The rows that reached this rule and passed it.
    passed: Rows
    count: PartCount


def judge(batch: DocumentBatch, rules: Sequence[Rule], *, score_all: bool) -> Iterator[Judgement]:
    """Apply rules in turn.

    With ``score_all`` the rules that share a scan score every document, also those that an earlier rule dropped.
    """
    columns = {field: _Column(batch, field, rules) for field in dict.fromkeys(rule.text_field for rule in rules)}
    everything = alive = np.arange(batch.num_items)
    for rule in rules:
        column = columns[rule.text_field]
        if is_scanned(rule.filter):
            rows, features = column.scan(everything if score_all else alive)
            start = time.perf_counter() - column.seconds_of_scan  # each rule counts its part of the scan
            scores, kept = _judge_features(rule, features)
        else:
            start = time.perf_counter()
            rows = alive
            scores, kept = _judge_texts(rule, column.texts(rows), rows)
        kept = kept != rule.invert if rule.drops else np.ones(len(rows), dtype=bool)
        passed = alive[kept[np.searchsorted(rows, alive)]]
        seconds = time.perf_counter() - start
        count = PartCount(len(alive), len(passed), seconds, column.bytes_of(alive), column.bytes_of(passed))
        yield Judgement(rule, rows, scores, kept, passed, count)
        alive = passed


class _Column:
    """The texts of one column; scanned at most once."""

    def __init__(self, batch: DocumentBatch, field: str, rules: Sequence[Rule]) -> None:
        texts = text_column(batch, field)
        if texts is None:
            raise TypeError(f"column '{field}' holds {batch.column(field).type}, not text")
        self._texts = texts
        self._sizes = _sizes(batch, texts)
        sharing = [rule.filter for rule in rules if rule.text_field == field and is_scanned(rule.filter)]
        self._wanted = [feature for given in sharing for feature in _features(given)]
        self._sharing = len(sharing)
        self._scanned: tuple[Rows, Features] | None = None
        # The part of the scan's time that each rule sharing it is charged with.
        self.seconds_of_scan = 0.0

    def scan(self, rows: Rows) -> tuple[Rows, Features]:
        """Return the scanned rows and their features. The first call decides which rows are scanned."""
        if self._scanned is None:
            start = time.perf_counter()
            texts = self._texts if len(rows) == len(self._texts) else self._texts.take(pa.array(rows))
            self._scanned = rows, Features.of(texts, self._wanted)
            self.seconds_of_scan = (time.perf_counter() - start) / self._sharing
        return self._scanned

    def texts(self, rows: Rows) -> list[str]:
        """Return some documents, null ones as empty."""
        return [text or "" for text in self._texts.take(pa.array(rows)).to_pylist()]

    def bytes_of(self, rows: Rows) -> int:
        """Return the size of some rows in bytes."""
        return int(self._sizes[rows].sum())


def _sizes(batch: DocumentBatch, texts: pa.Array) -> npt.NDArray[np.float64]:
    """Return the size of each document in bytes: its text, and an equal part of the other columns."""
    lengths: npt.NDArray[np.float64] = pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.float64)
    beside = float(batch.num_bytes - lengths.sum()) / max(len(lengths), 1)
    return lengths + beside


def _features(given: DocumentFilter) -> tuple[str, ...]:
    return (given.features() or ()) if isinstance(given, ScannedFilter) else ()


def _judge_features(rule: Rule, features: Features) -> tuple[Any, Kept]:
    assert isinstance(rule.filter, ScannedFilter)
    scores = rule.filter.score_features(features)
    if not rule.drops:
        return scores, np.ones(len(scores), dtype=bool)
    if keeps_arrays(rule.filter):
        return scores, np.asarray(rule.filter.keep_document(scores))
    kept = np.empty(len(scores), dtype=bool)
    for row, score in enumerate(scores.tolist()):
        try:
            kept[row] = rule.filter.keep_document(score)
        except Exception as error:
            raise _failure(rule, row, features.text(row), error) from error
    return scores, kept


def _judge_texts(rule: Rule, texts: list[str], rows: Rows) -> tuple[list[Any], Kept]:
    score, keep = rule.filter.score_document, rule.filter.keep_document
    scores = _scores_together(rule.filter, texts)
    kept = np.empty(len(rows), dtype=bool)
    for position, text in enumerate(texts):
        try:
            if position == len(scores):
                scores.append(score(text))
            kept[position] = not rule.drops or keep(scores[position])
        except Exception as error:
            raise _failure(rule, int(rows[position]), text, error) from error
    return scores, kept


def _scores_together(given: DocumentFilter, texts: list[str]) -> list[Any]:
    """Return the scores of all texts from ``score_documents``; an empty list if the filter does not define it."""
    if not scores_lists(given):
        return []
    try:
        return list(given.score_documents(texts))
    except Exception:  # scoring the documents one by one finds the one that fails
        return []


def _failure(rule: Rule, row: int, text: str, error: Exception) -> StageError:
    return StageError(
        f"stage '{rule.name}': {type(rule.filter).__name__} failed on document {row} of the batch "
        f"({text[:60]!r}…): {type(error).__name__}: {error}"
    )
