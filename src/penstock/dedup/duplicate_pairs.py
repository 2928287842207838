"""Documents to remove: each with the document that is kept for it, and the similarity of the two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.dedup.arrays import load_array, save_array
from penstock.dedup.document_ids import ID_FIELD, Ids
from penstock.storage.atomic import atomic_write

KEPT_FIELD = "kept_id"
SIMILARITY_FIELD = "similarity"
ESTIMATED_FIELD = "estimated"
FILE_FIELD = "file"
KEPT_FILE_FIELD = "kept_file"
_FIELDS = (ID_FIELD, KEPT_FIELD, SIMILARITY_FIELD, ESTIMATED_FIELD)
_RECORD = np.dtype(list(zip(_FIELDS, (np.int64, np.int64, np.float64, np.bool_), strict=True)))


class Removed(NamedTuple):
    """Documents to remove: id, id of the kept document, similarity, and whether the similarity is an estimate."""

    documents: Ids
    kept: Ids
    similarities: npt.NDArray[np.float64]
    estimated: npt.NDArray[np.bool_]


def measured(documents: Ids, kept: Ids, similarities: npt.NDArray[np.float64]) -> Removed:
    """Return documents to remove whose similarities are exact, not estimated."""
    return Removed(documents, kept, similarities, np.zeros(len(documents), dtype=np.bool_))


def nothing_removed() -> Removed:
    """Return an empty list of documents to remove."""
    none = np.zeros(0, dtype=np.int64)
    return measured(none, none, np.zeros(0))


def rows_of(removed: Removed, rows: slice | Ids) -> Removed:
    """Select some rows."""
    documents, kept, similarities, estimated = removed
    return Removed(documents[rows], kept[rows], similarities[rows], estimated[rows])


def joined(parts: Sequence[Removed]) -> Removed:
    """Concatenate several lists."""
    return Removed(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else nothing_removed()


def write_removed(path: str, removed: Removed) -> None:
    """Write documents to remove as an array sorted by id, for a later phase."""
    order = np.argsort(removed.documents)
    records = np.empty(len(order), dtype=_RECORD)
    for field, column in zip(_FIELDS, rows_of(removed, order), strict=True):
        records[field] = column
    save_array(path, records)


def read_removed(paths: Iterable[str]) -> Removed:
    """Read and concatenate several files of ``write_removed``."""
    return joined([Removed(*(records[field] for field in _FIELDS)) for records in map(load_array, paths)])


def write_table_of_removed(path: str, removed: Removed, files: tuple[pa.Array, pa.Array]) -> None:
    """Write the table of duplicates for users: sorted by id, with the file names of both documents.

    ``files`` are the file names of the removed and of the kept documents, in the order of ``removed``.
    """
    order = np.argsort(removed.documents)
    columns = dict(zip(_FIELDS, rows_of(removed, order), strict=True))
    columns |= {name: names.take(order) for name, names in zip((FILE_FIELD, KEPT_FILE_FIELD), files, strict=True)}
    with atomic_write(path) as stream:
        pq.write_table(pa.table(columns), stream)
