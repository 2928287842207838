"""Compare candidates by full text, after moving each text to its partner's partition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.worker_info import WorkerMetadata
from penstock.dedup.arrays import load_array
from penstock.dedup.choose_removed import Candidates, choose_removed
from penstock.dedup.components import PAIR_RECORD, partition_of_component
from penstock.dedup.document_ids import FileTable, Ids
from penstock.dedup.duplicate_pairs import Removed, nothing_removed, write_removed
from penstock.dedup.estimate import gathered_record
from penstock.dedup.keep_policy import KeepPolicy
from penstock.dedup.normalise import normalised
from penstock.dedup.phases import exists, file_name, files_of, listed
from penstock.dedup.shuffle import Records, read_records, read_tables, write_tables
from penstock.dedup.signing import Banding
from penstock.dedup.similarity import (
    HELD_BYTES,
    MixedSimilarity,
    SignatureSimilarity,
    SimilarityMeasure,
    TextSimilarity,
)
from penstock.dedup.stored_stage import StoredStage
from penstock.dedup.texts import texts_of
from penstock.kernels.shingles import Shingling


class GatherTexts(StoredStage, ProcessingStage[DocumentBatch, FileGroupTask]):
    """Write the texts of candidates, partitioned so that documents to compare are in the same partition."""

    name = "gather_texts"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(
        self,
        connected: str,
        folder: str,
        table: FileTable,
        partitions: int,
        text_field: str = "text",
        *,
        normalize_text: bool = False,
        keep: KeepPolicy | None = None,
    ) -> None:
        self.connected = connected
        self.folder = folder
        self.table = table
        self.partitions = partitions
        self.text_field = text_field
        self.normalize_text = normalize_text
        self.keep = keep or KeepPolicy()

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Reset the cached list of candidates."""
        super().setup(worker_metadata)
        self._candidates: tuple[Ids, Ids] | None = None

    def process(self, task: DocumentBatch) -> FileGroupTask:
        """Write the texts of the candidates in a batch."""
        nothing = FileGroupTask(task.dataset_name, [])
        ids = self.table.ids(task)
        path = f"{self.folder}/{file_name(task, ids)}.run"
        if exists(path):
            return FileGroupTask(task.dataset_name, [path])
        if self._candidates is None:
            self._candidates = (
                load_array(f"{self.connected}/documents.npy"),
                load_array(f"{self.connected}/components.npy"),
            )
        documents, components = self._candidates
        if not len(documents):
            return nothing
        places = np.minimum(np.searchsorted(documents, ids), len(documents) - 1)
        chosen = np.flatnonzero(documents[places] == ids)
        if not len(chosen):
            return nothing
        component = np.asarray(components[places[chosen]])
        partition = partition_of_component(component, self.partitions)
        order = np.argsort(partition, kind="stable")
        component, partition = component[order], partition[order]
        # Select the rows first, so that only the texts of candidates are parsed and copied.
        candidates = task.select(chosen[order])
        texts = texts_of(candidates, self.text_field)
        table = pa.table(
            {
                "component": component,
                "rank": self.keep.ranks(candidates, texts),
                "document": ids[chosen[order]],
                "text": normalised(texts) if self.normalize_text else texts,
            }
        )
        borders = np.searchsorted(partition, np.arange(self.partitions + 1)).tolist()
        write_tables(path, [table.slice(start, stop - start) for start, stop in pairwise(borders)])
        return FileGroupTask(task.dataset_name, [path])


class CompareCandidates(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Compare the candidates of one partition, and decide which are removed.

    Documents of an index have only signatures; ``signatures`` is the listing of the files that hold them.
    """

    name = "compare_candidates"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(
        self,
        pair_files: Sequence[str],
        folder: str,
        shingling: Shingling,
        similarity_threshold: float,
        signatures: str | None = None,
        banding: Banding | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self.pair_files = list(pair_files)
        self.folder = folder
        self.shingling = shingling
        self.similarity_threshold = similarity_threshold
        self.signatures = signatures
        self.banding = banding or Banding()
        self.held_bytes = held_bytes

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Compare the candidates of one partition by text."""
        files, partition = files_of(task)
        path = f"{self.folder}/part.{partition}.npy"
        if not exists(path):
            pairs = read_records(self.pair_files, partition, PAIR_RECORD)
            tables = list(read_tables(files, partition))
            write_removed(path, self._removed(pairs, tables, partition))
        return FileGroupTask(task.dataset_name, [path])

    def _removed(self, pairs: Records, tables: list[pa.Table], partition: int = 0) -> Removed:
        if not len(pairs):
            return nothing_removed()
        table = pa.concat_tables(tables).combine_chunks()
        candidates = Candidates(*(table[name].to_numpy() for name in ("component", "rank", "document")))
        measure: SimilarityMeasure = TextSimilarity(table["text"], self.shingling, self.held_bytes)
        if self.signatures is not None:
            signed = read_records(listed(self.signatures)["files"], partition, gathered_record(self.banding))
            candidates, measure = with_indexed(candidates, measure, signed)
        return choose_removed(pairs, candidates, measure, self.similarity_threshold)


def with_indexed(
    candidates: Candidates, texts: SimilarityMeasure, signed: Records
) -> tuple[Candidates, SimilarityMeasure]:
    """Add the documents of an index to the candidates. ``signed`` holds the signatures of both."""
    known = signed[signed["document"] < 0]
    signed = signed[np.argsort(signed["document"])]
    rows = np.searchsorted(signed["document"], candidates.documents)
    signatures = np.concatenate([signed["signature"][rows], known["signature"]])
    together = Candidates(
        np.concatenate([candidates.components, known["component"]]),
        np.concatenate([candidates.ranks, known["rank"]]),
        np.concatenate([candidates.documents, known["document"]]),
    )
    return together, MixedSimilarity(texts, len(rows), SignatureSimilarity(signatures))
