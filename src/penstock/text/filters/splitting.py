"""Split a text into words, lines and paragraphs."""

from __future__ import annotations

from functools import cache
from typing import Any

from penstock.extras import require

_MODULES = {"zh": "jieba", "ja": "MeCab"}


def needs_dictionary(lang: str) -> bool:
    """Return True if a language is split into words by dictionary; fail if the library for it is missing."""
    module = _MODULES.get(lang.lower())
    if module is not None:
        require(module, "cjk", f"Splitting text of lang={lang!r} into words")
    return module is not None


def split_words(text: str, lang: str = "en") -> list[str]:
    """Return the words of a text: by dictionary for Chinese and Japanese, otherwise split at white space.

    >>> split_words(" one  two ")
    ['one', 'two']
    """
    if lang.lower() == "zh":
        return list(_jieba().cut(text.strip()))
    if lang.lower() == "ja":
        lines = _mecab().parse(text.strip()).strip().split("\n")
        return [line.split("\t")[0] for line in lines if line and line != "EOS"]
    return text.split()


@cache
def _jieba() -> Any:  # noqa: ANN401 - a module without types
    jieba = require("jieba", "cjk", "Splitting Chinese text into words")
    jieba.setLogLevel("WARNING")
    return jieba


@cache
def _mecab() -> Any:  # noqa: ANN401
    # Creating one takes longer than tagging most documents.
    return require("MeCab", "cjk", "Splitting Japanese text into words").Tagger()


def split_lines(text: str) -> list[str]:
    r"""Return the lines that are not blank, unchanged.

    >>> split_lines("one\n \n two ")
    ['one', ' two ']
    """
    return [line for line in text.split("\n") if line.strip()]


def split_paragraphs(text: str) -> list[str]:
    r"""Return the parts between two consecutive line breaks; a part may be empty.

    >>> split_paragraphs("one\n\n\n\ntwo")
    ['one', '', 'two']
    """
    return text.split("\n\n")
