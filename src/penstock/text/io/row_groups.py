"""Where a Parquet file may be cut: between its row groups."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.core.files import SizedFile
from penstock.storage.filesystem import open_stored


def with_row_groups(file: SizedFile, storage_options: dict[str, Any] | None = None) -> SizedFile:
    """Return the file with the stored sizes of its row groups; unread if it is damaged, as the reader will say."""
    import pyarrow.parquet as pq

    try:
        with open_stored(file.path, storage_options) as stream:
            metadata = pq.ParquetFile(stream).metadata
    except pa.ArrowInvalid:
        return file
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    sizes = [sum(group.column(at).total_compressed_size for at in range(group.num_columns)) for group in groups]
    return file._replace(pieces=tuple(sizes))
