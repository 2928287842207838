"""arXiv: list and download the archives of LaTeX sources, and make one document per paper."""

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
# The requester pays for the download, so credentials are needed.
_OPTIONS = {"requester_pays": True}


class ArxivUrlGenerator(URLGenerator):
    """List the archives in arXiv's S3 bucket, sorted by name.

    ``source`` may be a copy of the bucket at any path that fsspec reaches. Reading the bucket itself needs ``s3fs``
    (``penstock[s3]``) and AWS credentials: the requester pays for the download.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as copy:
    ...     pathlib.Path(copy, "arXiv_src_2401_001.tar").touch()
    ...     [url] = ArxivUrlGenerator(copy).generate_urls()
    >>> url.rpartition("/")[2]
    'arXiv_src_2401_001.tar'
    """

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
    """Download archives from arXiv's S3 bucket, two at a time per machine.

    A file that is in ``download_dir`` already is not downloaded again.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "arXiv_src_2401_001.tar").write_bytes(b"downloaded before")
    ...     path = ArxivDownloader(folder).download("s3://arxiv/src/arXiv_src_2401_001.tar")
    >>> path.rpartition("/")[2]
    'arXiv_src_2401_001.tar'
    """

    def __init__(self, download_dir: str, verbose: bool = False, storage_options: dict[str, Any] | None = None) -> None:
        super().__init__(download_dir, verbose, _OPTIONS if storage_options is None else storage_options)

    def _get_output_filename(self, url: str) -> str:
        match = _ARCHIVE.fullmatch(url)
        return match[1] if match else super()._get_output_filename(url)

    def num_workers_per_node(self) -> int:
        """Return the number of concurrent downloads per machine."""
        return 2


class ArxivDownloadExtractStage(DocumentDownloadExtractStage):
    """Download arXiv's LaTeX sources and make one document per paper.

    ``source`` may be a copy of the bucket at any path that fsspec reaches. A document has ``id``, ``source_id`` (the
    archive), ``text`` and the file name.

    >>> [stage.name for stage in ArxivDownloadExtractStage("downloads/", url_limit=2).decompose()][:2]
    ['url_generation_arxivurlgenerator', 'download_arxivdownloader']
    """

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
