"""Parse an HTTP response stored by a crawler: status, header, and the decoded body."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa

# The maximum size of a decompressed body: a few bytes can decompress to a terabyte of zeros.
MAX_BODY_BYTES = 64 << 20
_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml", "application/xhtml"))
_HTML_SIGNS = (b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<meta", b"<div", b"<p>", b"<table", b"<h1")


@dataclass(frozen=True)
class HttpMessage:
    """An HTTP response; header names are in lower case."""

    status: int
    header: dict[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The media type that the server declares, without parameters: ``text/html``."""
        return self.header.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """True if the body is an HTML page; without a declared type the first bytes decide."""
        if self.media_type:
            return self.media_type in _HTML_TYPES
        return self.body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML_SIGNS)


def parse_response(block: bytes) -> HttpMessage:
    r"""Parse a stored response; raise ValueError if it is not one, or if its body does not decompress.

    >>> parse_response(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nHi\r\n1\r\n!\r\n0\r\n\r\n").body
    b'Hi!'
    """
    if not block.startswith(b"HTTP/"):
        raise ValueError(f"not an HTTP response: it begins with {block[:20]!r}")
    head, blank, body = block.partition(b"\r\n\r\n")
    if not blank:
        head, _, body = block.partition(b"\n\n")
    status_line, *lines = head.decode("latin-1").splitlines()
    header: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            header[name.strip().lower()] = value.strip()
    words = status_line.split()
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if "chunked" in header.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    for coding in reversed(header.get("content-encoding", "").lower().split(",")):
        body = _decompress(body, coding.strip())
    return HttpMessage(status, header, body)


def _join_chunks(body: bytes) -> bytes:
    """Join the chunks. If a crawler joined them already and kept the header, return the body unchanged."""
    chunks: list[bytes] = []
    position = 0
    while True:
        line_end = body.find(b"\r\n", position)
        size_text = body[position:line_end].partition(b";")[0].strip() if line_end >= 0 else b""
        try:
            size = int(size_text, 16)
        except ValueError:
            return b"".join(chunks) if chunks else body
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[line_end + 2 : line_end + 2 + size])
        position = line_end + 2 + size + 2


def _decompress(body: bytes, coding: str) -> bytes:
    """Undo one content coding; a body that is not compressed in spite of the header is returned unchanged."""
    if coding in ("gzip", "x-gzip"):
        return _inflate(body, 31) if body.startswith(b"\x1f\x8b") else body
    if coding == "deflate":
        # Some servers send a zlib stream, as the standard says, and some a raw deflate stream.
        return _inflate(body, 15 if body[:1] == b"\x78" else -15)
    if coding in ("br", "zstd"):
        stream = pa.CompressedInputStream(pa.BufferReader(body), "brotli" if coding == "br" else "zstd")
        try:
            return _bounded(stream.read(MAX_BODY_BYTES + 1))
        except OSError as error:
            if coding == "zstd" or not body.lstrip()[:1] == b"<":
                raise ValueError(f"its {coding} body does not decompress: {error}") from error
            return body
    return body


def _inflate(body: bytes, window: int) -> bytes:
    decoder = zlib.decompressobj(window)
    try:
        return _bounded(decoder.decompress(body, MAX_BODY_BYTES + 1))
    except zlib.error as error:
        if body.lstrip()[:1] == b"<":
            return body
        raise ValueError(f"its compressed body does not decompress: {error}") from error


def _bounded(body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise ValueError(f"its body decompresses to more than {MAX_BODY_BYTES:,} bytes")
    return body
