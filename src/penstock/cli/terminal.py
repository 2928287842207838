"""Make standard output and error robust: characters that cannot be encoded, closed streams, readers that exit."""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress
from io import TextIOWrapper

_HANDLER = "penstock.printable"
# ASCII under another name: click treats a stream in ASCII as misconfigured and writes UTF-8 to it.
_ASCII = "penstock_ascii"
# ASCII replacements for the characters of tables and messages.
_PLAIN = {
    "─": "-", "━": "-", "╸": "-", "╺": "-", "│": "|", "┃": "|", "└": "`", "├": "|", "→": "->", "←": "<-", "…": "...",
    "·": "-", "–": "-", "—": "-", "×": "x", "≥": ">=", "≤": "<=", "≈": "~", "•": "*", "’": "'", "“": '"', "”": '"',
}  # fmt: skip


def make_printable() -> None:
    """Replace characters that cannot be encoded, so that printing them never raises an error."""
    codecs.register_error(_HANDLER, _printable)
    codecs.register(_find_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if is_ascii else stream.encoding, errors=_HANDLER)


def close_output() -> None:
    """Flush the output; if its reader is gone, redirect it, so that Python does not report a second failure."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def _find_ascii(name: str) -> codecs.CodecInfo | None:
    if name != _ASCII:
        return None
    ascii_ = codecs.lookup("ascii")
    return codecs.CodecInfo(
        ascii_.encode,
        ascii_.decode,
        ascii_.streamreader,
        ascii_.streamwriter,
        ascii_.incrementalencoder,
        ascii_.incrementaldecoder,
        name=_ASCII,
    )


def _printable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the replacement for a character that cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    first = error.object[error.start]
    if "\udc80" <= first <= "\udcff":
        return bytes([ord(first) - 0xDC00]), error.start + 1  # a byte of a file name that is not text
    plain = _PLAIN.get(first) or first.encode("ascii", "backslashreplace").decode("ascii")
    return plain, error.start + 1
