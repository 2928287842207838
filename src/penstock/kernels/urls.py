"""Find URLs in a text, as ``patterns.URL`` does."""

from __future__ import annotations

from string import hexdigits

import numpy as np

from penstock.kernels.native import byte_at, native
from penstock.kernels.patterns import URL_CHARACTER
from penstock.kernels.spans import Bytes, find_byte, spells

_IN_URL = np.array([bool(URL_CHARACTER.fullmatch(chr(byte))) for byte in range(256)])
_HEXADECIMAL = np.array([chr(byte) in hexdigits for byte in range(256)])
_HTTP, _HTTPS = np.frombuffer(b"http", dtype=np.uint8), np.frombuffer(b"https", dtype=np.uint8)
_PORN = np.frombuffer(b"porn", dtype=np.uint8)


@native
def measure_urls(data: Bytes, start: int, end: int) -> tuple[int, bool]:
    """Return the number of characters in URLs, and whether a URL contains "porn"."""
    characters, porn = 0, False
    at = start
    while True:
        at = find_byte(data, 0x3A, at, end)
        if at + 3 >= end:
            return characters, porn
        if byte_at(data, at + 1) != 0x2F or byte_at(data, at + 2) != 0x2F:
            at += 1
            continue
        if at - 4 >= start and _is(data, at - 4, _HTTP):
            url_start = at - 4
        elif at - 5 >= start and _is(data, at - 5, _HTTPS):
            url_start = at - 5
        else:
            at += 1
            continue
        url_end = _end_of_url(data, at + 3, end)
        if url_end > at + 3:
            characters += url_end - url_start
            for i in range(at + 3, url_end - 3):
                porn |= byte_at(data, i) == 0x70 and _is(data, i, _PORN)
        at = max(url_end, at + 1)


@native
def _end_of_url(data: Bytes, at: int, end: int) -> int:
    while at < end:
        if _IN_URL[byte_at(data, at)]:
            at += 1
        elif (
            byte_at(data, at) == 0x25
            and at + 2 < end
            and _HEXADECIMAL[byte_at(data, at + 1)]
            and _HEXADECIMAL[byte_at(data, at + 2)]
        ):
            at += 3
        else:
            break
    return at


@native
def _is(data: Bytes, at: int, letters: Bytes) -> bool:
    return byte_at(data, at) == letters[0] and spells(data, at, letters) and _all_small(data, at, letters.size)


@native
def _all_small(data: Bytes, at: int, size: int) -> bool:
    for i in range(size):  # noqa: SIM110 - Numba has no all()
        if byte_at(data, at + i) < 97:
            return False
    return True
