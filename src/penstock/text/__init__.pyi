"""Text: read documents or extract them from archives, change and filter them, and write the result."""

from penstock.text.add_id import AddId
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
from penstock.text.download.wikipedia import WikipediaDownloader, WikipediaDownloadExtractStage, WikipediaUrlGenerator
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
from penstock.text.filters.characters import (
    NonAlphaNumericFilter,
    NumbersFilter,
    ParenthesesFilter,
    PornographicUrlsFilter,
    SubstringFilter,
    UrlsFilter,
    WhiteSpaceFilter,
)
from penstock.text.filters.code import (
    AlphaFilter,
    GeneralCommentToCodeFilter,
    HTMLBoilerplateFilter,
    NumberOfLinesOfCodeFilter,
    PerExtensionFilter,
    PythonCommentToCodeFilter,
    TokenizerFertilityFilter,
    XMLHeaderFilter,
)
from penstock.text.filters.document_filter import DocumentFilter, ScannedFilter
from penstock.text.filters.fasttext import FastTextLangId, FastTextQualityFilter
from penstock.text.filters.filter import Filter
from penstock.text.filters.histogram import HistogramFilter
from penstock.text.filters.layout import (
    DuplicateLineCharactersFilter,
    ForbiddenTextFilter,
    LinePunctuationFilter,
    NewLinesToWordsFilter,
    SentenceCountFilter,
    ShortLinesFilter,
    StopWordsFilter,
)
from penstock.text.filters.lines import BoilerPlateStringFilter, BulletsFilter, EllipsisFilter, PunctuationFilter
from penstock.text.filters.repetition import (
    RepeatedLinesByCharFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsByCharFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
)
from penstock.text.filters.rule_sets import C4Quality, FineWebQuality, GopherQuality, GopherRepetition
from penstock.text.filters.score import Score
from penstock.text.filters.score_filter import ScoreFilter
from penstock.text.filters.token import TokenCountFilter
from penstock.text.filters.words import (
    CommonEnglishWordsFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    SymbolsToWordsFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
)
from penstock.text.io.jsonl import JsonlReader, JsonlReaderStage, JsonlWriter
from penstock.text.io.megatron import MegatronTokenizerWriter
from penstock.text.io.parquet import ParquetReader, ParquetReaderStage, ParquetWriter
from penstock.text.io.partitioning import FilePartitioningStage
from penstock.text.modifiers.boilerplate import BoilerPlateStringModifier
from penstock.text.modifiers.c4_lines import C4LineRemover
from penstock.text.modifiers.document_modifier import DocumentModifier, TextModifier
from penstock.text.modifiers.modify import Modify
from penstock.text.modifiers.removers import LineRemover, MarkdownRemover, QuotationRemover, UrlRemover
from penstock.text.modifiers.shaping import FastTextLabelModifier, NewlineNormalizer, Slicer
from penstock.text.modifiers.unicode import UnicodeReformatter
from penstock.text.splitting import DocumentJoiner, DocumentSplitter

__all__ = [
    "AddId",
    "AlphaFilter",
    "ArxivDownloadExtractStage",
    "ArxivDownloader",
    "ArxivExtractor",
    "ArxivIterator",
    "ArxivUrlGenerator",
    "BoilerPlateStringFilter",
    "BoilerPlateStringModifier",
    "BulletsFilter",
    "C4LineRemover",
    "C4Quality",
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
    "DocumentJoiner",
    "DocumentModifier",
    "DocumentSplitter",
    "DuplicateLineCharactersFilter",
    "EllipsisFilter",
    "FastTextLabelModifier",
    "FastTextLangId",
    "FastTextQualityFilter",
    "FilePartitioningStage",
    "Filter",
    "FineWebQuality",
    "ForbiddenTextFilter",
    "GeneralCommentToCodeFilter",
    "GopherQuality",
    "GopherRepetition",
    "HTMLBoilerplateFilter",
    "HTMLExtractionStage",
    "HTMLExtractorAlgorithm",
    "HistogramFilter",
    "JsonlReader",
    "JsonlReaderStage",
    "JsonlWriter",
    "JusTextExtractor",
    "LinePunctuationFilter",
    "LineRemover",
    "LongWordFilter",
    "MainCommonCrawlUrlGenerator",
    "MarkdownRemover",
    "MeanWordLengthFilter",
    "MegatronTokenizerWriter",
    "Modify",
    "NewLinesToWordsFilter",
    "NewlineNormalizer",
    "NewsCommonCrawlUrlGenerator",
    "NonAlphaNumericFilter",
    "NumberOfLinesOfCodeFilter",
    "NumbersFilter",
    "ParenthesesFilter",
    "ParquetReader",
    "ParquetReaderStage",
    "ParquetWriter",
    "PerExtensionFilter",
    "PornographicUrlsFilter",
    "PunctuationFilter",
    "PythonCommentToCodeFilter",
    "QuotationRemover",
    "RepeatedLinesByCharFilter",
    "RepeatedLinesFilter",
    "RepeatedParagraphsByCharFilter",
    "RepeatedParagraphsFilter",
    "RepeatingDuplicateNGramsFilter",
    "RepeatingTopNGramsFilter",
    "ResiliparseExtractor",
    "ScannedFilter",
    "Score",
    "ScoreFilter",
    "SentenceCountFilter",
    "ShortLinesFilter",
    "Skipped",
    "Slicer",
    "StopWordsFilter",
    "SubstringFilter",
    "SymbolsToWordsFilter",
    "TextModifier",
    "TokenCountFilter",
    "TokenizerFertilityFilter",
    "TrafilaturaExtractor",
    "URLGenerationStage",
    "URLGenerator",
    "UnicodeReformatter",
    "UrlRemover",
    "UrlsFilter",
    "WarcReader",
    "WarcReaderStage",
    "WhiteSpaceFilter",
    "WikipediaDownloadExtractStage",
    "WikipediaDownloader",
    "WikipediaExtractor",
    "WikipediaIterator",
    "WikipediaUrlGenerator",
    "WordCountFilter",
    "WordsWithoutAlphabetsFilter",
    "XMLHeaderFilter",
    "get_stop_list_dict",
]
