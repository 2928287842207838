"""Text: read documents, filter them, write what is left."""

from penstock.text.filters.c4_lines import C4Lines
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
from penstock.text.filters.document_filter import DocumentFilter
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
from penstock.text.filters.words import (
    CommonEnglishWordsFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    SymbolsToWordsFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
)
from penstock.text.io.jsonl import JsonlReader, JsonlReaderStage, JsonlWriter
from penstock.text.io.parquet import ParquetReader, ParquetReaderStage, ParquetWriter
from penstock.text.io.partitioning import FilePartitioningStage

__all__ = [
    "AlphaFilter",
    "BoilerPlateStringFilter",
    "BulletsFilter",
    "C4Lines",
    "C4Quality",
    "CommonEnglishWordsFilter",
    "DocumentFilter",
    "DuplicateLineCharactersFilter",
    "EllipsisFilter",
    "FilePartitioningStage",
    "Filter",
    "FineWebQuality",
    "ForbiddenTextFilter",
    "GeneralCommentToCodeFilter",
    "GopherQuality",
    "GopherRepetition",
    "HTMLBoilerplateFilter",
    "HistogramFilter",
    "JsonlReader",
    "JsonlReaderStage",
    "JsonlWriter",
    "LinePunctuationFilter",
    "LongWordFilter",
    "MeanWordLengthFilter",
    "NewLinesToWordsFilter",
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
    "RepeatedLinesByCharFilter",
    "RepeatedLinesFilter",
    "RepeatedParagraphsByCharFilter",
    "RepeatedParagraphsFilter",
    "RepeatingDuplicateNGramsFilter",
    "RepeatingTopNGramsFilter",
    "Score",
    "ScoreFilter",
    "SentenceCountFilter",
    "ShortLinesFilter",
    "StopWordsFilter",
    "SubstringFilter",
    "SymbolsToWordsFilter",
    "TokenizerFertilityFilter",
    "UrlsFilter",
    "WhiteSpaceFilter",
    "WordCountFilter",
    "WordsWithoutAlphabetsFilter",
    "XMLHeaderFilter",
]
