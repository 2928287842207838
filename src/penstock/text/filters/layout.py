"""Filters by the layout of a page: line endings, short lines, line breaks, sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock.kernels.characters import sentence_terminals
from penstock.kernels.columns import SHORT_LINE
from penstock.kernels.features import Features
from penstock.text.filters.document_filter import DocumentFilter, ScannedFilter
from penstock.text.filters.ratio import share
from penstock.text.filters.splitting import split_lines

_STOP_WORDS = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)")


class LinePunctuationFilter(ScannedFilter):
    """Drop pages in which few lines end like a sentence, in any script.

    The score is the share of lines that end in a sentence-final mark. A document without lines scores 0.
    ``exclude_zero`` keeps pages that score 0, as in scripts without such marks.

    >>> LinePunctuationFilter().score_document("Home" + chr(10) + "欢迎。")
    0.5
    """

    name = "line_punctuation"

    def __init__(self, min_line_punctuation_ratio: float = 0.12, exclude_zero: bool = False) -> None:
        self.min_line_punctuation_ratio = min_line_punctuation_ratio
        self.exclude_zero = exclude_zero

    def score_document(self, text: str) -> float:
        """Return the share of lines that end a sentence."""
        lines = split_lines(text)
        ends = tuple(sentence_terminals())
        return share(sum(line.rstrip().endswith(ends) for line in lines), len(lines), of_nothing=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "lines", "terminal_lines"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of lines that end a sentence of each document."""
        return share(features["terminal_lines"], features["lines"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_line_punctuation_ratio``, or if it is 0 and ``exclude_zero``."""
        return (score >= self.min_line_punctuation_ratio) | ((score == 0) & self.exclude_zero)


class ShortLinesFilter(ScannedFilter):
    """Drop pages of short lines, such as menus and lists.

    The score is the share of lines of at most ``short_line_length`` characters. A document without lines scores 1. Only
    the default length uses the compiled scan; another one is slower.

    >>> ShortLinesFilter(short_line_length=5).score_document("Home" + chr(10) + "A long sentence.")
    0.5
    """

    name = "short_lines"

    def __init__(self, max_short_line_ratio: float = 0.67, short_line_length: int = SHORT_LINE) -> None:
        self.max_short_line_ratio = max_short_line_ratio
        self.short_line_length = short_line_length

    def score_document(self, text: str) -> float:
        """Return the share of short lines."""
        lines = split_lines(text)
        return share(sum(len(line) <= self.short_line_length for line in lines), len(lines), of_nothing=1.0)

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return ("lines", "short_lines") if self.short_line_length == SHORT_LINE else None

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of short lines of each document."""
        return share(features["short_lines"], features["lines"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_short_line_ratio``."""
        return score <= self.max_short_line_ratio


class DuplicateLineCharactersFilter(ScannedFilter):
    """Drop pages with much text in repeated lines.

    The score is the share of characters in lines that occurred before; line breaks do not count. A document without
    text scores 0.

    >>> DuplicateLineCharactersFilter().score_document("long" + chr(10) + "long")
    0.5
    """

    name = "duplicate_line_characters"

    def __init__(self, max_duplicate_character_ratio: float = 0.01) -> None:
        self.max_duplicate_character_ratio = max_duplicate_character_ratio

    def score_document(self, text: str) -> float:
        """Return the share of characters in repeated lines."""
        lines = split_lines(text)
        repeated = len("".join(lines)) - len("".join(set(lines)))
        return share(repeated, len(text) - text.count("\n"), of_nothing=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "line_characters", "distinct_line_characters", "characters", "line_breaks"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of characters in repeated lines of each document."""
        repeated = features["line_characters"] - features["distinct_line_characters"]
        return share(repeated, features["characters"] - features["line_breaks"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_duplicate_character_ratio``."""
        return score <= self.max_duplicate_character_ratio


class NewLinesToWordsFilter(ScannedFilter):
    """Drop pages with a line break every few words.

    The score is the number of line breaks per word. A document without words scores 1.

    >>> NewLinesToWordsFilter().score_document("one" + chr(10) + "two")
    0.5
    """

    name = "new_lines_to_words"

    def __init__(self, max_new_line_to_word_ratio: float = 0.3) -> None:
        self.max_new_line_to_word_ratio = max_new_line_to_word_ratio

    def score_document(self, text: str) -> float:
        """Return the number of line breaks per word."""
        return share(text.count("\n"), len(text.split()), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "line_breaks", "words"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the number of line breaks per word of each document."""
        return share(features["line_breaks"], features["words"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_new_line_to_word_ratio``."""
        return score <= self.max_new_line_to_word_ratio


class StopWordsFilter(ScannedFilter):
    """Keep documents with several different stop words, in lower case.

    The score is the number of different stop words. An empty document scores 0. Only the default list, the eight words
    of Gopher, uses the compiled scan; another one is slower.

    >>> StopWordsFilter().score_document("the name of the rose")
    2
    """

    name = "stop_words"

    def __init__(self, min_stop_words: int = 2, stop_words: Sequence[str] | None = None) -> None:
        self.min_stop_words = min_stop_words
        self.stop_words = sorted(_STOP_WORDS if stop_words is None else set(stop_words))

    def score_document(self, text: str) -> int:
        """Return the number of different stop words."""
        return len(set(self.stop_words).intersection(text.split()))

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return ("distinct_common_words",) if set(self.stop_words) == _STOP_WORDS else None

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the number of different stop words of each document."""
        return features["distinct_common_words"]

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_stop_words``."""
        return score >= self.min_stop_words


class SentenceCountFilter(DocumentFilter):
    """Keep documents with at least ``min_num_sentences`` sentences.

    The score is the number of full stops, question marks and exclamation marks, with closing quotes or brackets, that
    are followed by white space or the end. An empty document scores 0.

    >>> SentenceCountFilter().score_document('He said "no." So what? e.g. this')
    3
    """

    name = "sentence_count"

    def __init__(self, min_num_sentences: int = 5) -> None:
        self.min_num_sentences = min_num_sentences

    def score_document(self, text: str) -> int:
        """Return the number of sentences."""
        return len(_SENTENCE_END.findall(text))

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_num_sentences``."""
        return score >= self.min_num_sentences


class ForbiddenTextFilter(DocumentFilter):
    """Drop documents that contain a given text, in upper or lower case.

    The score is the number of occurrences. An empty document scores 0.

    >>> ForbiddenTextFilter("lorem ipsum").score_document("Lorem ipsum dolor")
    1
    """

    name = "forbidden_text"

    def __init__(self, substring: str) -> None:
        self.substring = substring

    def score_document(self, text: str) -> int:
        """Return how often the text occurs."""
        return text.lower().count(self.substring.lower())

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score == 0``."""
        return score == 0
