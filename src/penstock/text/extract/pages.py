"""Yield the HTML pages of a WARC file: its HTTP responses, without images, redirects and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.storage.filesystem import open_stored
from penstock.text.extract.http_message import parse_response
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentIterator
from penstock.text.extract.warc import WarcRecord, read_warc

_OK = 200


class CommonCrawlWarcIterator(DocumentIterator):
    r"""Yield the pages of a WARC file at any path that fsspec reaches.

    A record has ``url``, ``warc_id``, ``date``, ``content_type``, ``source_id`` and the page in ``content``. Images,
    redirects and error pages are skipped and counted by kind; requests and metadata are ignored.

    >>> import tempfile
    >>> record = b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: https://example.org/\r\n"
    >>> record += b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nHello\r\n\r\n"
    >>> with tempfile.NamedTemporaryFile(suffix=".warc.wet") as file:
    ...     _ = file.write(record)
    ...     file.flush()
    ...     [page] = CommonCrawlWarcIterator().iterate(file.name)
    >>> page["url"], page["content"]
    ('https://example.org/', b'Hello')
    """

    def __init__(self, storage_options: dict[str, Any] | None = None) -> None:
        self.storage_options = storage_options or {}

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped | Damaged]:
        """Yield a record per page, its body in ``content``."""
        source = str(file_path).rpartition("/")[2]
        for found in archive_documents(str(file_path), self.storage_options):
            if isinstance(found, dict):
                content = found.pop("html", None) or found.pop("text")
                yield {**found, "source_id": source, "content": content}
            else:
                yield found

    def output_columns(self) -> list[str]:
        """Return the fields of a record."""
        return ["url", "warc_id", "date", "content_type", "source_id", "content"]


def archive_documents(
    path: str, storage_options: dict[str, Any] | None = None
) -> Iterator[dict[str, Any] | Skipped | Damaged]:
    """Yield the pages of an archive with their body in ``html``, and the texts of a WET file in ``text``, as bytes."""
    with open_stored(path, storage_options) as stream:
        for record in read_warc(stream):
            document = record if isinstance(record, Damaged) else _document(record)
            if document is not None:
                yield document


def _document(record: WarcRecord) -> dict[str, Any] | Skipped | Damaged | None:
    about = {"url": record.url, "warc_id": record.record_id, "date": record.date}
    stored_as = record.header.get("content-type", "")
    if record.kind == "conversion":
        return {**about, "content_type": stored_as, "text": record.block}
    if record.kind == "resource":
        if not stored_as.startswith("text/html"):
            return Skipped(f"not a page: {stored_as.partition(';')[0] or 'no content type'}")
        return {**about, "content_type": stored_as, "html": record.block}
    if record.kind != "response":
        return None
    if not stored_as.startswith("application/http"):
        return Skipped(f"not an HTTP response: {stored_as or 'no content type'}")
    try:
        response = parse_response(record.block)
    except ValueError as error:
        return Damaged(f"WARC record at byte {record.offset}: {error}", record.offset, record.url)
    if response.status != _OK:
        return Skipped(f"HTTP status {response.status}")
    if not response.is_html:
        return Skipped(f"not a page: {response.media_type or 'no content type'}")
    return {**about, "content_type": response.header.get("content-type", ""), "html": response.body}
