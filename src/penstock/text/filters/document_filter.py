"""A filter: a score for a document, and a verdict for a score."""

from __future__ import annotations

from typing import Any


class DocumentFilter:
    """Scores documents and decides which to keep; write both methods, and the rest follows.

    A null document is scored as the empty one.

    >>> class NoShouting(DocumentFilter):
    ...     def score_document(self, text: str) -> float:
    ...         return sum(c.isupper() for c in text) / max(len(text), 1)
    ...
    ...     def keep_document(self, score: float) -> bool:
    ...         return score < 0.5
    >>> NoShouting().name
    'NoShouting'
    """

    _name: str | None = None

    @property
    def name(self) -> str:
        """What the filter is called in counts and reasons."""
        return self._name or type(self).__name__

    def score_document(self, text: str) -> Any:  # noqa: ANN401 - a filter chooses what its score is
        """Return the score of a document."""
        raise NotImplementedError(f"{type(self).__name__} defines no score_document(self, text).")

    def keep_document(self, score: Any) -> bool:  # noqa: ANN401
        """Tell whether a document of that score is kept."""
        raise NotImplementedError(f"{type(self).__name__} defines no keep_document(self, score).")

    def model_check_or_download(self) -> None:
        """Run once per node: see that a model is there."""

    def load_model(self) -> None:
        """Run once per worker: load the model."""

    def load_tokenizer(self) -> None:
        """Run once per worker: load the tokenizer."""
