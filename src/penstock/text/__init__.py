"""Text: read documents, filter them, write what is left."""

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
    "BoilerPlateStringFilter",
    "CommonEnglishWordsFilter",
    "DocumentFilter",
    "FilePartitioningStage",
    "JsonlReader",
    "JsonlReaderStage",
    "JsonlWriter",
    "NonAlphaNumericFilter",
    "ParquetReader",
    "ParquetReaderStage",
    "ParquetWriter",
    "RepeatedLinesFilter",
    "ScoreFilter",
    "WordCountFilter",
]
