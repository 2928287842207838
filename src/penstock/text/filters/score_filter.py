"""Score every document and keep those that pass."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.rule_stage import RuleStage, as_list, one_each
from penstock.text.filters.rules import Rule


class ScoreFilter(RuleStage):
    """Keep the documents that pass one filter, or each of several in turn.

    ``score_field`` writes the score into a column; ``invert`` keeps the documents that the filter would drop. With a
    list of filters the other arguments may be lists of the same length, or one value for all.

    >>> from penstock.testing import make_batch
    >>> from penstock.text import WordCountFilter
    >>> stage = ScoreFilter(WordCountFilter(min_words=2), score_field="words")
    >>> stage.process(make_batch(["one", "one two three"])).to_pyarrow().to_pylist()
    [{'id': 'doc-1', 'text': 'one two three', 'words': 3}]
    """

    name = "score_filter"
    _merges = True

    def __init__(
        self,
        filter_obj: DocumentFilter | Sequence[DocumentFilter],
        text_field: str | Sequence[str] = "text",
        score_field: str | Sequence[str | None] | None = None,
        invert: bool | Sequence[bool] = False,
        verbose: bool = False,
    ) -> None:
        filters = as_list(filter_obj, "ScoreFilter")
        for given in filters:
            if not isinstance(given, DocumentFilter):
                raise TypeError(f"ScoreFilter takes DocumentFilter objects, got {given!r}.")
        texts = one_each(text_field, len(filters), "text_field", "ScoreFilter")
        scores = one_each(score_field, len(filters), "score_field", "ScoreFilter")
        inverted = one_each(invert, len(filters), "invert", "ScoreFilter")
        self.text_field = text_field
        self.rules = [
            Rule(given.name, given, text, score, flip)
            for given, text, score, flip in zip(filters, texts, scores, inverted, strict=True)
        ]
        self.verbose = verbose
        if len(self.rules) == 1:
            self.name = self.rules[0].name
