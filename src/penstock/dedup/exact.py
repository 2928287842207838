"""Find exact duplicates: documents whose texts have the same hash, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage, Spec
from penstock.dedup.document_ids import FileTable
from penstock.dedup.duplicate_pairs import Removed, measured, write_removed
from penstock.dedup.keep_policy import KeepPolicy
from penstock.dedup.normalise import normalised
from penstock.dedup.phases import exists, file_name, files_of
from penstock.dedup.shuffle import Records, read_records, read_span, write_records
from penstock.dedup.stored_stage import StoredStage
from penstock.dedup.texts import texts_of
from penstock.dedup.urls import normalised_urls
from penstock.kernels.text_hash import text_hashes

EXACT_RECORD = np.dtype([("low", np.uint64), ("high", np.uint64), ("rank", np.float64), ("document", np.int64)])


class HashTexts(StoredStage, ProcessingStage[DocumentBatch, FileGroupTask]):
    """Write the hash of every text with the id of its document."""

    name = "hash_texts"
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(
        self,
        folder: str,
        table: FileTable,
        partitions: int,
        text_field: str = "text",
        *,
        normalize_text: bool = False,
        urls: bool = False,
        keep: KeepPolicy | None = None,
    ) -> None:
        self.folder = folder
        self.table = table
        self.partitions = partitions
        self.text_field = text_field
        self.normalize_text = normalize_text
        # Whether the texts are URLs. Documents without a URL are never duplicates.
        self.urls = urls
        self.keep = keep or KeepPolicy()

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def process(self, task: DocumentBatch) -> FileGroupTask:
        """Hash the texts of a batch."""
        documents = self.table.ids(task)
        name = f"{file_name(task, documents)}.run"
        path = f"{self.folder}/{name}"
        if not exists(path):
            texts = texts_of(task, self.text_field)
            ranks = self.keep.ranks(task, texts)
            if self.urls:
                texts = normalised_urls(texts)
            elif self.normalize_text:
                texts = normalised(texts)
            records = exact_records(text_hashes(texts), ranks, documents)
            if self.urls:
                records = records[pc.not_equal(texts, "").to_numpy()]
            write_records(path, records, partition_of(records["high"], self.partitions), self.partitions)
        return FileGroupTask(task.dataset_name, [name], _metadata={"counts": self.table.counts(documents)})


class FindExactDuplicates(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Find the exact duplicates of one partition."""

    name = "find_exact_duplicates"
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(self, folder: str, hashed: str, partitions: int, known: Sequence[str] = ()) -> None:
        self.folder = folder
        self.hashed = hashed
        self.partitions = partitions
        # Files of an index. Their documents are kept; documents of the input with the same hash are removed.
        self.known = list(known)

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Find documents with equal hashes."""
        names, partition = files_of(task)
        files = [f"{self.hashed}/{name}" for name in names]
        path = f"{self.folder}/part.{partition}.npy"
        if not exists(path):
            records = read_records(files, partition, EXACT_RECORD)
            known = read_span(self.known, partition, self.partitions, EXACT_RECORD)
            known = known[partition_of(known["high"], self.partitions) == partition]
            write_removed(path, exact_duplicates(np.concatenate([records, known])))
        return FileGroupTask(task.dataset_name, [path])


def exact_records(
    hashes: npt.NDArray[np.uint64], ranks: npt.NDArray[np.float64], documents: npt.NDArray[np.int64]
) -> Records:
    """Return hashes, ranks and document ids as one record array."""
    records = np.empty(len(hashes), dtype=EXACT_RECORD)
    records["low"], records["high"], records["rank"], records["document"] = hashes[:, 1], hashes[:, 0], ranks, documents
    return records


def exact_duplicates(records: Records) -> Removed:
    """Return the documents to remove: for every duplicated text, all documents except the preferred one."""
    order = np.lexsort((records["document"], records["rank"], records["low"], records["high"]))
    records = records[order]
    is_first = np.ones(len(records), dtype=np.bool_)
    is_first[1:] = (records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1])
    first_of = np.maximum.accumulate(np.where(is_first, np.arange(len(records)), 0))
    is_duplicate = ~is_first
    documents = records["document"]
    return measured(documents[is_duplicate], documents[first_of[is_duplicate]], np.ones(int(is_duplicate.sum())))


def partition_of(hashes: npt.NDArray[np.uint64], partitions: int) -> npt.NDArray[np.int64]:
    """Return the partition of each hash, from its upper bits; any number of partitions is filled evenly."""
    return ((hashes >> np.uint64(32)) * np.uint64(partitions) >> np.uint64(32)).astype(np.int64)
