"""File name endings of each format. Every part of Penstock that detects a format by name uses these lists."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.storage.compression import bare_name

JSONL = (".jsonl", ".ndjson", ".jsonlines", ".jl", ".json")
PARQUET = (".parquet", ".parq", ".pq")
WARC = (".warc", ".wet")


def ends_in(path: str, endings: Sequence[str]) -> bool:
    """Tell whether a file name has one of these endings, ignoring case and an ending for compression.

    >>> ends_in("crawl/A.JSONL.GZ", JSONL), ends_in("crawl/a.parquet", JSONL)
    (True, False)
    """
    return bare_name(path).lower().endswith(tuple(ending.lower() for ending in endings))
