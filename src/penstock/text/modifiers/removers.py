"""Modifiers that remove parts of a text: lines, Markdown, quotation marks, URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.text.modifiers.document_modifier import TextModifier

_MARKDOWN = tuple(
    re.compile(pattern)
    for pattern in (
        r"\*\*(.*?)\*\*",  # bold
        r"\*(.*?)\*",  # italic
        r"_(.*?)_",  # underlined
        r"\[.*?\]\((.*?)\)",  # a link: its target is kept
    )
)
_URL = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
# The same pattern for Arrow, whose \S covers ASCII only: Python's white space, spelled out.
_ARROW_URL = (
    r"(?i)(?:https?://|www\.)"
    r"[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


class LineRemover(TextModifier):
    r"""Remove lines that are equal to one of the given strings; ``""`` removes empty lines.

    >>> LineRemover(["Share", "Print"]).modify_document("News\nShare\nPrint this")
    'News\nPrint this'
    """

    name = "line_remover"

    def __init__(self, patterns: Sequence[str]) -> None:
        if isinstance(patterns, str):
            raise TypeError(f"LineRemover takes a list of lines, got a string. Write LineRemover([{patterns!r}]).")
        self.patterns = list(patterns)
        self._lines = frozenset(patterns)

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Select texts that contain one of the strings anywhere; matching whole lines would be slower."""
        return pc.match_substring_regex(texts, "|".join(re.escape(line) for line in self.patterns))

    def modify_document(self, text: str) -> str:
        """Return the remaining lines."""
        return "\n".join([line for line in text.split("\n") if line not in self._lines])


class MarkdownRemover(TextModifier):
    """Remove the marks of bold, italic and underlined text, and replace links by their targets, line by line.

    >>> MarkdownRemover().modify_document("**Read** [this](/page), _please_")
    'Read /page, please'
    """

    name = "markdown_remover"

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Select texts with a pair of marks in one line."""
        return pc.match_substring_regex(texts, r"\*.*\*|_.*_|\[.*\]\(.*\)")

    def modify_document(self, text: str) -> str:
        """Return the text without marks."""
        for pattern in _MARKDOWN:
            text = pattern.sub(r"\1", text)
        return text


class QuotationRemover(TextModifier):
    r"""Remove the quotation marks around a whole document.

    If a document has several lines and the first one ends in a quotation mark too, the marks are kept: that line is a
    quotation of its own. Documents of up to two characters are not changed.

    >>> QuotationRemover().modify_document('"All of it."')
    'All of it.'
    >>> QuotationRemover().modify_document('"One."\n"Two."')
    '"One."\n"Two."'
    """

    name = "quotation_remover"

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Select texts with quotation marks at both ends."""
        return pc.and_(pc.starts_with(texts, '"'), pc.ends_with(texts, '"'))

    def modify_document(self, text: str) -> str:
        """Return the document without its quotation marks."""
        if len(text) <= 2 or text[0] != '"' or text[-1] != '"':
            return text
        first, newline, _ = text.partition("\n")
        return text if newline and first.endswith('"') else text[1:-1]


class UrlRemover(TextModifier):
    """Remove URLs: from ``http://``, ``https://`` or ``www.`` up to the next white space.

    >>> UrlRemover().modify_document("See https://example.org/a?b for more.")
    'See  for more.'
    """

    name = "url_remover"

    def modify_document(self, text: str) -> str:
        """Return the text without URLs."""
        return _URL.sub("", text)

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Remove the URLs of all documents at once."""
        if not pc.any(pc.match_substring_regex(texts, _ARROW_URL)).as_py():
            return texts
        return pc.replace_substring_regex(texts, _ARROW_URL, "")
