"""Modifiers that change the shape of a document: newlines, slices, lines for training fastText."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from penstock.text.modifiers.document_modifier import TextModifier

_NEWLINES = ((r"\n{3,}", "\n\n"), (r"(?:\r\n){3,}", "\r\n\r\n"))

# White space as str.strip defines it; Arrow does not strip the separators U+001C to U+001F.
_WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))


class NewlineNormalizer(TextModifier):
    r"""Replace three or more consecutive newlines by two; Windows newlines too.

    >>> NewlineNormalizer().modify_document("one\n\n\n\ntwo")
    'one\n\ntwo'
    """

    name = "newline_normalizer"

    def modify_document(self, text: str) -> str:
        """Return the text with at most two consecutive newlines."""
        for pattern, replacement in _NEWLINES:
            text = re.sub(pattern, replacement, text)
        return text

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Select texts with three consecutive newlines."""
        return pc.match_substring_regex(texts, r"\n\n\n|\r\n\r\n\r\n")


class Slicer(TextModifier):
    """Cut a slice out of each document.

    ``left`` and ``right`` are positions, as in ``text[left:right]``, or strings: from the first ``left`` to the last
    ``right``, with or without the strings themselves. A document without such a string becomes empty.

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
        """Return the slice."""
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
        """Slice all documents at once if both ends are positions."""
        if isinstance(self.left, str) or isinstance(self.right, str):
            return super().modify_texts(texts)
        pieces = pc.utf8_slice_codeunits(texts, self.left or 0, self.right)
        pieces = pc.utf8_trim(pieces, _WHITE_SPACE) if self.strip else pieces
        return texts if pieces.equals(texts) else pieces


class FastTextLabelModifier(TextModifier):
    r"""Convert each document to a training line for fastText: the label, then the text without newlines.

    An empty document becomes the label and a blank.

    >>> FastTextLabelModifier("__label__hq").modify_document("two\nlines")
    '__label__hq two lines'
    """

    name = "fast_text_label_modifier"

    def __init__(self, label: str) -> None:
        self.label = label

    def modify_document(self, text: str) -> str:
        """Return the training line."""
        return f"{self.label} {text.replace(chr(10), ' ').replace('__label__', ' ')}"

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Convert all documents at once."""
        lines = pc.replace_substring(pc.replace_substring(texts, "\n", " "), "__label__", " ")
        blank = pa.scalar(" ", texts.type)
        return pc.binary_join_element_wise(pa.scalar(self.label, texts.type), lines, blank)
