"""Find lines and paragraphs that occur in many documents, and cut them from all of these documents except one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.verdicts import Verdicts
from penstock.core.worker_info import WorkerMetadata
from penstock.dedup.arrays import load_array, save_array
from penstock.dedup.document_ids import ID_FIELD, FileTable, Ids
from penstock.dedup.duplicate_pairs import FILE_FIELD, KEPT_FIELD
from penstock.dedup.exact import EXACT_RECORD, exact_records, partition_of
from penstock.dedup.keep_policy import KeepPolicy
from penstock.dedup.passages import SEPARATORS, Passages, passages_of
from penstock.dedup.phases import LISTING, exists, file_name, files_of, listed
from penstock.dedup.shuffle import Records, read_records, write_records
from penstock.dedup.stored_stage import StoredStage
from penstock.dedup.texts import texts_of, with_texts
from penstock.storage.atomic import atomic_write

# A passage that occurs in too many documents: its hash, the number of documents, and the document that keeps it.
COMMON_RECORD = np.dtype([("high", np.uint64), ("low", np.uint64), ("documents", np.int64), ("kept", np.int64)])
_MAX_EXCERPT_CHARACTERS = 200


class HashPassages(StoredStage, ProcessingStage[DocumentBatch, FileGroupTask]):
    """Write the hash of every line or paragraph, once for each document that contains it."""

    name = "hash_passages"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(
        self,
        folder: str,
        table: FileTable,
        partitions: int,
        text_field: str,
        unit: str,
        min_characters: int,
        keep: KeepPolicy,
    ) -> None:
        self.folder = folder
        self.table = table
        self.partitions = partitions
        self.text_field = text_field
        self.unit = unit
        self.min_characters = min_characters
        self.keep = keep

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def process(self, task: DocumentBatch) -> FileGroupTask:
        """Hash the passages of a batch."""
        documents = self.table.ids(task)
        path = f"{self.folder}/{file_name(task, documents)}.run"
        if not exists(path):
            texts = texts_of(task, self.text_field)
            passages = passages_of(texts, self.unit, self.min_characters)
            chosen = passages.counts & passages.first_in_document()
            rows = passages.rows[chosen]
            records = exact_records(passages.hashes[chosen], self.keep.ranks(task, texts)[rows], documents[rows])
            write_records(path, records, partition_of(records["high"], self.partitions), self.partitions)
        return FileGroupTask(task.dataset_name, [path], _metadata={"counts": self.table.counts(documents)})


class FindCommonPassages(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Find the passages of one partition that occur in more than ``max_documents`` documents."""

    name = "find_common_passages"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(self, folder: str, max_documents: int) -> None:
        self.folder = folder
        self.max_documents = max_documents

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Count the documents of each passage in one partition."""
        files, partition = files_of(task)
        path = f"{self.folder}/part.{partition:06}.npy"
        if not exists(path):
            save_array(path, common_passages(read_records(files, partition, EXACT_RECORD), self.max_documents))
        return FileGroupTask(task.dataset_name, [path])


def common_passages(records: Records, max_documents: int) -> Records:
    """Return the passages that occur in more than ``max_documents`` documents, sorted by hash."""
    records = records[np.lexsort((records["document"], records["rank"], records["low"], records["high"]))]
    is_first = np.ones(len(records), dtype=np.bool_)
    is_first[1:] = (records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1])
    starts = np.flatnonzero(is_first)
    counts = np.diff(np.append(starts, len(records)))
    common = np.empty(len(starts), dtype=COMMON_RECORD)
    common["documents"] = counts
    for field, source in (("high", "high"), ("low", "low"), ("kept", "document")):
        common[field] = records[source][starts]
    chosen: Records = common[counts > max_documents]
    return chosen


class CutPassages(StoredStage, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Cut common and repeated passages from documents, and write a receipt for each cut.

    A document with no text left is dropped. A document from which nothing is cut is returned unchanged.
    """

    name = "cut_passages"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(
        self,
        common: str,
        receipts: str,
        table: FileTable,
        partitions: int,
        text_field: str,
        unit: str,
        min_characters: int,
        *,
        within: bool,
    ) -> None:
        self.common = common
        self.receipts = receipts
        self.table = table
        self.partitions = partitions
        self.text_field = text_field
        self.unit = unit
        self.min_characters = min_characters
        self.within = within

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Reset the cached list of common passages."""
        super().setup(worker_metadata)
        self._parts: list[Records] | None = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Cut the passages of a batch."""
        passages = passages_of(texts_of(task, self.text_field), self.unit, self.min_characters)
        documents, rows = self.table.ids(task), passages.rows
        found = self._look_up(passages)
        is_repeated = ~passages.first_in_document() & passages.counts & self.within
        is_common = passages.counts & (found["documents"] > 0) & (found["kept"] != documents[rows])
        cut = is_repeated | is_common
        if not cut.any():
            return task
        self._write_receipts(task, passages, cut, found, documents[rows])
        changed = np.unique(rows[cut])
        texts = passages.joined(~cut, SEPARATORS[self.unit], changed)
        is_kept = np.ones(len(documents), dtype=np.bool_)
        is_kept[changed] = pc.not_equal(pc.utf8_trim_whitespace(texts), "").to_numpy(zero_copy_only=False)
        if task.source_rows is not None:
            self.record(Verdicts(self.name, task.source_rows, is_kept))
        self._log_metric("passages_cut", float(cut.sum()))
        return with_texts(task, self.text_field, changed, texts).select(np.flatnonzero(is_kept))

    def _look_up(self, passages: Passages) -> Records:
        """Return a ``COMMON_RECORD`` for each passage; all zeros if the passage is not common."""
        if self._parts is None:
            self._parts = [load_array(path) for path in sorted(listed(f"{self.common}/{LISTING}")["files"])]
            self._highs = [np.ascontiguousarray(part["high"]) for part in self._parts]
        found = np.zeros(len(passages.hashes), dtype=COMMON_RECORD)
        partition = partition_of(passages.hashes[:, 0], self.partitions)
        for number in np.unique(partition).tolist():
            common = self._parts[number]
            places = np.flatnonzero(partition == number)
            high, low = passages.hashes[places, 0], passages.hashes[places, 1]
            at = np.searchsorted(self._highs[number], high)
            # Hashes with equal upper halves and different lower halves are adjacent; more than two are very unlikely.
            for step in range(2):
                here = np.minimum(at + step, len(common) - 1)
                if len(common):
                    same = (common["high"][here] == high) & (common["low"][here] == low)
                    found[places[same]] = common[here[same]]
        return found

    def _write_receipts(
        self, task: DocumentBatch, passages: Passages, cut: npt.NDArray[np.bool_], found: Records, documents: Ids
    ) -> None:
        common = (found["documents"] > 0) & (found["kept"] != documents)
        why = np.where(common, "in many documents", "repeated in the document")
        receipts = pa.table(
            {
                ID_FIELD: documents[cut],
                FILE_FIELD: self.table.names_of(documents[cut]),
                "passage": pc.utf8_slice_codeunits(passages.texts.filter(pa.array(cut)), 0, _MAX_EXCERPT_CHARACTERS),
                "reason": why[cut],
                "documents": np.where(common, found["documents"], 1)[cut],
                KEPT_FIELD: np.where(common, found["kept"], documents)[cut],
            }
        )
        with atomic_write(f"{self.receipts}/{file_name(task)}.parquet") as stream:
            pq.write_table(receipts, stream)
