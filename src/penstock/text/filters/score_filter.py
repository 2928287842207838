"""Filters as a stage: score every document, keep those that pass. Neighbours merge into one pass over the batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.counters import PartCount
from penstock.core.documents import DocumentBatch
from penstock.core.json_column import is_json
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.verdicts import Verdicts
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import StageError
from penstock.text.filters.document_filter import DocumentFilter

T = TypeVar("T")
Rows = npt.NDArray[np.int64]


@dataclass
class Rule:
    """One filter and how it is applied."""

    name: str
    filter: DocumentFilter
    text_field: str
    score_field: str | None
    invert: bool


class ScoreFilter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps the documents that one filter, or each of several in turn, lets pass.

    ``score_field`` keeps the score in a column; ``invert`` keeps what would be dropped. With a list of filters the
    other arguments may be lists of the same length, or one value for all.

    >>> from penstock.testing import make_batch
    >>> from penstock.text import WordCountFilter
    >>> stage = ScoreFilter(WordCountFilter(min_words=2), score_field="words")
    >>> stage.process(make_batch(["one", "one two three"])).to_pyarrow().to_pylist()
    [{'id': 'doc-1', 'text': 'one two three', 'words': 3}]
    """

    name = "score_filter"

    def __init__(
        self,
        filter_obj: DocumentFilter | Sequence[DocumentFilter],
        text_field: str | Sequence[str] = "text",
        score_field: str | Sequence[str | None] | None = None,
        invert: bool | Sequence[bool] = False,
        verbose: bool = False,
    ) -> None:
        filters = list(filter_obj) if isinstance(filter_obj, Iterable) else [filter_obj]
        for given in filters:
            if not isinstance(given, DocumentFilter):
                raise TypeError(f"ScoreFilter takes DocumentFilter objects, got {given!r}.")
        if not filters:
            raise ValueError("ScoreFilter: the list of filters is empty.")
        columns = zip(
            filters,
            _each(text_field, len(filters), "text_field"),
            _each(score_field, len(filters), "score_field"),
            _each(invert, len(filters), "invert"),
            strict=True,
        )
        self.text_field = text_field
        self.rules = [Rule(f.name, f, text, score, flip) for f, text, score, flip in columns]
        self.verbose = verbose
        if len(self.rules) == 1:
            self.name = self.rules[0].name

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents that pass; possibly none of them."""
        table = task.to_pyarrow()
        alive: Rows = np.arange(table.num_rows)
        scores: dict[str, npt.NDArray[Any]] = {}
        texts: dict[str, tuple[list[str], npt.NDArray[np.float64]]] = {}
        for rule in self.rules:
            start = time.perf_counter()
            if rule.text_field not in texts:
                texts[rule.text_field] = _texts(table, rule.text_field)
            documents, sizes = texts[rule.text_field]
            passed, scored = _apply(rule, documents, alive)
            if rule.score_field is not None:
                column = scores.setdefault(rule.score_field, np.full(table.num_rows, None, dtype=object))
                column[alive] = scored
            self._count(alive, passed, sizes, time.perf_counter() - start)
            self._record(rule, task, alive, passed, scored)
            alive = passed
        kept = table if len(alive) == table.num_rows else table.take(pa.array(alive))
        for name, column in scores.items():
            kept = _with_column(kept, name, pa.array(column[alive].tolist()))
        result = task.select(alive)
        result.data = kept
        return result

    def inputs(self) -> Spec:
        """Return the text columns."""
        return ["data"], list(dict.fromkeys(rule.text_field for rule in self.rules))

    def outputs(self) -> Spec:
        """Return the score columns, where scores are kept."""
        return ["data"], [rule.score_field for rule in self.rules if rule.score_field is not None]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """See that the models of the filters are there."""
        for rule in self.rules:
            rule.filter.model_check_or_download()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the models of the filters."""
        for rule in self.rules:
            rule.filter.load_model()
            rule.filter.load_tokenizer()

    def merge(self, next_stage: ProcessingStage[Any, Any]) -> ScoreFilter | None:
        """Take another ScoreFilter along: one pass over the batch, one copy of what is left."""
        if type(self) is not ScoreFilter or type(next_stage) is not ScoreFilter:
            return None
        if {rule.text_field for rule in next_stage.rules} & {rule.score_field for rule in self.rules}:
            return None  # the next one reads what this one has yet to write
        return _of_rules([*self._named_rules(), *next_stage._named_rules()])

    def parts(self) -> list[ProcessingStage[Any, Any]]:
        """Return one stage per filter."""
        return [self] if len(self.rules) == 1 else [_of_rules([rule]) for rule in self.rules]

    def decider(self) -> tuple[DocumentFilter, bool] | None:
        """Return the filter, if there is only one."""
        return (self.rules[0].filter, self.rules[0].invert) if len(self.rules) == 1 else None

    def take_part_counts(self) -> list[PartCount]:
        """Return what each filter did since last asked."""
        taken: list[PartCount] = self.__dict__.pop("_part_counts", [])
        return taken

    def _count(self, alive: Rows, passed: Rows, sizes: npt.NDArray[np.float64], seconds: float) -> None:
        count = PartCount(len(alive), len(passed), seconds, int(sizes[alive].sum()), int(sizes[passed].sum()))
        self.__dict__.setdefault("_part_counts", []).append(count)

    def _record(self, rule: Rule, task: DocumentBatch, alive: Rows, passed: Rows, scored: list[Any]) -> None:
        if self._keeps_ledger and task.source_rows is not None:
            numbers = scored and isinstance(scored[0], int | float)
            scores = np.array(scored, np.float64) if numbers else None
            rows = task.source_rows[alive]
            self.record(Verdicts(rule.name, rows, np.isin(alive, passed), scores, vars(rule.filter)))

    def _named_rules(self) -> list[Rule]:
        """Return the rules; a single one under the name the user gave the stage with ``with_(name=…)``."""
        if len(self.rules) > 1:
            return self.rules
        rule = self.rules[0]
        return [Rule(self.name, rule.filter, rule.text_field, rule.score_field, rule.invert)]


