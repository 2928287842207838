"""Keep the lines of a page that C4 keeps: sentences, without notices about cookies or JavaScript."""

from __future__ import annotations

import re

from penstock.text.modifiers.document_modifier import DocumentModifier

_END_MARKS = (".", "?", "!", '"', "'")
_CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
_POLICY_PHRASES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


class C4LineRemover(DocumentModifier):
    """Remove the lines that C4 removes; the document is kept even if no line remains.

    A line is removed if it does not end in one of ``. ? ! " '``, ends in an ellipsis, has too few words or a word that
    is too long, or mentions JavaScript, cookies or terms of use. White space at both ends and citation marks such as
    ``[1]`` are removed from the remaining lines.

    >>> page = chr(10).join(["Home", "It was a dark night.[1]", "Please enable JavaScript."])
    >>> C4LineRemover().modify_document(page)
    'It was a dark night.'
    """

    name = "c4_line_remover"

    def __init__(
        self,
        remove_citations: bool = True,
        filter_no_terminal_punct: bool = True,
        min_words_per_line: int = 3,
        max_word_length: int = 1000,
        filter_javascript: bool = True,
        filter_policy: bool = True,
    ) -> None:
        self.remove_citations = remove_citations
        self.filter_no_terminal_punct = filter_no_terminal_punct
        self.min_words_per_line = min_words_per_line
        self.max_word_length = max_word_length
        self.filter_javascript = filter_javascript
        self.filter_policy = filter_policy

    def modify_document(self, text: str) -> str:
        """Return the remaining lines of a document."""
        lines = (self._kept(line.strip()) for line in text.splitlines())
        return "\n".join(line for line in lines if line is not None).strip()

    def _kept(self, line: str) -> str | None:
        words = line.split()
        if len(words) < self.min_words_per_line or any(len(word) > self.max_word_length for word in words):
            return None
        if self.remove_citations:
            line = _CITATION.sub("", line)
        if self.filter_no_terminal_punct and (not line.endswith(_END_MARKS) or line.endswith("...")):
            return None
        lowered = line.lower()
        if self.filter_javascript and "javascript" in lowered:
            return None
        if self.filter_policy and any(phrase in lowered for phrase in _POLICY_PHRASES):
            return None
        return line
