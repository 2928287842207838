"""Where a Parquet file may be cut: between its row groups, by their size once they are read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.core.files import SizedFile
from penstock.storage.filesystem import open_stored

# Text hardly ever becomes so many times larger. A file that is smaller than this share of a block is not looked into.
_LARGEST_RATIO = 64
# Looking into a file is two requests to a store; so many are on their way at the same time.
_THREADS = 16


def with_row_groups(
    files: Sequence[SizedFile], blocksize: int, storage_options: dict[str, Any] | None = None
) -> list[SizedFile]:
    """Return the files, those that may hold more than a block with the decompressed sizes of their row groups."""
    large = [number for number, file in enumerate(files) if file.size * _LARGEST_RATIO > blocksize]
    looked_into = list(files)
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(partial(_with_row_groups, storage_options), [files[number] for number in large])
        for number, file in zip(large, found, strict=True):
            looked_into[number] = file
    return looked_into


def _with_row_groups(storage_options: dict[str, Any] | None, file: SizedFile) -> SizedFile:
    """Look into one file; a damaged one is left as it is, as its reader will say."""
    import pyarrow.parquet as pq

    try:
        with open_stored(file.path, storage_options) as stream:
            metadata = pq.ParquetFile(stream).metadata
    except pa.ArrowInvalid:
        return file
    groups = range(metadata.num_row_groups)
    return file._replace(pieces=tuple(metadata.row_group(number).total_byte_size for number in groups))
