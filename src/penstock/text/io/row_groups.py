"""Find where a Parquet file can be split: between row groups, by their decompressed size."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.core.files import SizedFile
from penstock.storage.filesystem import open_stored

# Text rarely decompresses to more than this many times its size. Smaller files are not opened.
_MAX_COMPRESSION_RATIO = 64
# The number of files opened at the same time: each takes two requests to an object store.
_THREADS = 16


def with_row_groups(
    files: Sequence[SizedFile], blocksize: int, storage_options: dict[str, Any] | None = None
) -> list[SizedFile]:
    """Return the files; those that may exceed a block, with the decompressed sizes of their row groups."""
    large = [number for number, file in enumerate(files) if file.size * _MAX_COMPRESSION_RATIO > blocksize]
    looked_into = list(files)
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(partial(_with_row_groups, storage_options), [files[number] for number in large])
        for number, file in zip(large, found, strict=True):
            looked_into[number] = file
    return looked_into


def _with_row_groups(storage_options: dict[str, Any] | None, file: SizedFile) -> SizedFile:
    """Read the metadata of one file; a damaged file is returned unchanged, and its reader reports it."""
    import pyarrow.parquet as pq

    try:
        with open_stored(file.path, storage_options) as stream:
            metadata = pq.ParquetFile(stream).metadata
    except pa.ArrowInvalid:
        return file
    groups = range(metadata.num_row_groups)
    return file._replace(pieces=tuple(metadata.row_group(number).total_byte_size for number in groups))
