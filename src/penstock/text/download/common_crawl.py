"""Common Crawl: list the archives of a period, download them, and make documents of their pages."""

from __future__ import annotations

import gzip
import json
import re
from datetime import date, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

from penstock.errors import InputError
from penstock.text.download.download_extract import DocumentDownloadExtractStage
from penstock.text.download.downloader import DocumentDownloader
from penstock.text.download.file_names import file_name_of
from penstock.text.download.http import get_bytes
from penstock.text.download.urls import URLGenerator
from penstock.text.extract.html_algorithms import HTMLExtractorAlgorithm
from penstock.text.extract.html_extractor import CommonCrawlHTMLExtractor
from penstock.text.extract.pages import CommonCrawlWarcIterator

DATA_PREFIX = "https://data.commoncrawl.org"
# The first snapshots with today's layout.
_FIRST_MAIN = date(2013, 1, 1)
_FIRST_NEWS = date(2016, 8, 1)
# The layout of the archives. Each part has its own form, so that a name with dashes for slashes can be read back.
_LAYOUT = re.compile(
    r"/crawl-data/(CC-MAIN-\d{4}-\d{2}/segments/\d+\.\d+/(warc|wet|wat)|CC-NEWS/\d{4}/\d{2})"
    r"/CC-[A-Za-z0-9-]+\.warc(\.wet|\.wat)?\.gz",
    re.ASCII,
)
_MAIN_ID = re.compile(r"CC-MAIN-(\d{4})-(\d{2})")


class _CommonCrawlUrlGenerator(URLGenerator):
    """List the archives named in the ``warc.paths.gz`` of each snapshot of a period."""

    def __init__(
        self,
        start_snapshot_str: str,
        end_snapshot_str: str,
        data_prefix: str = DATA_PREFIX,
        limit: int | None = None,
    ) -> None:
        self.start_snapshot_str, self.end_snapshot_str = start_snapshot_str, end_snapshot_str
        self.data_prefix = data_prefix
        self.limit = limit
        self._start = self._first_day(start_snapshot_str)
        self._end = self._last_day(end_snapshot_str)
        if self._start > self._end:
            raise ValueError(f"start_snapshot={start_snapshot_str!r} is after end_snapshot={end_snapshot_str!r}.")

    def _first_day(self, snapshot: str) -> date:
        raise NotImplementedError

    def _last_day(self, snapshot: str) -> date:
        return self._first_day(snapshot)

    def generate_path_urls(self) -> list[str]:
        """Return the URLs of the lists, the latest snapshot first."""
        raise NotImplementedError

    def generate_urls(self) -> list[str]:
        """Return the URLs of the archives."""
        urls: list[str] = []
        for path_url in self.generate_path_urls():
            try:
                lines = gzip.decompress(get_bytes(path_url)).decode("utf-8").split()
            except (OSError, EOFError, UnicodeDecodeError) as error:
                raise InputError(f"{path_url}: expected a compressed list of paths: {error}") from error
            urls += [urljoin(f"{self.data_prefix}/", line) for line in lines]
            if self.limit is not None and len(urls) >= self.limit:
                return urls[: self.limit]
        return urls


class MainCommonCrawlUrlGenerator(_CommonCrawlUrlGenerator):
    """List the archives of the main crawl, by year and week: ``2024-10``.

    Listing needs a network: the snapshots are read from ``index_prefix``, the archives of each from ``data_prefix``.

    >>> generator = MainCommonCrawlUrlGenerator("2024-10", "2024-18", limit=100)
    >>> generator.start_snapshot_str, generator.limit
    ('2024-10', 100)
    >>> len(generator.generate_urls())  # doctest: +SKIP
    100
    """

    def __init__(
        self,
        start_snapshot_str: str,
        end_snapshot_str: str,
        data_prefix: str = DATA_PREFIX,
        limit: int | None = None,
        index_prefix: str = "https://index.commoncrawl.org",
    ) -> None:
        super().__init__(start_snapshot_str, end_snapshot_str, data_prefix, limit)
        self.index_prefix = index_prefix

    def _first_day(self, snapshot: str) -> date:
        try:
            year, week = map(int, snapshot.split("-"))
            return date.fromisocalendar(year, week, 1)
        except ValueError as error:
            raise ValueError(f"snapshot {snapshot!r}: expected year and week, such as '2020-50' ({error}).") from error

    def generate_path_urls(self) -> list[str]:
        """Return the URLs of the lists, the latest snapshot first, as the index has them."""
        index_url = urljoin(f"{self.index_prefix}/", "collinfo.json")
        try:
            known = [str(entry["id"]) for entry in json.loads(get_bytes(index_url))]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{index_url}: expected the list of crawls as JSON: {error}") from error
        start = max(self._start, _FIRST_MAIN)
        found = []
        for match in filter(None, map(_MAIN_ID.fullmatch, known)):
            if start <= date.fromisocalendar(int(match[1]), int(match[2]), 1) <= self._end:
                found.append(urljoin(f"{self.data_prefix}/", f"crawl-data/{match[0]}/warc.paths.gz"))
        if not found:
            raise InputError(
                f"Common Crawl has no snapshot from {self.start_snapshot_str} to {self.end_snapshot_str}; the latest "
                f"is {known[0] if known else 'unknown'} (see {index_url})."
            )
        return found


