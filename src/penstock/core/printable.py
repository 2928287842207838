"""Escape the characters of a text that could control a terminal."""

from __future__ import annotations

import re

# Control characters (C0, DEL, C1), line separators, direction marks and zero-width characters. Surrogates cannot be
# encoded, except those that stand for the bytes A0 to FF of a file name, which are harmless.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udc9f\udd00-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with each character that could control a terminal replaced by its escape sequence.

    Documents, ids, file names and error messages are untrusted. Printed unchanged, they can move the cursor, overwrite
    lines, change the title or the clipboard, or reverse the order of characters. Characters in ``keep`` are not
    escaped: mostly line breaks and tabs.

    >>> print(printable("a\x1b]8;;http://x\x07b\r\n\u202ec"))
    a\x1b]8;;http://x\x07b\r\n\u202ec
    >>> printable("two\nlines", keep="\n")
    'two\nlines'
    """
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def printable_lines(text: str) -> str:
    """Escape a text of several lines, except for line breaks and tabs."""
    return printable(text, keep="\n\t")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
