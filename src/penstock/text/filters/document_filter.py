"""The filter interface: score a document, and decide by the score."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from penstock.kernels.features import Features
from penstock.text.reported_name import Named


class DocumentFilter(Named):
    """Score documents and decide which to keep; a subclass defines ``score_document`` and ``keep_document``.

    The class attribute ``name`` is the name in tables and receipts; without it the class name is used. A null document
    is scored as an empty one.

    >>> class NoShouting(DocumentFilter):
    ...     name = "no_shouting"
    ...
    ...     def score_document(self, text: str) -> float:
    ...         return sum(c.isupper() for c in text) / max(len(text), 1)
    ...
    ...     def keep_document(self, score: float) -> bool:
    ...         return score < 0.5
    >>> NoShouting().score_document("HEy!")
    0.5
    """

    def score_document(self, text: str) -> Any:  # noqa: ANN401 - a filter chooses what its score is
        """Return the score of a document."""
        raise NotImplementedError(f"{type(self).__name__} defines no score_document(self, text).")

    def keep_document(self, score: Any) -> bool:  # noqa: ANN401
        """Return True if a document with this score is kept."""
        raise NotImplementedError(f"{type(self).__name__} defines no keep_document(self, score).")

    def score_documents(self, texts: Sequence[str]) -> Sequence[Any]:
        """Return the score of each document; override it if that is faster than one by one."""
        return [self.score_document(text) for text in texts]

    def model_check_or_download(self) -> None:
        """Check or download the model. A hook that runs once per node."""

    def load_model(self) -> None:
        """Load the model. A hook that runs once per worker."""

    def load_tokenizer(self) -> None:
        """Load the tokenizer. A hook that runs once per worker."""

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's parameters, as far as they are attributes of the filter."""
        return {name: getattr(self, name) for name in _parameter_names(type(self)) if hasattr(self, name)}


_PARAMETER_NAMES: dict[type, tuple[str, ...]] = {}


def _parameter_names(cls: type) -> tuple[str, ...]:
    if cls not in _PARAMETER_NAMES:  # once per class: inspecting a signature costs more than scoring a document
        _PARAMETER_NAMES[cls] = tuple(inspect.signature(cls).parameters)
    return _PARAMETER_NAMES[cls]


class ScannedFilter(DocumentFilter):
    r"""Score documents from features that one compiled scan computes for a whole batch.

    ``score_document`` defines the score, ``score_features`` computes the same score for many documents, and
    ``keep_document`` accepts an array of scores as well as one score. If a subclass overrides only ``score_document``,
    its scores are computed document by document.

    >>> class LineCount(ScannedFilter):
    ...     def score_document(self, text: str) -> int:
    ...         return text.count("\n") + 1
    ...
    ...     def features(self) -> tuple[str, ...]:
    ...         return ("line_breaks",)
    ...
    ...     def score_features(self, features: Features) -> Any:
    ...         return features["line_breaks"] + 1
    ...
    ...     def keep_document(self, score: float) -> bool:
    ...         return score >= 3
    >>> LineCount().score_document("one\ntwo")
    2
    """

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score needs; None if the score needs the text itself."""
        raise NotImplementedError(f"{type(self).__name__} defines no features(self).")

    def score_features(self, features: Features) -> Any:  # noqa: ANN401 - an array of whatever the score is
        """Return the score of every document."""
        raise NotImplementedError(f"{type(self).__name__} defines no score_features(self, features).")


def is_scanned(given: DocumentFilter) -> bool:
    """Return True if the scores of a filter can be computed from a scan.

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
    """Return True if ``keep_document`` accepts an array of scores."""
    return isinstance(given, ScannedFilter) and not _overrides(given, "keep_document", below="score_features")


def scores_lists(given: DocumentFilter) -> bool:
    """Return True if a filter defines ``score_documents`` consistently with ``score_document``."""
    own = type(given).score_documents is not DocumentFilter.score_documents
    return own and not _overrides(given, "score_document", below="score_documents")


def _overrides(given: DocumentFilter, method: str, *, below: str) -> bool:
    """Return True if a subclass overrides ``method`` but not ``below``, which must compute the same."""
    definers = [cls for cls in type(given).__mro__ if method in vars(cls) or below in vars(cls)]
    return below not in vars(definers[0])
