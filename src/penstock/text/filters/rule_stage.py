"""The base of the stages that score documents: all rules share one pass over the batch, also with merged stages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.counters import PartCount
from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.verdicts import Verdicts
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.kernels.features import is_warm, warm_up
from penstock.text.filters.document_filter import DocumentFilter, is_scanned
from penstock.text.filters.rules import Judgement, Rows, Rule, judge


class RuleStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Apply several rules in turn. Adjacent rule stages are merged into one, which still counts each rule."""

    rules: Sequence[Rule]
    text_field: str | Sequence[str]
    # A user's subclass may do more than apply its rules, so it is not merged.
    _merges = False

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents that pass; the batch may be empty."""
        scored: dict[str, Judgement] = {}
        alive: Rows = np.arange(task.num_items)
        known_as = task.source_rows if self._keeps_ledger else None
        for judgement in judge(task, self.rules, score_all=self._keeps_ledger):
            if judgement.rule.score_field is not None:
                scored[judgement.rule.score_field] = judgement
            self.__dict__.setdefault("_part_counts", []).append(judgement.count)
            if judgement.rule.drops and known_as is not None:
                self._record(judgement, known_as)
            alive = judgement.passed
        kept = task if len(alive) == task.num_items else task.select(alive)
        return kept.with_columns({name: _scores_of(given, alive) for name, given in scored.items()}) if scored else kept

    def inputs(self) -> Spec:
        """Return the text columns."""
        return ["data"], list(dict.fromkeys(rule.text_field for rule in self.rules))

    def outputs(self) -> Spec:
        """Return the score columns, if scores are kept."""
        return ["data"], [rule.score_field for rule in self.rules if rule.score_field is not None]

    def before_run(self, *, resuming: bool) -> None:
        """Print why the first run starts slowly."""
        if any(is_scanned(rule.filter) for rule in self.rules):
            _report_compilation()

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Check or download the models of the filters and compile the scan, once per node."""
        for rule in self.rules:
            rule.filter.model_check_or_download()
        self._warm_up()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the models of the filters and the compiled scan."""
        for rule in self.rules:
            rule.filter.load_model()
            rule.filter.load_tokenizer()
        self._warm_up()

    def merge(self, next_stage: ProcessingStage[Any, Any]) -> RuleStage | None:
        """Merge the rules of the next stage: one pass over the batch, one copy of the remaining rows."""
        if not isinstance(next_stage, RuleStage) or not (_merges(self) and _merges(next_stage)):
            return None
        if {rule.text_field for rule in next_stage.rules} & {rule.score_field for rule in self.rules}:
            return None  # the next stage reads a column that this one writes
        return _of_rules([*self._named_rules(), *next_stage._named_rules()])

    def parts(self) -> list[ProcessingStage[Any, Any]]:
        """Return one stage per rule."""
        return [self] if len(self.rules) == 1 else [_of_rules([rule]) for rule in self.rules]

    def decider(self) -> tuple[DocumentFilter, bool] | None:
        """Return the filter that drops documents, if there is exactly one."""
        [rule, *others] = self.rules
        return (rule.filter, rule.invert) if rule.drops and not others else None

    def take_part_counts(self) -> list[PartCount]:
        """Return the counts of each rule since the last call."""
        taken: list[PartCount] = self.__dict__.pop("_part_counts", [])
        return taken

    def _warm_up(self) -> None:
        # Otherwise the first batch would wait for the compiler, and the stage would be measured as slow.
        if any(is_scanned(rule.filter) for rule in self.rules):
            warm_up()

    def _record(self, judgement: Judgement, known_as: Rows) -> None:
        rule = judgement.rule
        rows = known_as if len(judgement.rows) == len(known_as) else known_as[judgement.rows]
        self.record(Verdicts(rule.name, rows, judgement.kept, numbers(judgement.scores), rule.parameters))

    def _named_rules(self) -> list[Rule]:
        """Return the rules; a single rule has the stage's name, which ``with_(name=…)`` may have changed."""
        if len(self.rules) > 1:
            return list(self.rules)
        rule = self.rules[0]
        return [Rule(self.name, rule.filter, rule.text_field, rule.score_field, rule.invert, rule.drops)]


class _Merged(RuleStage):
    """Rules of several merged stages."""

    _merges = True


def _merges(stage: RuleStage) -> bool:
    return bool(vars(type(stage)).get("_merges"))


def _of_rules(rules: list[Rule]) -> RuleStage:
    merged = _Merged()
    merged.rules = rules
    fields = [rule.text_field for rule in rules]
    merged.text_field = fields[0] if len(set(fields)) == 1 else fields
    merged.name = " + ".join(rule.name for rule in rules)
    return merged


def one_each(given: Any, count: int, argument: str, stage: str) -> list[Any]:  # noqa: ANN401 - a value, or a list
    """Return one value per filter from a single value or a list of the right length."""
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"{stage}: {argument} has {len(given)} entries for {count} filters. Give one per filter.")
    return list(given)


def as_list(given: Any, stage: str) -> list[Any]:  # noqa: ANN401 - a filter, or several
    """Return the filters as a list of at least one."""
    filters = list(given) if isinstance(given, Iterable) else [given]
    if not filters:
        raise ValueError(f"{stage}: the list of filters is empty.")
    return filters


@cache
def _report_compilation() -> None:
    if not is_warm():
        print("Compiling the scan of the filters: a quarter of a minute, once on this machine.", file=sys.stderr)


def _scores_of(judgement: Judgement, rows: Rows) -> pa.Array:
    places = np.searchsorted(judgement.rows, rows)
    if isinstance(judgement.scores, np.ndarray):
        return pa.array(judgement.scores[places])
    return pa.array([judgement.scores[place] for place in places])


def numbers(scores: Any) -> npt.NDArray[np.float64] | None:  # noqa: ANN401 - an array, or a list of anything
    """Return scores as numbers; None if a score is not a number."""
    if isinstance(scores, np.ndarray):
        return scores.astype(np.float64, copy=False)
    if all(isinstance(score, int | float) for score in scores):
        return np.array(scores, dtype=np.float64)
    return None
