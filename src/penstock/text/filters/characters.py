"""Filters by the characters of a document: the share of characters of some kind."""

from __future__ import annotations

import re
from typing import Any, Literal

from penstock.kernels.characters import BLANK_CHARACTERS, PARENTHESES, PLAIN_CHARACTERS
from penstock.kernels.features import Features
from penstock.kernels.patterns import URL
from penstock.text.filters.document_filter import DocumentFilter, ScannedFilter
from penstock.text.filters.ratio import share

_PLAIN = frozenset(PLAIN_CHARACTERS)
_BLANK = frozenset(BLANK_CHARACTERS)
_PARENTHESES = frozenset(PARENTHESES)


class NonAlphaNumericFilter(ScannedFilter):
    """Drop documents with many characters other than letters, digits and ordinary punctuation.

    The score is the share of characters outside ``a-z A-Z 0-9 ? ! , .`` and newline; blanks count. An empty document
    scores 1.

    >>> NonAlphaNumericFilter().score_document("ab##")
    0.5
    """

    name = "non_alpha_numeric"

    def __init__(self, max_non_alpha_numeric_to_text_ratio: float = 0.25) -> None:
        self.max_non_alpha_numeric_to_text_ratio = max_non_alpha_numeric_to_text_ratio

    def score_document(self, text: str) -> float:
        """Return the share of other characters."""
        return share(sum(c not in _PLAIN for c in text), len(text), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "characters", "plain_characters"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of other characters of each document."""
        characters = features["characters"]
        return share(characters - features["plain_characters"], characters, of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_non_alpha_numeric_to_text_ratio``."""
        return score <= self.max_non_alpha_numeric_to_text_ratio


class NumbersFilter(ScannedFilter):
    """Drop documents that consist largely of digits.

    The score is the share of characters that are decimal digits of any script. An empty document scores 1.

    >>> NumbersFilter().score_document("1 of ٣")
    0.3333333333333333
    """

    name = "numbers"

    def __init__(self, max_number_to_text_ratio: float = 0.15) -> None:
        self.max_number_to_text_ratio = max_number_to_text_ratio

    def score_document(self, text: str) -> float:
        """Return the share of digits."""
        return share(sum(c.isdecimal() for c in text), len(text), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "characters", "decimals"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of digits of each document."""
        return share(features["decimals"], features["characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_number_to_text_ratio``."""
        return score <= self.max_number_to_text_ratio


class UrlsFilter(ScannedFilter):
    """Drop documents that consist largely of URLs.

    The score is the share of characters in URLs. An empty document scores 1. ``url_regex``, a string or a compiled
    pattern, replaces the built-in pattern; it is slower, because it cannot use the compiled scan.

    >>> UrlsFilter().score_document("see https://a.bc")
    0.75
    """

    name = "urls"

    def __init__(self, max_url_to_text_ratio: float = 0.2, url_regex: re.Pattern[str] | str | None = None) -> None:
        self.max_url_to_text_ratio = max_url_to_text_ratio
        self.url_regex = re.compile(url_regex) if isinstance(url_regex, str) else url_regex

    def score_document(self, text: str) -> float:
        """Return the share of characters in URLs."""
        found = (self.url_regex or URL).findall(text)
        return share(sum(len(url) for url in found), len(text), of_nothing=1.0)

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return ("characters", "url_characters") if self.url_regex is None else None

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of characters in URLs of each document."""
        return share(features["url_characters"], features["characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_url_to_text_ratio``."""
        return score <= self.max_url_to_text_ratio


class WhiteSpaceFilter(ScannedFilter):
    r"""Drop documents with too much white space.

    The score is the share of blanks, tabs, backspaces, carriage returns and newlines. An empty document scores 1.

    >>> WhiteSpaceFilter().score_document("a \n b")
    0.6
    """

    name = "white_space"

    def __init__(self, max_white_space_ratio: float = 0.25) -> None:
        self.max_white_space_ratio = max_white_space_ratio

    def score_document(self, text: str) -> float:
        """Return the share of white space."""
        return share(sum(c in _BLANK for c in text), len(text), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "characters", "blanks"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of white space of each document."""
        return share(features["blanks"], features["characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_white_space_ratio``."""
        return score <= self.max_white_space_ratio


class ParenthesesFilter(ScannedFilter):
    """Drop documents with many parentheses: round, square, curly or angle brackets.

    The score is the share of characters that are parentheses. An empty document scores 1.

    >>> ParenthesesFilter().score_document("f(x)")
    0.5
    """

    name = "parentheses"

    def __init__(self, max_parentheses_ratio: float = 0.1) -> None:
        self.max_parentheses_ratio = max_parentheses_ratio

    def score_document(self, text: str) -> float:
        """Return the share of parentheses."""
        return share(sum(c in _PARENTHESES for c in text), len(text), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "characters", "parentheses"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of parentheses of each document."""
        return share(features["parentheses"], features["characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_parentheses_ratio``."""
        return score <= self.max_parentheses_ratio


class PornographicUrlsFilter(ScannedFilter):
    """Drop documents with a URL that contains "porn".

    The score is 1 if there is such a URL, otherwise 0. An empty document scores 0.

    >>> PornographicUrlsFilter().score_document("nothing of the kind")
    0
    """

    name = "pornographic_urls"

    def __init__(self, url_regex: re.Pattern[str] | str | None = None) -> None:
        self.url_regex = re.compile(url_regex) if isinstance(url_regex, str) else url_regex

    def score_document(self, text: str) -> int:
        """Return 1 if there is such a URL."""
        return int(any("porn" in url for url in (self.url_regex or URL).findall(text)))

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return ("pornographic_urls",) if self.url_regex is None else None

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return 1 for each document with such a URL."""
        return features["pornographic_urls"]

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score != 1``."""
        return score != 1


class SubstringFilter(DocumentFilter):
    """Keep documents that begin with a string, end with it, or contain it.

    ``position`` is "prefix", "suffix" or "any". The score is 1 if the string is there, otherwise 0. An empty document
    scores 0, unless ``substring`` is empty.

    >>> SubstringFilter("http", "prefix").score_document("https")
    1
    """

    name = "substring"

    def __init__(self, substring: str, position: Literal["prefix", "suffix", "any"]) -> None:
        if position not in ("prefix", "suffix", "any"):
            raise ValueError(f"SubstringFilter: position is 'prefix', 'suffix' or 'any', not {position!r}.")
        self.substring = substring
        self.position = position

    def score_document(self, text: str) -> int:
        """Return 1 if the string is where it should be."""
        if self.position == "prefix":
            return int(text.startswith(self.substring))
        if self.position == "suffix":
            return int(text.endswith(self.substring))
        return int(self.substring in text)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score == 1``."""
        return score == 1
