"""Stages that remove duplicates: by file and position, or by an id column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.verdicts import Verdicts
from penstock.core.worker_info import WorkerMetadata
from penstock.dedup.arrays import load_array
from penstock.dedup.document_ids import FileTable, Ids
from penstock.dedup.stored_stage import StoredStage
from penstock.errors import InputError
from penstock.text.text_column import text_column


class RemoveDocuments(StoredStage, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drop the documents whose ids are on a list.

    ``duplicates`` is the path of the table of duplicates, which ``penstock why`` reads. If it is set, each drop is
    recorded with the similarity to the kept document, which is read from a file next to the list.
    """

    name = "remove_duplicates"
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, removed_list: str, table: FileTable, duplicates: str | None = None) -> None:
        self.removed_list = removed_list
        self.table = table
        self.duplicates = duplicates

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Reset the cached list."""
        super().setup(worker_metadata)
        self._removed: Ids | None = None
        self._known: npt.NDArray[np.float64] | None = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Drop the listed documents of a batch."""
        if self._removed is None:
            self._removed = load_array(self.removed_list)
        ids = self.table.ids(task)
        drop = is_among(ids, self._removed)
        assert task.source_rows is not None
        self.record(Verdicts(self.name, task.source_rows, ~drop, self._similarities(ids, drop, self._removed)))
        return task if not drop.any() else task.select(np.flatnonzero(~drop))

    def _similarities(self, ids: Ids, drop: npt.NDArray[np.bool_], removed: Ids) -> npt.NDArray[np.float64] | None:
        """Return the similarity of each dropped document to the document kept for it; NaN for the others."""
        if self.duplicates is None:
            return None
        if self._known is None:
            self._known = load_array(similarities_beside(self.removed_list))
        scores = np.full(len(ids), np.nan)
        scores[drop] = self._known[np.searchsorted(removed, ids[drop])]
        return scores


class RemoveByColumn(StoredStage, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drop the documents whose value in an id column is on a list."""

    name = "remove_duplicates"
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, removed_list: str, id_field: str, *, drop_id_field: bool = False) -> None:
        self.removed_list = removed_list
        self.id_field = id_field
        self.drop_id_field = drop_id_field

    def inputs(self) -> Spec:
        """Return the id column."""
        return ["data"], [self.id_field]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Reset the cached list."""
        super().setup(worker_metadata)
        self._removed: npt.NDArray[Any] | None = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Drop the listed documents of a batch."""
        if self._removed is None:
            self._removed = load_array(self.removed_list)
        ids = text_column(task, self.id_field) if task.holds_json(self.id_field) else task.column(self.id_field)
        is_kept = ~is_among(self._ids(ids, self._removed), self._removed)
        if task.source_rows is not None:
            self.record(Verdicts(self.name, task.source_rows, is_kept))
        kept = task if is_kept.all() else task.select(np.flatnonzero(is_kept))
        return self._without_ids(kept) if self.drop_id_field else kept

    def _without_ids(self, task: DocumentBatch) -> DocumentBatch:
        left = DocumentBatch(task.dataset_name, task.to_pyarrow().drop_columns([self.id_field]))
        left.source_rows = task.source_rows
        return left

    def _ids(self, column: pa.Array | pa.ChunkedArray, removed: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the ids as an array of the same type as the list: "00123" is not 123."""
        are_numbers = removed.dtype.kind in "iu"
        if are_numbers != pa.types.is_integer(column.type) and len(removed):
            raise InputError(
                f"stage '{self.name}': column '{self.id_field}' holds {column.type}, the list of ids to remove "
                f"{removed.dtype if are_numbers else 'text'}. Name the column that the ids come from, or convert one."
            )
        # A document without an id is never on the list.
        ids: npt.NDArray[Any] = pc.fill_null(column, -1 if are_numbers else "").to_numpy(zero_copy_only=False)
        return ids if are_numbers else ids.astype(np.str_)


def similarities_beside(removed_list: str) -> str:
    """Return the path of the similarities that belong to a list of removed documents."""
    return f"{removed_list.removesuffix('.npy')}.similarities.npy"


def is_among(ids: npt.NDArray[Any], sorted_ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the ids that are in a sorted array, by binary search; the array may be memory-mapped."""
    if not len(sorted_ids):
        return np.zeros(len(ids), dtype=np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    return np.asarray(sorted_ids[places] == ids)
