"""Documents that go: which, because of which one that stays, and how similar the two are."""

from __future__ import annotations

from collections.abc import Iterable
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


class Removed(NamedTuple):
    """Documents to remove, each with its kept twin and their similarity."""

    documents: Ids
    kept: Ids
    similarities: npt.NDArray[np.float64]


def rows_of(removed: Removed, rows: slice | Ids) -> Removed:
    """Return some of them."""
    return Removed(removed.documents[rows], removed.kept[rows], removed.similarities[rows])


def write_removed(path: str, removed: Removed) -> None:
    """Write the documents in the order of their ids."""
    ordered = rows_of(removed, np.argsort(removed.documents))
    table = pa.table(dict(zip((ID_FIELD, KEPT_FIELD, SIMILARITY_FIELD), ordered, strict=True)))
    with atomic_write(path) as stream:
        pq.write_table(table, stream)


def read_removed(paths: Iterable[str]) -> Removed:
    """Read several files of removed documents as one."""
    parts = []
    for path in paths:
        with open_stored(path) as stream:
            parts.append(pq.read_table(stream, columns=[ID_FIELD, KEPT_FIELD, SIMILARITY_FIELD]))
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Removed(nothing, nothing, np.zeros(0))
    table = pa.concat_tables(parts)
    columns = (table[name].to_numpy() for name in (ID_FIELD, KEPT_FIELD, SIMILARITY_FIELD))
    return Removed(*columns)
