"""Fetch single records of Common Crawl by file, offset and length, without downloading whole archives."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import InputError
from penstock.storage.filesystem import filesystem_of
from penstock.text.download.common_crawl import DATA_PREFIX
from penstock.text.download.http import FIRST_WAIT_S, Refused, TryAgain, get, wait
from penstock.text.extract.http_message import parse_response
from penstock.text.extract.outcome import Damaged
from penstock.text.extract.warc import read_warc
from penstock.text.text_column import values_of


class CommonCrawlWARCReader(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Fetch the page of each row into ``binary_content_col`` with range requests, up to ``max_workers`` at a time.

    File, offset and length are those of Common Crawl's index. A row whose page cannot be fetched goes to the
    dead-letter file; with ``drop_failed=False`` it is kept with null content. If no row of a task can be fetched, the
    task fails. ``use_s3`` (or ``CC_USE_S3=1`` in the environment) reads from S3 instead (needs ``s3fs``,
    ``penstock[s3]``), with ``s3_bucket`` and ``s3_key_prefix`` (``CC_S3_BUCKET``, ``CC_S3_KEY_PREFIX``).

    >>> import tempfile
    >>> from penstock.testing import make_batch, run_stage
    >>> record = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 5\r\n\r\nHello\r\n\r\n"
    >>> with tempfile.NamedTemporaryFile() as archive:
    ...     _ = archive.write(record)
    ...     archive.flush()
    ...     row = {"warc_filename": [archive.name], "warc_record_offset": [0], "warc_record_length": [len(record)]}
    ...     [pages] = run_stage(CommonCrawlWARCReader(base_url=""), make_batch([""], **row))
    >>> pages.to_pyarrow()["binary_content"].to_pylist()
    [b'Hello']
    """

    name = "CommonCrawlWARCReader"

    def __init__(
        self,
        warc_filename_col: str = "warc_filename",
        warc_record_offset_col: str = "warc_record_offset",
        warc_record_length_col: str = "warc_record_length",
        binary_content_col: str = "binary_content",
        drop_failed: bool = True,
        max_workers: int = 16,
        timeout: int = 30,
        max_retries: int = 3,
        use_s3: bool | None = None,
        s3_bucket: str | None = None,
        s3_key_prefix: str | None = None,
        base_url: str = f"{DATA_PREFIX}/",
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        self.warc_filename_col = warc_filename_col
        self.warc_record_offset_col = warc_record_offset_col
        self.warc_record_length_col = warc_record_length_col
        self.binary_content_col = binary_content_col
        self.drop_failed = drop_failed
        self.max_workers = max_workers
        self.timeout = timeout
        self.max_retries = max_retries
        from_environment = os.environ.get("CC_USE_S3", "").lower() in ("1", "true", "yes")
        self.use_s3 = from_environment if use_s3 is None else use_s3
        self.s3_bucket = s3_bucket or os.environ.get("CC_S3_BUCKET", "commoncrawl")
        self.s3_key_prefix = os.environ.get("CC_S3_KEY_PREFIX", "") if s3_key_prefix is None else s3_key_prefix
        self.base_url = base_url
        self.storage_options = storage_options

    def inputs(self) -> Spec:
        """Return the three columns that say where a record is."""
        return ["data"], [self.warc_filename_col, self.warc_record_offset_col, self.warc_record_length_col]

    def outputs(self) -> Spec:
        """Return the column of pages."""
        return ["data"], [self.binary_content_col]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents with their pages."""
        columns = [values_of(task, name) for name in self.inputs()[1]]
        places = list(zip(*columns, strict=True))
        with ThreadPoolExecutor(max(1, self.max_workers)) as threads:
            pages = list(threads.map(self._page_or_reason, places))
        self._fail_if_unreachable(pages)
        for row, (place, page) in enumerate(zip(places, pages, strict=True)):
            if isinstance(page, Exception):
                self.reject(str(page), source=str(place[0]), position=row, excerpt=task.excerpt(row))
        contents = pa.array([page if isinstance(page, bytes) else None for page in pages], pa.large_binary())
        made = task.with_columns({self.binary_content_col: contents})
        if not self.drop_failed:
            return made
        return made.select([row for row, page in enumerate(pages) if isinstance(page, bytes)])

    def _fail_if_unreachable(self, pages: Sequence[bytes | Exception]) -> None:
        lost = [page for page in pages if isinstance(page, TryAgain)]
        if lost and len(lost) == len(pages):
            raise InputError(
                f"{self._address('')}: none of {len(pages):,} records could be fetched in {self.max_retries + 1} "
                f"attempts each; the last: {lost[-1]}. Without a network, read local archives with WarcReader."
            )

    def _page_or_reason(self, place: tuple[Any, Any, Any]) -> bytes | Exception:
        try:
            name, offset, length = str(place[0]), int(place[1]), int(place[2])
            return page_of(self._fetch(self._address(name), offset, length))
        except (Refused, TryAgain, InputError, ValueError, TypeError) as error:
            return error

    def _address(self, name: str) -> str:
        if self.use_s3:
            return f"s3://{self.s3_bucket}/{name.removeprefix(self.s3_key_prefix)}"
        return urljoin(self.base_url, name)

    def _fetch(self, address: str, offset: int, length: int) -> bytes:
        if not address.startswith(("http://", "https://")):
            filesystem, name = filesystem_of(address, self.storage_options)
            try:
                content: bytes = filesystem.cat_file(name, start=offset, end=offset + length)
            except OSError as error:
                raise Refused(f"{address}: {error}") from error
            return content
        failures = 0
        while True:
            try:
                return self._range(address, offset, length)
            except TryAgain as error:
                failures += 1
                if failures > self.max_retries:
                    raise
                wait(failures, error.wait_s, FIRST_WAIT_S)

    def _range(self, address: str, offset: int, length: int) -> bytes:
        with get(address, {"Range": f"bytes={offset}-{offset + length - 1}"}, self.timeout) as response:
            if response.status == 416:
                raise Refused(f"{address}: has no bytes {offset} to {offset + length - 1}")
            if response.status != 206:
                raise Refused(f"{address}: the server does not support range requests")
            content: bytes = response.read()
        if len(content) != length:
            raise TryAgain(f"{length:,} bytes were asked for and {len(content):,} came")
        return content


def page_of(piece: bytes) -> bytes:
    """Return the page in a piece of an archive; raises ValueError where there is none."""
    for record in read_warc(io.BytesIO(piece)):
        if isinstance(record, Damaged):
            raise ValueError(record.reason)
        if record.kind == "response":
            return parse_response(record.block).body
        if record.kind in ("conversion", "resource"):
            return record.block
    raise ValueError("the archive has no response at this offset")
