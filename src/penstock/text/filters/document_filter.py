"""A filter: a score for a document, and a verdict for a score."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from penstock.kernels.features import Features
from penstock.text.reported_name import Named


class DocumentFilter(Named):
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

    def score_document(self, text: str) -> Any:  # noqa: ANN401 - a filter chooses what its score is
        """Return the score of a document."""
        raise NotImplementedError(f"{type(self).__name__} defines no score_document(self, text).")

    def keep_document(self, score: Any) -> bool:  # noqa: ANN401
        """Tell whether a document of that score is kept."""
        raise NotImplementedError(f"{type(self).__name__} defines no keep_document(self, score).")

    def score_documents(self, texts: Sequence[str]) -> Sequence[Any]:
        """Return the score of each of several documents; override it where that is faster than one by one."""
        return [self.score_document(text) for text in texts]

    def model_check_or_download(self) -> None:
        """Run once per node: see that a model is there."""

    def load_model(self) -> None:
        """Run once per worker: load the model."""

    def load_tokenizer(self) -> None:
        """Run once per worker: load the tokenizer."""

    def parameters(self) -> dict[str, Any]:
        """Return what the filter was made with, as far as its attributes show it."""
        return {name: getattr(self, name) for name in _parameter_names(type(self)) if hasattr(self, name)}


_PARAMETER_NAMES: dict[type, tuple[str, ...]] = {}


def _parameter_names(cls: type) -> tuple[str, ...]:
    if cls not in _PARAMETER_NAMES:  # once per class: looking costs more than scoring a document
        _PARAMETER_NAMES[cls] = tuple(inspect.signature(cls).parameters)
    return _PARAMETER_NAMES[cls]


class ScannedFilter(DocumentFilter):
    """A filter whose score also follows from what one scan finds of all documents of a batch.

    ``score_document`` says what the score is, ``score_features`` says the same of many documents at once, and
    ``keep_document`` takes an array of scores as well as one. A subclass that overrides one of the former is believed.
    """

    def features(self) -> tuple[str, ...] | None:
        """Return the features the score follows from; None where only the text itself will do."""
        raise NotImplementedError(f"{type(self).__name__} defines no features(self).")

    def score_features(self, features: Features) -> Any:  # noqa: ANN401 - an array of whatever the score is
        """Return the score of every document."""
        raise NotImplementedError(f"{type(self).__name__} defines no score_features(self, features).")


def is_scanned(given: DocumentFilter) -> bool:
    """Tell whether the scores of a filter may be taken from a scan.

    >>> from penstock.text import WordCountFilter
    >>> class Half(WordCountFilter):
    ...     def score_document(self, text: str) -> int:
    ...         return super().score_document(text) // 2
    >>> is_scanned(WordCountFilter()), is_scanned(Half())
    (True, False)
    """
    if not isinstance(given, ScannedFilter) or _overrides(given, "score_document", below="score_features"):
        return False
    return given.features() is not None


def keeps_arrays(given: DocumentFilter) -> bool:
    """Tell whether ``keep_document`` may be asked about many scores at once."""
    return isinstance(given, ScannedFilter) and not _overrides(given, "keep_document", below="score_features")


def scores_lists(given: DocumentFilter) -> bool:
    """Tell whether a filter brings a ``score_documents`` that says the same as its ``score_document``."""
    own = type(given).score_documents is not DocumentFilter.score_documents
    return own and not _overrides(given, "score_document", below="score_documents")


def _overrides(given: DocumentFilter, method: str, *, below: str) -> bool:
    """Tell whether a subclass redefines a method and leaves the other one, which says the same, as it was."""
    definers = [cls for cls in type(given).__mro__ if method in vars(cls) or below in vars(cls)]
    return below not in vars(definers[0])
