"""Write scores into columns; every document is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.rule_stage import RuleStage, as_list, one_each
from penstock.text.filters.rules import Rule

ScoreFunction = Callable[[str], Any]


class Score(RuleStage):
    """Write the score of each document into a column.

    A score is computed by a filter or by a function of the text. With a list of them, ``score_field`` must be a list of
    the same length; ``text_field`` may be one.

    >>> from penstock.testing import make_batch
    >>> from penstock.text import WordCountFilter
    >>> stage = Score([WordCountFilter(), str.upper], score_field=["words", "loud"])
    >>> stage.process(make_batch(["one two"])).to_pyarrow().to_pylist()
    [{'id': 'doc-0', 'text': 'one two', 'words': 2, 'loud': 'ONE TWO'}]
    """

    name = "score_fn"
    _merges = True

    def __init__(
        self,
        score_fn: ScoreFunction | DocumentFilter | Sequence[ScoreFunction | DocumentFilter],
        score_field: str | Sequence[str],
        text_field: str | Sequence[str] = "text",
    ) -> None:
        filters = [_as_filter(given) for given in as_list(score_fn, "Score")]
        if isinstance(score_field, str) and len(filters) > 1:
            raise ValueError(f"Score: {len(filters)} scores cannot all go into '{score_field}'. Give one field each.")
        texts = one_each(text_field, len(filters), "text_field", "Score")
        fields = one_each(score_field, len(filters), "score_field", "Score")
        if not all(isinstance(field, str) for field in fields):
            raise ValueError(f"Score: score_field names the column of each score, got {score_field!r}.")
        self.text_field = text_field
        self.rules = [
            Rule(given.name, given, text, field, drops=False)
            for given, text, field in zip(filters, texts, fields, strict=True)
        ]
        if len(self.rules) == 1:
            self.name = self.rules[0].name


class _Function(DocumentFilter):
    """Wrap a plain function as a filter."""

    name = "score_fn"

    def __init__(self, function: ScoreFunction) -> None:
        self.function = function

    def score_document(self, text: str) -> Any:  # noqa: ANN401
        return self.function(text)


def _as_filter(given: Any) -> DocumentFilter:  # noqa: ANN401 - what a user gave
    if isinstance(given, DocumentFilter):
        return given
    if (isinstance(given, type) and issubclass(given, DocumentFilter)) or not callable(given):
        raise TypeError(f"Score takes DocumentFilter objects and functions of a text, got {given!r}.")
    return _Function(given)
