"""Filters by the words of a document. ``lang="zh"`` and ``"ja"`` split words by dictionary (``penstock[cjk]``)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from penstock.kernels.features import Features
from penstock.text.filters.document_filter import ScannedFilter
from penstock.text.filters.ratio import share
from penstock.text.filters.splitting import needs_dictionary, split_words

_HASHES = re.compile("#+")
_ELLIPSES = frozenset({"...", "[...]", "…", "(...)", "[…]", "-»"})
_COMMON_ENGLISH_WORDS = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})


class _WordFilter(ScannedFilter):
    """Split text into words by language; use the compiled scan if words are separated by white space."""

    _needs: tuple[str, ...]

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._by_dictionary = needs_dictionary(lang)

    def features(self) -> tuple[str, ...] | None:
        """Return the names of the features that the score is computed from."""
        return None if self._by_dictionary else self._needs


class WordCountFilter(_WordFilter):
    """Keep documents with ``min_words`` to ``max_words`` words, separated by white space.

    An empty document scores 0.

    >>> WordCountFilter(min_words=3).score_document("one two")
    2
    """

    name = "word_count"
    _needs = ("words",)

    def __init__(self, min_words: int = 50, max_words: int = 100000, lang: str = "en") -> None:
        super().__init__(lang)
        self.min_words = min_words
        self.max_words = max_words

    def score_document(self, text: str) -> int:
        """Return the number of words."""
        return len(split_words(text, self.lang))

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the number of words of each document."""
        return features["words"]

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``min_words <= score <= max_words``."""
        return (score >= self.min_words) & (score <= self.max_words)


class MeanWordLengthFilter(_WordFilter):
    """Keep documents whose words have a normal length on average.

    The score is the mean length of a word in characters. A document without words scores 0.

    >>> MeanWordLengthFilter().score_document("a quick fox")
    3.0
    """

    name = "mean_word_length"
    _needs = ("words", "word_characters")

    def __init__(self, min_mean_word_length: float = 3, max_mean_word_length: float = 10, lang: str = "en") -> None:
        super().__init__(lang)
        self.min_mean_word_length = min_mean_word_length
        self.max_mean_word_length = max_mean_word_length

    def score_document(self, text: str) -> float:
        """Return the mean length of a word in characters."""
        lengths = [len(word) for word in split_words(text, self.lang)]
        return share(sum(lengths), len(lengths), of_nothing=0.0)

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the mean length of a word of each document."""
        return share(features["word_characters"], features["words"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``min_mean_word_length <= score <= max_mean_word_length``."""
        return (score >= self.min_mean_word_length) & (score <= self.max_mean_word_length)


class LongWordFilter(_WordFilter):
    """Drop documents with a very long word, such as minified scripts.

    The score is the length of the longest word in characters. A document without words scores 0.

    >>> LongWordFilter().score_document("a quick fox")
    5
    """

    name = "long_word"
    _needs = ("longest_word",)

    def __init__(self, max_word_length: int = 1000, lang: str = "en") -> None:
        super().__init__(lang)
        self.max_word_length = max_word_length

    def score_document(self, text: str) -> int:
        """Return the length of the longest word."""
        return max((len(word) for word in split_words(text, self.lang)), default=0)

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the length of the longest word of each document."""
        return features["longest_word"]

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_word_length``."""
        return score <= self.max_word_length


class SymbolsToWordsFilter(_WordFilter):
    """Drop documents with many hash signs and ellipses.

    The score is the share of words that are an ellipsis or consist mostly of hash signs; a run of hash signs counts
    once. A document without words scores 0.

    >>> SymbolsToWordsFilter().score_document("# of things ...")
    0.5
    """

    name = "symbols_to_words"
    _needs = ("words", "symbol_words")

    def __init__(self, max_symbol_to_word_ratio: float = 0.1, lang: str = "en") -> None:
        super().__init__(lang)
        self.max_symbol_to_word_ratio = max_symbol_to_word_ratio

    def score_document(self, text: str) -> float:
        """Return the share of symbols among the words."""
        words = split_words(text, self.lang)
        return share(sum(_is_symbol(word.strip()) for word in words), len(words), of_nothing=0.0)

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of symbols among the words of each document."""
        return share(features["symbol_words"], features["words"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score <= max_symbol_to_word_ratio``."""
        return score <= self.max_symbol_to_word_ratio


def _is_symbol(word: str) -> bool:
    return word in _ELLIPSES or 2 * len(_HASHES.findall(word)) > len(word)


class WordsWithoutAlphabetsFilter(_WordFilter):
    """Keep documents in which most words contain a letter of any alphabet.

    The score is the share of such words. A document without words scores 1.

    >>> WordsWithoutAlphabetsFilter().score_document("2 + two")
    0.3333333333333333
    """

    name = "words_without_alphabets"
    _needs = ("words", "words_with_letters")

    def __init__(self, min_words_with_alphabets: float = 0.8, lang: str = "en") -> None:
        super().__init__(lang)
        self.min_words_with_alphabets = min_words_with_alphabets

    def score_document(self, text: str) -> float:
        """Return the share of words with a letter."""
        words = split_words(text, self.lang)
        return share(sum(any(map(str.isalpha, word)) for word in words), len(words), of_nothing=1.0)

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of words with a letter of each document."""
        return share(features["words_with_letters"], features["words"], of_nothing=1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_words_with_alphabets``."""
        return score >= self.min_words_with_alphabets


class CommonEnglishWordsFilter(ScannedFilter):
    """Drop documents without the most common English words: most texts in other languages or all in capitals.

    The score is the number of words that are common words; with ``stop_at_false`` counting stops at
    ``min_num_common_words``. An empty document scores 0.

    >>> CommonEnglishWordsFilter().score_document("the name of the rose")
    2
    """

    name = "common_english_words"

    def __init__(self, min_num_common_words: int = 2, stop_at_false: bool = True) -> None:
        self.min_num_common_words = min_num_common_words
        self.stop_at_false = stop_at_false

    def score_document(self, text: str) -> int:
        """Return the number of common words."""
        found = sum(word in _COMMON_ENGLISH_WORDS for word in text.split())
        return min(found, self.min_num_common_words) if self.stop_at_false else found

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return ("common_words",)

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the number of common words of each document."""
        found = features["common_words"]
        return np.minimum(found, self.min_num_common_words) if self.stop_at_false else found

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_num_common_words``."""
        return score >= self.min_num_common_words
