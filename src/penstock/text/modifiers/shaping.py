"""Modifiers that change the shape of a document: its newlines, its ends, the line fastText learns from."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from penstock.text.modifiers.document_modifier import TextModifier

_NEWLINES = ((r"\n{3,}", "\n\n"), (r"(?:\r\n){3,}", "\r\n\r\n"))

# As str.strip knows it; Arrow leaves the four separators U+001C to U+001F alone.
_WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))


class NewlineNormalizer(TextModifier):
    """Makes two newlines of three or more, also of Windows newlines.

    >>> NewlineNormalizer().modify_document("one\\n\\n\\n\\ntwo")
    'one\\n\\ntwo'
    """

    name = "newline_normalizer"

    def modify_document(self, text: str) -> str:
        """Return the text without wide gaps."""
        for pattern, replacement in _NEWLINES:
            text = re.sub(pattern, replacement, text)
        return text

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Look for a wide gap."""
        return pc.match_substring_regex(texts, r"\n\n\n|\r\n\r\n\r\n")


class Slicer(TextModifier):
    """Cuts a piece out of each document.

    ``left`` and ``right`` are positions as in ``text[left:right]``, or strings: from the first ``left`` to the last
    ``right``, with or without them. A document in which such a string is missing comes out empty.

    >>> Slicer("[", "]", include_left=False, include_right=False).modify_document("see [page 5] there")
    'page 5'
    """

    name = "slicer"

    def __init__(
        self,
        left: int | str | None = 0,
        right: int | str | None = None,
        include_left: bool = True,
        include_right: bool = True,
        strip: bool = True,
    ) -> None:
        self.left = left
        self.right = right
        self.include_left = include_left
        self.include_right = include_right
        self.strip = strip

    def modify_document(self, text: str) -> str:
        """Return the piece."""
        start, end = self.left, self.right
        if isinstance(start, str):
            found = text.find(start)
            if found < 0:
                return ""
            start = found if self.include_left else found + len(start)
        if isinstance(end, str):
            found = text.rfind(end)
            if found < 0:
                return ""
            end = found + len(end) if self.include_right else found
        piece = text[start:end]
        return piece.strip() if self.strip else piece

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Do the same for all documents at once, where both ends are positions."""
        if isinstance(self.left, str) or isinstance(self.right, str):
            return super().modify_texts(texts)
        pieces = pc.utf8_slice_codeunits(texts, self.left or 0, self.right)
        pieces = pc.utf8_trim(pieces, _WHITE_SPACE) if self.strip else pieces
        return texts if pieces.equals(texts) else pieces


class FastTextLabelModifier(TextModifier):
    """Makes each document a line to train fastText with: the label, then the text without newlines.

    An empty document is a label and a blank.

    >>> FastTextLabelModifier("__label__hq").modify_document("two\\nlines")
    '__label__hq two lines'
    """

    name = "fast_text_label_modifier"

    def __init__(self, label: str) -> None:
        self.label = label

    def modify_document(self, text: str) -> str:
        """Return the line."""
        return f"{self.label} {text.replace(chr(10), ' ').replace('__label__', ' ')}"

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Do the same for all documents at once."""
        lines = pc.replace_substring(pc.replace_substring(texts, "\n", " "), "__label__", " ")
        blank = pa.scalar(" ", texts.type)
        return pc.binary_join_element_wise(pa.scalar(self.label, texts.type), lines, blank)
