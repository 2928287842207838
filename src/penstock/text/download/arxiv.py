"""arXiv: the archives of LaTeX sources in its bucket, and the stage that makes documents of the papers."""

from __future__ import annotations

import re
from typing import Any

from penstock.storage.filesystem import filesystem_of, reading
from penstock.text.download.download_extract import DocumentDownloadExtractStage
from penstock.text.download.downloader import DocumentDownloader
from penstock.text.download.urls import URLGenerator
from penstock.text.extract.arxiv import ArxivIterator
from penstock.text.extract.latex import ArxivExtractor

_BUCKET = "s3://arxiv/src"
# arXiv numbers its archives: the name is the same wherever a copy is.
_ARCHIVE = re.compile(r"[^?#]*/(arXiv_src_\d{4}_\d{3}\.tar)", re.ASCII)
# Whoever downloads pays for it: credentials are needed.
_OPTIONS = {"requester_pays": True}


class ArxivUrlGenerator(URLGenerator):
    """The archives in arXiv's bucket (``pip install s3fs``), in order; ``source`` may be a copy of it anywhere."""

    def __init__(self, source: str = _BUCKET, storage_options: dict[str, Any] | None = None) -> None:
        self.source = source.rstrip("/")
        self.storage_options = _OPTIONS if storage_options is None and source == _BUCKET else storage_options

    def generate_urls(self) -> list[str]:
        """Return the URLs of the archives."""
        filesystem, name = filesystem_of(self.source, self.storage_options)
        with reading(self.source):
            names = (str(entry).rpartition("/")[2] for entry in filesystem.ls(name, detail=False))
            return [f"{self.source}/{entry}" for entry in sorted(names) if entry.endswith(".tar")]


class ArxivDownloader(DocumentDownloader):
    """Downloads archives from arXiv's bucket, two at a time."""

    def __init__(self, download_dir: str, verbose: bool = False, storage_options: dict[str, Any] | None = None) -> None:
        super().__init__(download_dir, verbose, _OPTIONS if storage_options is None else storage_options)

    def _get_output_filename(self, url: str) -> str:
        match = _ARCHIVE.fullmatch(url)
        return match[1] if match else super()._get_output_filename(url)

    def num_workers_per_node(self) -> int:
        """Return how many may download at a time."""
        return 2


class ArxivDownloadExtractStage(DocumentDownloadExtractStage):
    """Downloads arXiv's sources and makes a document of each paper; ``source`` may be a copy of the bucket anywhere."""

    def __init__(
        self,
        download_dir: str = "./arxiv_downloads",
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        log_frequency: int = 1000,
        verbose: bool = False,
        source: str = _BUCKET,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            ArxivUrlGenerator(source, storage_options),
            ArxivDownloader(download_dir, verbose, storage_options if source == _BUCKET else storage_options or {}),
            ArxivIterator(log_frequency),
            ArxivExtractor(),
            url_limit,
            record_limit,
            add_filename_column,
        )
        self.name = "arxiv_pipeline"
