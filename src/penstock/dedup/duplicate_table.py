"""Write the table of duplicates, or raise if a source would lose too many documents."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import numpy as np

from penstock.core.files import FileGroupTask
from penstock.dedup.arrays import save_array
from penstock.dedup.document_ids import FileTable
from penstock.dedup.duplicate_pairs import Removed, joined, read_removed, rows_of, write_table_of_removed
from penstock.dedup.phases import LISTING, AllInOne, files_of, listed
from penstock.dedup.removal import similarities_beside
from penstock.dedup.work_folder import OUTCOME
from penstock.errors import PenstockError
from penstock.storage.atomic import atomic_write

# Sources with fewer documents are not checked: they may lose all of them.
_MIN_DOCUMENTS_FOR_ALARM = 1000
# Maximum number of rows in one file of the table of duplicates.
_ROWS_PER_PART = 5_000_000


class DuplicateAlarmError(PenstockError):
    """A source would lose a larger share of its documents than ``max_removed_share``.

    >>> issubclass(DuplicateAlarmError, PenstockError)
    True
    """


class ListExactDuplicates(AllInOne):
    """Write the ids of all exact duplicates as one sorted array."""

    name = "list_exact_duplicates"
    reusable_process = True

    def __init__(self, path: str) -> None:
        self.path = path

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Write the array."""
        files, _ = files_of(task)
        save_array(self.path, np.sort(read_removed(files).documents), durable=False)
        return FileGroupTask(task.dataset_name, [self.path])


class WriteDuplicateTable(AllInOne):
    """Write the table of duplicates and the list of documents to remove; check the loss of each source."""

    name = "write_duplicate_table"
    reusable_process = True

    def __init__(
        self,
        folder: str,
        removed_list: str,
        signed: str,
        table: FileTable,
        max_removed_share: float = 1.0,
        exact_parts: str | None = None,
    ) -> None:
        self.folder = folder
        self.removed_list = removed_list
        self.signed = signed
        self.table = table
        self.max_removed_share = max_removed_share
        # Listing of exact duplicates that were found earlier; None if the task itself names exact duplicates.
        self.exact_parts = exact_parts

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Combine the duplicates of all partitions."""
        files, _ = files_of(task)
        found = read_removed(files)
        exact = found if self.exact_parts is None else read_removed(listed(self.exact_parts)["files"])
        removed = found if self.exact_parts is None else with_exact(found, exact)
        removed = rows_of(removed, np.argsort(removed.documents))
        count = len(removed.documents)
        parts = []
        for number, start in enumerate(range(0, max(1, count), _ROWS_PER_PART)):
            part = rows_of(removed, slice(start, start + _ROWS_PER_PART))
            parts.append(f"{self.folder}/part.{number}.parquet")
            write_table_of_removed(
                parts[-1], part, (self.table.names_of(part.documents), self.table.names_of(part.kept))
            )
        # The table is written first, so that the user can inspect it when this raises. Nothing is removed then.
        documents = self._check_sources(removed)
        save_array(similarities_beside(self.removed_list), removed.similarities, durable=False)
        save_array(self.removed_list, removed.documents, durable=False)
        write_outcome(
            self.removed_list,
            {"num_documents": documents, "num_duplicates": count, "num_exact_duplicates": len(exact.documents)},
        )
        return FileGroupTask(task.dataset_name, parts)

    def _check_sources(self, removed: Removed) -> int:
        """Return the number of documents; raise if a source (folder) would lose more than ``max_removed_share``."""
        totals: dict[str, int] = {}
        losses: dict[str, int] = {}
        counts = listed(f"{self.signed}/{LISTING}")["counts"]["documents"]
        lost = dict(zip(*np.unique(self.table.file_of(removed.documents), return_counts=True), strict=True))
        for file, count in counts.items():
            source = str(PurePosixPath(self.table.names[int(file)]).parent)
            totals[source] = totals.get(source, 0) + count
            losses[source] = losses.get(source, 0) + int(lost.get(int(file), 0))
        for source, total in totals.items():
            share = losses[source] / total
            if total >= _MIN_DOCUMENTS_FOR_ALARM and share > self.max_removed_share:
                raise DuplicateAlarmError(
                    f"source '{source}' would lose {losses[source]:,} of its {total:,} documents ({share:.1%}), more "
                    f"than max_removed_share={self.max_removed_share:g} allows. Nothing was removed. Look at the "
                    f"pairs in {self.folder}; if they are right, run again with max_removed_share=1."
                )
        return sum(totals.values())


def write_outcome(removed_list: str, numbers: dict[str, int]) -> None:
    """Write the counts of a run to a file next to the list of removed documents."""
    with atomic_write(f"{removed_list.rpartition('/')[0]}/{OUTCOME}", durable=False) as stream:
        stream.write(json.dumps(numbers).encode())


def with_exact(fuzzy: Removed, exact: Removed) -> Removed:
    """Add exact duplicates. If the document kept for one is itself removed, refer to the document kept for that.

    >>> from penstock.dedup.duplicate_pairs import measured
    >>> one, two = np.array([1]), np.array([2])
    >>> with_exact(measured(two, one, np.array([0.9])), measured(np.array([5]), two, np.ones(1)))[1:3]
    (array([1, 1]), array([0.9, 0.9]))
    """
    if not len(fuzzy.documents):
        return exact
    order = np.argsort(fuzzy.documents)
    removed = fuzzy.documents[order]
    places = np.minimum(np.searchsorted(removed, exact.kept), len(removed) - 1)
    kept_is_removed = removed[places] == exact.kept
    fuzzy_rows = rows_of(fuzzy, order[places])
    columns = [np.where(kept_is_removed, new, own) for new, own in zip(fuzzy_rows[1:], exact[1:], strict=True)]
    return joined([fuzzy, Removed(exact.documents, *columns)])