def _of_rules(rules: list[Rule]) -> ScoreFilter:
    fields = [rule.text_field for rule in rules]
    merged = ScoreFilter([rule.filter for rule in rules], fields[0] if len(set(fields)) == 1 else fields)
    merged.rules = rules
    merged.name = " + ".join(rule.name for rule in rules)
    return merged


def _each(given: Any, count: int, argument: str) -> list[Any]:  # noqa: ANN401 - a value, or a list of them
    """Return one value per filter from a single value or a list of the right length."""
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"ScoreFilter: {argument} has {len(given)} entries for {count} filters. Give one per filter.")
    return list(given)


def _texts(table: pa.Table, column: str) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the documents, null ones as empty, and what each row takes in bytes."""
    texts = table[column]
    if is_json(table.schema.field(column)):
        texts = pa.chunked_array([pa.array([_text_of(text) for text in texts.to_pylist()], pa.large_string())])
    if pa.types.is_null(texts.type):
        texts = texts.cast(pa.large_string())
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise TypeError(f"column '{column}' holds {texts.type}, not text")
    texts = pc.fill_null(texts, "")
    lengths = pc.binary_length(texts).to_numpy().astype(np.float64)
    overhead = (table.nbytes - lengths.sum()) / max(len(lengths), 1)
    return texts.to_pylist(), lengths + overhead


def _text_of(json_text: str | None) -> str | None:
    """Return the text in a column of mixed values; of what is no text, its JSON."""
    return msgspec.json.decode(json_text) if json_text and json_text.startswith('"') else json_text


def _apply(rule: Rule, documents: list[str], alive: Rows) -> tuple[Rows, list[Any]]:
    """Return the rows that pass a rule, and the scores of all rows it saw."""
    score, keep = rule.filter.score_document, rule.filter.keep_document
    scored: list[Any] = []
    verdicts = np.empty(len(alive), dtype=bool)
    for position, row in enumerate(alive):
        try:
            value = score(documents[row])
            verdicts[position] = keep(value)
        except Exception as error:
            raise StageError(
                f"stage '{rule.name}': {type(rule.filter).__name__} failed on document {row} of the batch "
                f"({documents[row][:60]!r}…): {type(error).__name__}: {error}"
            ) from error
        scored.append(value)
    return alive[verdicts != rule.invert], scored


def _with_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    position = table.schema.get_field_index(name)
    return table.append_column(name, column) if position < 0 else table.set_column(position, name, column)