class NewsCommonCrawlUrlGenerator(_CommonCrawlUrlGenerator):
    """List the archives of the news crawl, by year and month: ``2024-03``.

    >>> for url in NewsCommonCrawlUrlGenerator("2024-02", "2024-03").generate_path_urls():
    ...     print(url)
    https://data.commoncrawl.org/crawl-data/CC-NEWS/2024/03/warc.paths.gz
    https://data.commoncrawl.org/crawl-data/CC-NEWS/2024/02/warc.paths.gz
    """

    def _first_day(self, snapshot: str) -> date:
        try:
            year, month = map(int, snapshot.split("-"))
            return date(year, month, 1)
        except ValueError as error:
            raise ValueError(f"snapshot {snapshot!r}: expected year and month, such as '2020-08' ({error}).") from error

    def _last_day(self, snapshot: str) -> date:
        first = self._first_day(snapshot)
        return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)

    def generate_path_urls(self) -> list[str]:
        """Return the URLs of the lists, the latest month first."""
        months = []
        month = max(self._start, _FIRST_NEWS)
        last = min(self._end, date.today())
        while month <= last:
            months.append(urljoin(f"{self.data_prefix}/", f"crawl-data/CC-NEWS/{month:%Y/%m}/warc.paths.gz"))
            month = (month + timedelta(days=31)).replace(day=1)
        return months[::-1]


class CommonCrawlWARCDownloader(DocumentDownloader):
    """Download archives of Common Crawl, two at a time per machine.

    Downloads use HTTPS, or S3 with ``use_aws_to_download`` (needs ``s3fs``, ``penstock[s3]``). A file that is in
    ``download_dir`` already is not downloaded again.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "crawl-data-CC-NEWS-2024-03-CC-NEWS-1.warc.gz").write_bytes(b"downloaded before")
    ...     url = "https://data.commoncrawl.org/crawl-data/CC-NEWS/2024/03/CC-NEWS-1.warc.gz"
    ...     path = CommonCrawlWARCDownloader(folder).download(url)
    >>> path.rpartition("/")[2]
    'crawl-data-CC-NEWS-2024-03-CC-NEWS-1.warc.gz'
    """

    def __init__(self, download_dir: str, use_aws_to_download: bool = False, verbose: bool = False) -> None:
        super().__init__(download_dir, verbose)
        self.use_aws_to_download = use_aws_to_download

    def _get_output_filename(self, url: str) -> str:
        return file_name_of(url, _LAYOUT)

    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        if self.use_aws_to_download:
            url = f"s3://commoncrawl{urlsplit(url).path}"
        return super()._download_to_path(url, path)

    def num_workers_per_node(self) -> int:
        """Return 2: the servers refuse clients that open more connections."""
        return 2


class CommonCrawlDownloadExtractStage(DocumentDownloadExtractStage):
    """Download the archives of a period of Common Crawl and make documents of their pages.

    ``crawl_type`` is ``main`` (snapshots by week: ``2024-10``) or ``news`` (by month). ``html_extraction`` is
    ``justext`` (the default), ``resiliparse``, ``trafilatura`` or an ``HTMLExtractorAlgorithm``. A document has
    ``url``, ``warc_id``, ``source_id``, ``language``, ``text`` and the file name. Needs ``penstock[extract]``.

    >>> stage = CommonCrawlDownloadExtractStage("2024-10", "2024-18", "downloads/", html_extraction="resiliparse")
    >>> stage.name, len(stage.decompose())
    ('common_crawl_main_pipeline', 3)
    """

    def __init__(
        self,
        start_snapshot: str,
        end_snapshot: str,
        download_dir: str,
        crawl_type: str = "main",
        html_extraction: HTMLExtractorAlgorithm | str | None = None,
        html_extraction_kwargs: dict[str, Any] | None = None,
        stop_lists: dict[str, frozenset[str]] | None = None,
        use_aws_to_download: bool = False,
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        extractor_max_calls_per_worker: int | None = None,
    ) -> None:
        generators = {"main": MainCommonCrawlUrlGenerator, "news": NewsCommonCrawlUrlGenerator}
        if crawl_type not in generators:
            raise ValueError(f"crawl_type={crawl_type!r}; it is one of {', '.join(generators)}.")
        super().__init__(
            generators[crawl_type](start_snapshot, end_snapshot, limit=url_limit),
            CommonCrawlWARCDownloader(download_dir, use_aws_to_download, verbose),
            CommonCrawlWarcIterator(),
            CommonCrawlHTMLExtractor(html_extraction, html_extraction_kwargs, stop_lists),
            url_limit,
            record_limit,
            add_filename_column,
            extractor_max_calls_per_worker,
        )
        self.name = f"common_crawl_{crawl_type}_pipeline"
