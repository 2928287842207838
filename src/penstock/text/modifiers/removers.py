"""Modifiers that remove: lines, Markdown, quotation marks, URLs."""

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
        r"\[.*?\]\((.*?)\)",  # a link: what stays is where it leads
    )
)
_URL = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
# The same for Arrow, to which \S is a matter of ASCII: white space as Python knows it, spelled out.
_ARROW_URL = (
    r"(?i)(?:https?://|www\.)"
    r"[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


class LineRemover(TextModifier):
    """Removes lines that are exactly one of the given strings; ``""`` stands for empty lines.

    >>> LineRemover(["Share", "Print"]).modify_document("News\\nShare\\nPrint this")
    'News\\nPrint this'
    """

    name = "line_remover"

    def __init__(self, patterns: Sequence[str]) -> None:
        if isinstance(patterns, str):
            raise TypeError(f"LineRemover takes a list of lines, got a string. Write LineRemover([{patterns!r}]).")
        self.patterns = list(patterns)
        self._lines = frozenset(patterns)

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Look for the strings anywhere: to look for lines is slower than to split into lines."""
        return pc.match_substring_regex(texts, "|".join(re.escape(line) for line in self.patterns))

    def modify_document(self, text: str) -> str:
        """Return the other lines."""
        return "\n".join([line for line in text.split("\n") if line not in self._lines])


class MarkdownRemover(TextModifier):
    """Takes the marks off bold, italic and underlined text, and leaves of a link where it leads. Line by line.

    >>> MarkdownRemover().modify_document("**Read** [this](/page), _please_")
    'Read /page, please'
    """

    name = "markdown_remover"

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Look for a pair of marks in one line."""
        return pc.match_substring_regex(texts, r"\*.*\*|_.*_|\[.*\]\(.*\)")

    def modify_document(self, text: str) -> str:
        """Return the bare text."""
        for pattern in _MARKDOWN:
            text = pattern.sub(r"\1", text)
        return text


class QuotationRemover(TextModifier):
    """Removes the quotation marks around a whole document.

    Of several lines they are left where the first line ends in one too: then it is a quotation of its own. What is no
    longer than two characters stays as it is.

    >>> QuotationRemover().modify_document('"All of it."')
    'All of it.'
    >>> QuotationRemover().modify_document('"One."\\n"Two."')
    '"One."\\n"Two."'
    """

    name = "quotation_remover"

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Look at both ends."""
        return pc.and_(pc.starts_with(texts, '"'), pc.ends_with(texts, '"'))

    def modify_document(self, text: str) -> str:
        """Return the document without its quotation marks."""
        if len(text) <= 2 or text[0] != '"' or text[-1] != '"':
            return text
        first, newline, _ = text.partition("\n")
        return text if newline and first.endswith('"') else text[1:-1]


class UrlRemover(TextModifier):
    """Removes URLs: what begins with ``http://``, ``https://`` or ``www.``, up to the next white space.

    >>> UrlRemover().modify_document("See https://example.org/a?b for more.")
    'See  for more.'
    """

    name = "url_remover"

    def modify_document(self, text: str) -> str:
        """Return the text without URLs."""
        return _URL.sub("", text)

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Do the same for all documents at once."""
        if not pc.any(pc.match_substring_regex(texts, _ARROW_URL)).as_py():
            return texts
        return pc.replace_substring_regex(texts, _ARROW_URL, "")
