"""Heuristic filters: rules of thumb that need no model."""

from __future__ import annotations

import re

from penstock.text.filters.document_filter import DocumentFilter

_ALPHANUMERIC = re.compile(r"[a-zA-Z0-9\n?!,.]")
_COMMON_ENGLISH_WORDS = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})
_POLICY_PHRASES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "privacy overview",
    "use of cookies",
    "use cookies",
    "privacy & cookies policy",
    "privacy and cookies policy",
)


class WordCountFilter(DocumentFilter):
    """Keeps documents of a sensible number of words, split at white space. An empty document has none.

    >>> WordCountFilter(min_words=3).score_document("one two")
    2
    """

    _name = "word_count"

    def __init__(self, min_words: int = 50, max_words: int = 100000, lang: str = "en") -> None:
        if lang in ("zh", "ja"):
            raise ValueError(f"WordCountFilter(lang={lang!r}): words of this language cannot be told apart yet.")
        self.min_words = min_words
        self.max_words = max_words
        self.lang = lang

    def score_document(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def keep_document(self, score: float) -> bool:
        """Keep what lies within the bounds."""
        return self.min_words <= score <= self.max_words


class NonAlphaNumericFilter(DocumentFilter):
    """Drops documents made of other things than letters, digits and ordinary punctuation.

    The score is the share of characters outside ``a-z A-Z 0-9 ? ! , .`` and newline, blanks included; of an
    empty document it is 1.

    >>> NonAlphaNumericFilter().score_document("ab##")
    0.5
    """

    _name = "alpha_numeric"

    def __init__(self, max_non_alpha_numeric_to_text_ratio: float = 0.25) -> None:
        self.max_non_alpha_numeric_to_text_ratio = max_non_alpha_numeric_to_text_ratio

    def score_document(self, text: str) -> float:
        """Return the share of odd characters."""
        return 1 - len(_ALPHANUMERIC.findall(text)) / len(text) if text else 1.0

    def keep_document(self, score: float) -> bool:
        """Keep up to the given share."""
        return score <= self.max_non_alpha_numeric_to_text_ratio


class RepeatedLinesFilter(DocumentFilter):
    """Drops documents that say the same lines again and again.

    The score is the share of distinct lines among those that are not blank; of a document without such lines it is 1.

    >>> RepeatedLinesFilter().score_document("a" + chr(10) + "a" + chr(10) + "b" + chr(10) + "a")
    0.5
    """

    _name = "repeated_lines"

    def __init__(self, max_repeated_line_fraction: float = 0.7) -> None:
        self.max_repeated_line_fraction = max_repeated_line_fraction

    def score_document(self, text: str) -> float:
        """Return the share of distinct lines."""
        lines = [line for line in text.split("\n") if line.strip()]
        return len(set(lines)) / len(lines) if lines else 1.0

    def keep_document(self, score: float) -> bool:
        """Keep from the given share on."""
        return score >= self.max_repeated_line_fraction


class BoilerPlateStringFilter(DocumentFilter):
    """Drops documents that consist of cookie notices, terms of use and the like.

    The score is the share of paragraphs with such a phrase, 1 if there is a "lorem ipsum"; of an empty document 0.

    >>> BoilerPlateStringFilter().score_document("We use cookies.")
    1.0
    """

    _name = "boilerplate_string_ratio"

    def __init__(self, remove_if_at_top_or_bottom: bool = True, max_boilerplate_string_ratio: float = 0.4) -> None:
        self.remove_if_at_top_or_bottom = remove_if_at_top_or_bottom
        self.max_boilerplate_string_ratio = max_boilerplate_string_ratio

    def score_document(self, text: str) -> float:
        """Return the share of boilerplate paragraphs."""
        paragraphs = [paragraph.lower() for paragraph in text.split("\n\n") if paragraph.strip()]
        if any("lorem ipsum" in paragraph for paragraph in paragraphs):
            return 1.0
        found = sum(any(phrase in paragraph for phrase in _POLICY_PHRASES) for paragraph in paragraphs)
        return found / len(paragraphs) if paragraphs else 0.0

    def keep_document(self, score: float) -> bool:
        """Keep up to the given share."""
        return score <= self.max_boilerplate_string_ratio


class CommonEnglishWordsFilter(DocumentFilter):
    """Drops documents without the commonest English words, and so most that are not English, or all in capitals.

    The score is how many of the words are common ones, counted up to the bound unless ``stop_at_false`` is off.

    >>> CommonEnglishWordsFilter().score_document("the name of the rose")
    2
    """

    _name = "common_english_words"

    def __init__(self, min_num_common_words: int = 2, stop_at_false: bool = True) -> None:
        self.min_num_common_words = min_num_common_words
        self.stop_at_false = stop_at_false

    def score_document(self, text: str) -> int:
        """Return the number of common words."""
        found = 0
        for word in text.split():
            found += word in _COMMON_ENGLISH_WORDS
            if self.stop_at_false and found >= self.min_num_common_words:
                break
        return found

    def keep_document(self, score: float) -> bool:
        """Keep from the given number on."""
        return score >= self.min_num_common_words
