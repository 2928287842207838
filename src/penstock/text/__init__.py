"""Text: read documents, change and filter them, write what is left."""

from penstock.text.add_id import AddId
from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.fasttext import FastTextLangId, FastTextQualityFilter
from penstock.text.filters.heuristic import (
    BoilerPlateStringFilter,
    CommonEnglishWordsFilter,
    NonAlphaNumericFilter,
    RepeatedLinesFilter,
    WordCountFilter,
)
from penstock.text.filters.score_filter import ScoreFilter
from penstock.text.filters.token import TokenCountFilter
from penstock.text.io.jsonl import JsonlReader, JsonlReaderStage, JsonlWriter
from penstock.text.io.megatron import MegatronTokenizerWriter
from penstock.text.io.parquet import ParquetReader, ParquetReaderStage, ParquetWriter
from penstock.text.io.partitioning import FilePartitioningStage
from penstock.text.modifiers.boilerplate import BoilerPlateStringModifier
from penstock.text.modifiers.document_modifier import DocumentModifier, TextModifier
from penstock.text.modifiers.modify import Modify
from penstock.text.modifiers.removers import LineRemover, MarkdownRemover, QuotationRemover, UrlRemover
from penstock.text.modifiers.shaping import FastTextLabelModifier, NewlineNormalizer, Slicer
from penstock.text.modifiers.unicode import UnicodeReformatter
from penstock.text.splitting import DocumentJoiner, DocumentSplitter

__all__ = [
    "AddId",
    "BoilerPlateStringFilter",
    "BoilerPlateStringModifier",
    "CommonEnglishWordsFilter",
    "DocumentFilter",
    "DocumentJoiner",
    "DocumentModifier",
    "DocumentSplitter",
    "FastTextLabelModifier",
    "FastTextLangId",
    "FastTextQualityFilter",
    "FilePartitioningStage",
    "JsonlReader",
    "JsonlReaderStage",
    "JsonlWriter",
    "LineRemover",
    "MarkdownRemover",
    "MegatronTokenizerWriter",
    "Modify",
    "NewlineNormalizer",
    "NonAlphaNumericFilter",
    "ParquetReader",
    "ParquetReaderStage",
    "ParquetWriter",
    "QuotationRemover",
    "RepeatedLinesFilter",
    "ScoreFilter",
    "Slicer",
    "TextModifier",
    "TokenCountFilter",
    "UnicodeReformatter",
    "UrlRemover",
    "WordCountFilter",
]
