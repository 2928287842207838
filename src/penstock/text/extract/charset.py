"""Decode the bytes of a web page: find its encoding from the HTTP header, the page and the bytes themselves."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from penstock.extras import require

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_IN_PAGE = re.compile(
    rb"<(?:meta[^>]{1,200}?charset|\?xml[^>]{1,100}?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE
)
_SEARCHED_BYTES = 4096
# The supersets that browsers use for these encodings.
_LARGER = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
# Seven-bit encodings: their bytes are also valid ASCII, with another meaning.
_SEVEN_BIT = ("iso2022_jp", "iso2022_kr", "hz")
_MAX_UNREADABLE_RATIO = 0.01


def decode_page(page: bytes, content_type: str = "") -> str | None:
    r"""Return the page as text, or None if no encoding fits.

    UTF-8 takes precedence over any declaration, because other encodings are hardly ever valid UTF-8. With a declared
    encoding up to one character in a hundred may be unreadable, as in browsers.

    >>> decode_page("Käse".encode("latin-1"), "text/html; charset=ISO-8859-1")
    'Käse'
    >>> decode_page("<meta charset='windows-1251'>Привет".encode("cp1251"))
    "<meta charset='windows-1251'>Привет"
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if page.startswith(mark):
            return page[len(mark) :].decode(encoding, "replace")
    declared = list(dict.fromkeys(_declared(page, content_type)))
    if b"\x1b" in page or b"~{" in page:
        for encoding in declared:
            if encoding in _SEVEN_BIT:
                return page.decode(encoding, "replace")
    if not (b"\x00" in page[:_SEARCHED_BYTES] and any(encoding.startswith("utf-16") for encoding in declared)):
        try:
            return page.decode("utf-8")
        except UnicodeDecodeError:
            pass
    candidates = [*declared, *_detected(page)]
    for encoding in candidates:
        try:
            return page.decode(encoding)
        except UnicodeDecodeError:
            continue
    for encoding in candidates:
        text = page.decode(encoding, "replace")
        if text.count("\ufffd") <= _MAX_UNREADABLE_RATIO * len(text):
            return text
    return None


def _declared(page: bytes, content_type: str) -> Iterator[str]:
    in_header = _IN_HEADER.search(content_type)
    in_page = _IN_PAGE.search(page[:_SEARCHED_BYTES])
    names = [in_header[1] if in_header else "", in_page[1].decode("ascii") if in_page else ""]
    for name in names:
        if known := _known(name):
            yield known


def _detected(page: bytes) -> Iterator[str]:
    encoding = require("resiliparse.parse.encoding", "extract", "Detecting the encoding of a page")
    if known := _known(encoding.detect_encoding(page[: 1 << 16]) or ""):
        yield known
    yield "cp1252"


def _known(name: str) -> str | None:
    try:
        known = codecs.lookup(name).name
        b"".decode(known)  # some codecs do not decode to text
    except (LookupError, UnicodeError):
        return None
    return _LARGER.get(known, known)
