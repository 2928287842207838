"""Text: read documents or extract them from archives, filter them, write what is left."""

from penstock.text.download.arxiv import ArxivDownloader, ArxivDownloadExtractStage, ArxivUrlGenerator
from penstock.text.download.common_crawl import (
    CommonCrawlDownloadExtractStage,
    CommonCrawlWARCDownloader,
    MainCommonCrawlUrlGenerator,
    NewsCommonCrawlUrlGenerator,
)
from penstock.text.download.download_extract import DocumentDownloadExtractStage
from penstock.text.download.downloader import DocumentDownloader, DocumentDownloadStage
from penstock.text.download.record_reader import CommonCrawlWARCReader
from penstock.text.download.urls import URLGenerationStage, URLGenerator
from penstock.text.download.wikipedia import (
    WikipediaDownloader,
    WikipediaDownloadExtractStage,
    WikipediaUrlGenerator,
)
from penstock.text.extract.arxiv import ArxivIterator
from penstock.text.extract.extraction_stage import HTMLExtractionStage
from penstock.text.extract.html_algorithms import (
    HTMLExtractorAlgorithm,
    JusTextExtractor,
    ResiliparseExtractor,
    TrafilaturaExtractor,
)
from penstock.text.extract.html_extractor import CommonCrawlHTMLExtractor
from penstock.text.extract.iterate import DocumentIterateExtractStage
from penstock.text.extract.latex import ArxivExtractor
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.pages import CommonCrawlWarcIterator
from penstock.text.extract.records import DocumentExtractor, DocumentIterator
from penstock.text.extract.stop_words import get_stop_list_dict
from penstock.text.extract.warc_reader import WarcReader, WarcReaderStage
from penstock.text.extract.wiki_markup import WikipediaExtractor
from penstock.text.extract.wikipedia import WikipediaIterator
from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.heuristic import (
    BoilerPlateStringFilter,
    CommonEnglishWordsFilter,
    NonAlphaNumericFilter,
    RepeatedLinesFilter,
    WordCountFilter,
)
from penstock.text.filters.score_filter import ScoreFilter
from penstock.text.io.jsonl import JsonlReader, JsonlReaderStage, JsonlWriter
from penstock.text.io.parquet import ParquetReader, ParquetReaderStage, ParquetWriter
from penstock.text.io.partitioning import FilePartitioningStage

__all__ = [
    "ArxivDownloadExtractStage",
    "ArxivDownloader",
    "ArxivExtractor",
    "ArxivIterator",
    "ArxivUrlGenerator",
    "BoilerPlateStringFilter",
    "CommonCrawlDownloadExtractStage",
    "CommonCrawlHTMLExtractor",
    "CommonCrawlWARCDownloader",
    "CommonCrawlWARCReader",
    "CommonCrawlWarcIterator",
    "CommonEnglishWordsFilter",
    "Damaged",
    "DocumentDownloadExtractStage",
    "DocumentDownloadStage",
    "DocumentDownloader",
    "DocumentExtractor",
    "DocumentFilter",
    "DocumentIterateExtractStage",
    "DocumentIterator",
    "FilePartitioningStage",
    "HTMLExtractionStage",
    "HTMLExtractorAlgorithm",
    "JsonlReader",
    "JsonlReaderStage",
    "JsonlWriter",
    "JusTextExtractor",
    "MainCommonCrawlUrlGenerator",
    "NewsCommonCrawlUrlGenerator",
    "NonAlphaNumericFilter",
    "ParquetReader",
    "ParquetReaderStage",
    "ParquetWriter",
    "RepeatedLinesFilter",
    "ResiliparseExtractor",
    "ScoreFilter",
    "Skipped",
    "TrafilaturaExtractor",
    "URLGenerationStage",
    "URLGenerator",
    "WarcReader",
    "WarcReaderStage",
    "WikipediaDownloadExtractStage",
    "WikipediaDownloader",
    "WikipediaExtractor",
    "WikipediaIterator",
    "WikipediaUrlGenerator",
    "WordCountFilter",
    "get_stop_list_dict",
]
