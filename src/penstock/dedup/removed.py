"""Documents that go: which, because of which one that stays, and how similar the two are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.dedup.places import ID_FIELD, Ids
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_stored

KEPT_FIELD = "kept_id"
SIMILARITY_FIELD = "similarity"
ESTIMATED_FIELD = "estimated"
FILE_FIELD = "file"
KEPT_FILE_FIELD = "kept_file"
_FIELDS = (ID_FIELD, KEPT_FIELD, SIMILARITY_FIELD, ESTIMATED_FIELD)


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


def write_removed(path: str, removed: Removed, files: tuple[pa.Array, pa.Array] | None = None) -> None:
    """Write documents in the order of their ids, for people also the files that they and their twins are in.

    The names of files are given in the order of the documents.
    """
    order = np.argsort(removed.documents)
    columns = dict(zip(_FIELDS, rows_of(removed, order), strict=True))
    if files is not None:
        columns |= {name: names.take(order) for name, names in zip((FILE_FIELD, KEPT_FILE_FIELD), files, strict=True)}
    with atomic_write(path) as stream:
        pq.write_table(pa.table(columns), stream)


def read_removed(paths: Iterable[str]) -> Removed:
    """Read several files of removed documents as one."""
    parts = []
    for path in paths:
        with open_stored(path) as stream:
            parts.append(pq.ParquetFile(stream).read(columns=list(_FIELDS)))
    if not parts:
        return nothing_removed()
    table = pa.concat_tables(parts)
    return Removed(*(table[name].to_numpy() for name in _FIELDS))
