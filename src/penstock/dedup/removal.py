"""Removing documents that were found to be duplicates, whatever they are read together with this time."""

from __future__ import annotations

import numpy as np

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage
from penstock.core.verdicts import Verdicts
from penstock.core.worker_info import WorkerMetadata
from penstock.dedup.arrays import load_array
from penstock.dedup.places import FileTable, Ids


class RemoveDocuments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drops the documents of a list; everything else goes through untouched."""

    name = "remove_duplicates"

    def __init__(self, removed_list: str, table: FileTable) -> None:
        self.removed_list = removed_list
        self.table = table

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Forget what an earlier run looked at."""
        self._removed: Ids | None = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Drop what is on the list."""
        if self._removed is None:
            self._removed = load_array(self.removed_list)
        stays = ~is_among(self.table.ids(task), self._removed)
        assert task.source_rows is not None
        self.record(Verdicts(self.name, task.source_rows, stays))
        return task if stays.all() else task.select(np.flatnonzero(stays))


def is_among(ids: Ids, sorted_ids: Ids) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which ids are in a sorted list, looking only at the parts of it that matter."""
    if not len(sorted_ids):
        return np.zeros(len(ids), dtype=np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    return np.asarray(sorted_ids[places] == ids)
