"""Filters by the lines and paragraphs of a document: bullets, end punctuation, ellipses, boilerplate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.kernels.characters import BULLETS
from penstock.kernels.features import Features
from penstock.kernels.patterns import LOREM_IPSUM, POLICY_PHRASES
from penstock.text.filters.document_filter import ScannedFilter
from penstock.text.filters.ratio import share
from penstock.text.filters.splitting import split_lines, split_paragraphs

_END_MARKS = (".", "?", "!", '"', "'")
_ELLIPSES = ("...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more")


class BulletsFilter(ScannedFilter):
    """Drop documents that consist of lists.

    The score is the share of lines that begin with a bullet. A document without lines scores 0.

    >>> BulletsFilter().score_document("To buy:" + chr(10) + "• bread")
    0.5
    """

    name = "bullets"

    def __init__(self, max_bullet_lines_ratio: float = 0.9) -> None:
        self.max_bullet_lines_ratio = max_bullet_lines_ratio

    def score_document(self, text: str) -> float:
        """Return the share of lines with a bullet."""
        lines = split_lines(text)
        return share(sum(line.strip().startswith(tuple(BULLETS)) for line in lines), len(lines), of_nothing=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "lines", "bullet_lines"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of lines with a bullet of each document."""
        return share(features["bullet_lines"], features["lines"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_bullet_lines_ratio``."""
        return score <= self.max_bullet_lines_ratio


class PunctuationFilter(ScannedFilter):
    """Drop documents whose lines lack end punctuation, such as menus.

    The score is the share of lines that do not end in one of ``. ? ! " '``. A document without lines scores 0.

    >>> PunctuationFilter().score_document("Home" + chr(10) + "Welcome!")
    0.5
    """

    name = "punctuation"

    def __init__(self, max_num_sentences_without_endmark_ratio: float = 0.85) -> None:
        self.max_num_sentences_without_endmark_ratio = max_num_sentences_without_endmark_ratio

    def score_document(self, text: str) -> float:
        """Return the share of lines without an end mark."""
        lines = split_lines(text)
        return share(sum(not line.strip().endswith(_END_MARKS) for line in lines), len(lines), of_nothing=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "lines", "end_mark_lines"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of lines without an end mark of each document."""
        return share(features["lines"] - features["end_mark_lines"], features["lines"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_num_sentences_without_endmark_ratio``."""
        return score <= self.max_num_sentences_without_endmark_ratio


class EllipsisFilter(ScannedFilter):
    """Drop documents that consist of teasers.

    The score is the share of lines that end in an ellipsis or in "read more". A document without lines scores 0.

    >>> EllipsisFilter().score_document("And then..." + chr(10) + "He woke.")
    0.5
    """

    name = "ellipsis"

    def __init__(self, max_num_lines_ending_with_ellipsis_ratio: float = 0.3) -> None:
        self.max_num_lines_ending_with_ellipsis_ratio = max_num_lines_ending_with_ellipsis_ratio

    def score_document(self, text: str) -> float:
        """Return the share of lines that end in an ellipsis or in ``read more``."""
        lines = split_lines(text)
        return share(sum(line.strip().lower().endswith(_ELLIPSES) for line in lines), len(lines), of_nothing=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "lines", "ellipsis_lines"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of such lines of each document."""
        return share(features["ellipsis_lines"], features["lines"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_num_lines_ending_with_ellipsis_ratio``."""
        return score <= self.max_num_lines_ending_with_ellipsis_ratio


class BoilerPlateStringFilter(ScannedFilter):
    """Drop documents that consist of cookie notices, terms of use and similar boilerplate.

    The score is the share of paragraphs with such a phrase; 1 if the text contains "lorem ipsum". An empty document
    scores 0. ``remove_if_at_top_or_bottom`` is accepted for compatibility and has no effect.

    >>> BoilerPlateStringFilter().score_document("We use cookies.")
    1.0
    """

    name = "boiler_plate_string"

    def __init__(self, remove_if_at_top_or_bottom: bool = True, max_boilerplate_string_ratio: float = 0.4) -> None:
        self.remove_if_at_top_or_bottom = remove_if_at_top_or_bottom
        self.max_boilerplate_string_ratio = max_boilerplate_string_ratio

    def score_document(self, text: str) -> float:
        """Return the share of boilerplate paragraphs."""
        return _share_of_boilerplate(split_paragraphs(text))

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "paragraphs", "boilerplate_paragraphs", "lorem_ipsum", "lowers_to_ascii"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of boilerplate paragraphs of each document."""
        shares = features["boilerplate_paragraphs"] / features["paragraphs"]
        scores = np.where(features["lorem_ipsum"], 1.0, shares)
        # Python lowers the Kelvin sign in "cooKies" to k; the scan sees three bytes.
        for row in np.flatnonzero(features["lowers_to_ascii"]):
            scores[row] = _share_of_boilerplate(features.paragraphs(int(row)))
        return scores

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_boilerplate_string_ratio``."""
        return score <= self.max_boilerplate_string_ratio


def _share_of_boilerplate(paragraphs: Iterable[str]) -> float:
    found = count = 0
    for paragraph in paragraphs:
        lowered = paragraph.lower()
        if LOREM_IPSUM in lowered:
            return 1.0
        found += any(phrase in lowered for phrase in POLICY_PHRASES)
        count += 1
    return found / count
