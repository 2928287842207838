"""Filters against repetition: of lines, of paragraphs, of n-grams of words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.kernels.features import Features
from penstock.text.filters.document_filter import ScannedFilter
from penstock.text.filters.ratio import share
from penstock.text.filters.splitting import needs_dictionary, split_lines, split_paragraphs, split_words


class RepeatedLinesFilter(ScannedFilter):
    """Drop documents with many repeated lines.

    The score is the share of distinct lines among the lines that are not blank. A document without such lines scores 1.

    >>> RepeatedLinesFilter().score_document("a" + chr(10) + "a" + chr(10) + "b" + chr(10) + "a")
    0.5
    """

    name = "repeated_lines"

    def __init__(self, max_repeated_line_fraction: float = 0.7) -> None:
        self.max_repeated_line_fraction = max_repeated_line_fraction

    def score_document(self, text: str) -> float:
        """Return the share of distinct lines."""
        lines = split_lines(text)
        return share(len(set(lines)), len(lines), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "lines", "distinct_lines"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of distinct lines of each document."""
        return share(features["distinct_lines"], features["lines"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= max_repeated_line_fraction``."""
        return score >= self.max_repeated_line_fraction


class RepeatedParagraphsFilter(ScannedFilter):
    """Drop documents with many repeated paragraphs.

    The score is the share of distinct paragraphs, blank ones included. An empty document scores 1.

    >>> RepeatedParagraphsFilter().score_document((chr(10) * 2).join("aaba"))
    0.5
    """

    name = "repeated_paragraphs"

    def __init__(self, max_repeated_paragraphs_ratio: float = 0.7) -> None:
        self.max_repeated_paragraphs_ratio = max_repeated_paragraphs_ratio

    def score_document(self, text: str) -> float:
        """Return the share of distinct paragraphs."""
        paragraphs = split_paragraphs(text)
        return len(set(paragraphs)) / len(paragraphs)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "paragraphs", "distinct_paragraphs"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of distinct paragraphs of each document."""
        return features["distinct_paragraphs"] / features["paragraphs"]

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= max_repeated_paragraphs_ratio``."""
        return score >= self.max_repeated_paragraphs_ratio


class RepeatedLinesByCharFilter(ScannedFilter):
    """Drop documents with much text in repeated lines.

    The score is the share of characters in distinct lines. A document without lines scores 1.

    >>> RepeatedLinesByCharFilter().score_document("long" + chr(10) + "long")
    0.5
    """

    name = "repeated_lines_by_char"

    def __init__(self, max_repeated_lines_char_ratio: float = 0.8) -> None:
        self.max_repeated_lines_char_ratio = max_repeated_lines_char_ratio

    def score_document(self, text: str) -> float:
        """Return the share of characters in distinct lines."""
        lines = split_lines(text)
        return share(len("".join(set(lines))), len("".join(lines)), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "line_characters", "distinct_line_characters"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of characters in distinct lines of each document."""
        return share(features["distinct_line_characters"], features["line_characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= max_repeated_lines_char_ratio``."""
        return score >= self.max_repeated_lines_char_ratio


class RepeatedParagraphsByCharFilter(ScannedFilter):
    """Drop documents with much text in repeated paragraphs.

    The score is the share of characters in distinct paragraphs. An empty document scores 1.

    >>> RepeatedParagraphsByCharFilter().score_document("long" + chr(10) * 2 + "long")
    0.5
    """

    name = "repeated_paragraphs_by_char"

    def __init__(self, max_repeated_paragraphs_char_ratio: float = 0.8) -> None:
        self.max_repeated_paragraphs_char_ratio = max_repeated_paragraphs_char_ratio

    def score_document(self, text: str) -> float:
        """Return the share of characters in distinct paragraphs."""
        paragraphs = split_paragraphs(text)
        return share(len("".join(set(paragraphs))), len("".join(paragraphs)), of_nothing=1.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "paragraph_characters", "distinct_paragraph_characters"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of characters in distinct paragraphs of each document."""
        return share(features["distinct_paragraph_characters"], features["paragraph_characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= max_repeated_paragraphs_char_ratio``."""
        return score >= self.max_repeated_paragraphs_char_ratio


class RepeatingTopNGramsFilter(ScannedFilter):
    """Drop documents in which the most frequent n-gram of words makes up much of the text.

    The score is the share of characters in occurrences of the most frequent n-gram; of equally frequent ones, the first
    in the text. A document of fewer than n words scores 1.

    >>> RepeatingTopNGramsFilter(n=2).score_document("to be or not to be")
    0.5555555555555556
    """

    def __init__(self, n: int = 2, max_repeating_ngram_ratio: float = 0.2, lang: str = "en") -> None:
        self.n = _at_least_one(n, type(self).__name__)
        self.max_repeating_ngram_ratio = max_repeating_ngram_ratio
        self.lang = lang
        self._by_dictionary = needs_dictionary(lang)
        self.name = f"repeating_top_{n}_grams"

    def score_document(self, text: str) -> float:
        """Return the share of characters in the most frequent n-gram."""
        counts = Counter(_ngrams(split_words(text, self.lang), self.n))
        if not counts:
            return 1.0
        [(top, _)] = counts.most_common(1)
        joined = " ".join(top)
        return text.count(joined) * len(joined) / len(text)

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return None if self._by_dictionary else ("characters", f"top_{self.n}gram")

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of characters in the most frequent n-gram of each document."""
        return share(features[f"top_{self.n}gram"], features["characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_repeating_ngram_ratio``."""
        return score <= self.max_repeating_ngram_ratio


class RepeatingDuplicateNGramsFilter(ScannedFilter):
    """Drop documents with much text in n-grams of words that occurred before.

    The score is the share of characters in such n-grams, with one blank between two words; overlapping n-grams count
    once. A document of fewer than n words scores 1.

    >>> RepeatingDuplicateNGramsFilter(n=2).score_document("to be or not to be")
    0.2777777777777778
    """

    def __init__(self, n: int = 2, max_repeating_duplicate_ngram_ratio: float = 0.2, lang: str = "en") -> None:
        self.n = _at_least_one(n, type(self).__name__)
        self.max_repeating_duplicate_ngram_ratio = max_repeating_duplicate_ngram_ratio
        self.lang = lang
        self._by_dictionary = needs_dictionary(lang)
        self.name = f"repeating_duplicate_{n}_grams"

    def score_document(self, text: str) -> float:
        """Return the share of characters in n-grams that occurred before."""
        words = split_words(text, self.lang)
        if len(words) < self.n:
            return 1.0
        seen: set[tuple[str, ...]] = set()
        repeated, covered = 0, 0
        for place, ngram in enumerate(_ngrams(words, self.n)):
            if ngram in seen:
                fresh = ngram[max(covered - place, 0) :]
                repeated += sum(map(len, fresh)) + min(len(fresh), self.n - 1)
                covered = place + self.n
            seen.add(ngram)
        return repeated / len(text)

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return None if self._by_dictionary else ("characters", f"duplicate_{self.n}gram")

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of characters in n-grams that occurred before of each document."""
        return share(features[f"duplicate_{self.n}gram"], features["characters"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_repeating_duplicate_ngram_ratio``."""
        return score <= self.max_repeating_duplicate_ngram_ratio


def _ngrams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def _at_least_one(n: int, owner: str) -> int:
    if n < 1:
        raise ValueError(f"{owner}: n is the number of words in a row, at least 1; got {n}.")
    return n
