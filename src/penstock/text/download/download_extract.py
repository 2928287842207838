"""Download a whole data set with one stage: list its URLs, download them, make documents of the files."""

from __future__ import annotations

from typing import Any

from penstock.core.composite import CompositeStage
from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask
from penstock.text.download.downloader import DocumentDownloader, DocumentDownloadStage
from penstock.text.download.urls import URLGenerationStage, URLGenerator
from penstock.text.extract.iterate import DocumentIterateExtractStage
from penstock.text.extract.records import DocumentExtractor, DocumentIterator


class DocumentDownloadExtractStage(CompositeStage[EmptyTask, DocumentBatch]):
    """List the URLs of a data set, download the files and make documents of their records.

    It expands into three stages, each with its own number of workers.

    >>> from penstock.text import ArxivDownloader, ArxivExtractor, ArxivIterator, ArxivUrlGenerator
    >>> stage = DocumentDownloadExtractStage(
    ...     ArxivUrlGenerator(), ArxivDownloader("downloads/"), ArxivIterator(), ArxivExtractor(), url_limit=2
    ... )
    >>> [part.name for part in stage.decompose()][:2]
    ['url_generation_arxivurlgenerator', 'download_arxivdownloader']
    """

    def __init__(
        self,
        url_generator: URLGenerator,
        downloader: DocumentDownloader,
        iterator: DocumentIterator,
        extractor: DocumentExtractor | None = None,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        extractor_max_calls_per_worker: int | None = None,
    ) -> None:
        self.name = (
            f"document_download_extract_{type(url_generator).__name__.lower()}_{type(downloader).__name__.lower()}"
        )
        self._stages: list[ProcessingStage[Any, Any]] = [
            URLGenerationStage(url_generator, url_limit),
            DocumentDownloadStage(downloader),
            DocumentIterateExtractStage(
                iterator, extractor, record_limit, add_filename_column, extractor_max_calls_per_worker
            ),
        ]

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """Return the three stages."""
        return self._stages
