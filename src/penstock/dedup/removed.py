"""Documents that go: which, because of which one that stays, and how similar the two are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.dedup.arrays import load_array, save_array
from penstock.dedup.places import ID_FIELD, Ids
from penstock.storage.atomic import atomic_write

KEPT_FIELD = "kept_id"
SIMILARITY_FIELD = "similarity"
ESTIMATED_FIELD = "estimated"
FILE_FIELD = "file"
KEPT_FILE_FIELD = "kept_file"
_FIELDS = (ID_FIELD, KEPT_FIELD, SIMILARITY_FIELD, ESTIMATED_FIELD)
_RECORD = np.dtype(list(zip(_FIELDS, (np.int64, np.int64, np.float64, np.bool_), strict=True)))


class Removed(NamedTuple):
    """Documents to remove, each with its kept twin and their similarity, and whether that was only estimated."""

    documents: Ids
    kept: Ids
    similarities: npt.NDArray[np.float64]
    estimated: npt.NDArray[np.bool_]


def measured(documents: Ids, kept: Ids, similarities: npt.NDArray[np.float64]) -> Removed:
    """Return documents to remove whose similarities were all counted out."""
    return Removed(documents, kept, similarities, np.zeros(len(documents), dtype=np.bool_))


def nothing_removed() -> Removed:
    """Return no documents."""
    none = np.zeros(0, dtype=np.int64)
    return measured(none, none, np.zeros(0))


def rows_of(removed: Removed, rows: slice | Ids) -> Removed:
    """Return some of them."""
    documents, kept, similarities, estimated = removed
    return Removed(documents[rows], kept[rows], similarities[rows], estimated[rows])


def joined(parts: Sequence[Removed]) -> Removed:
    """Return several lists as one."""
    return Removed(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else nothing_removed()


def write_removed(path: str, removed: Removed) -> None:
    """Write documents in the order of their ids, for a later phase."""
    order = np.argsort(removed.documents)
    records = np.empty(len(order), dtype=_RECORD)
    for field, column in zip(_FIELDS, rows_of(removed, order), strict=True):
        records[field] = column
    save_array(path, records)


def read_removed(paths: Iterable[str]) -> Removed:
    """Read several files of removed documents as one."""
    return joined([Removed(*(records[field] for field in _FIELDS)) for records in map(load_array, paths)])


def write_table_of_removed(path: str, removed: Removed, files: tuple[pa.Array, pa.Array]) -> None:
    """Write documents in the order of their ids for people, with the files that they and their twins are in.

    The names of files are given in the order of the documents.
    """
    order = np.argsort(removed.documents)
    columns = dict(zip(_FIELDS, rows_of(removed, order), strict=True))
    columns |= {name: names.take(order) for name, names in zip((FILE_FIELD, KEPT_FILE_FIELD), files, strict=True)}
    with atomic_write(path) as stream:
        pq.write_table(pa.table(columns), stream)
