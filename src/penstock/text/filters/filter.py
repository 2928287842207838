"""Keep documents by the value of an existing column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.verdicts import Verdicts
from penstock.errors import StageError
from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.rule_stage import as_list, numbers, one_each
from penstock.text.text_column import values_of

KeepFunction = Callable[[Any], bool]


class Filter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep the documents whose value in a column passes a function or a filter's ``keep_document``.

    With a list of filters, ``filter_field`` must be a list of the same length; ``invert`` may be one.

    >>> from penstock.testing import make_batch
    >>> stage = Filter(lambda lang: lang == "en", filter_field="lang")
    >>> stage.process(make_batch(["one", "eins"], lang=["en", "de"])).to_pyarrow()["text"].to_pylist()
    ['one']
    """

    name = "filter_fn"

    def __init__(
        self,
        filter_fn: KeepFunction | DocumentFilter | Sequence[KeepFunction | DocumentFilter],
        filter_field: str | Sequence[str],
        invert: bool | Sequence[bool] = False,
        verbose: bool = False,
    ) -> None:
        filters = as_list(filter_fn, "Filter")
        for given in filters:
            if isinstance(given, type) or not (isinstance(given, DocumentFilter) or callable(given)):
                raise TypeError(f"Filter takes DocumentFilter objects and functions of a value, got {given!r}.")
        if isinstance(filter_field, str) and len(filters) > 1:
            raise ValueError(f"Filter: say which field each of the {len(filters)} filters looks at, as a list.")
        self.filter_field = filter_field
        self.filters = filters
        self.fields: list[str] = one_each(filter_field, len(filters), "filter_field", "Filter")
        self.inverted: list[bool] = one_each(invert, len(filters), "invert", "Filter")
        self.verbose = verbose
        if len(filters) == 1:
            self.name = _name(filters[0])

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents that pass; the batch may be empty."""
        for given, field, flip in zip(self.filters, self.fields, self.inverted, strict=True):
            values = values_of(task, field)
            kept = self._verdicts(given, values) != flip
            if self._keeps_ledger and task.source_rows is not None:
                parameters = given.parameters() if isinstance(given, DocumentFilter) else {}
                self.record(Verdicts(_name(given), task.source_rows, kept, numbers(values), parameters))
            if not kept.all():
                task = task.select(np.flatnonzero(kept))
        return task

    def inputs(self) -> Spec:
        """Return the columns that are read."""
        return ["data"], list(dict.fromkeys(self.fields))

    def _verdicts(self, given: Any, values: list[Any]) -> npt.NDArray[np.bool_]:  # noqa: ANN401
        keep = given.keep_document if isinstance(given, DocumentFilter) else given
        kept = np.empty(len(values), dtype=bool)
        for row, value in enumerate(values):
            try:
                kept[row] = keep(value)
            except Exception as error:
                raise StageError(
                    f"stage '{self.name}': {_name(given)} failed on document {row} of the batch ({value!r:.60}): "
                    f"{type(error).__name__}: {error}"
                ) from error
        return kept


def _name(given: Any) -> str:  # noqa: ANN401
    return given.name if isinstance(given, DocumentFilter) else "filter_fn"
