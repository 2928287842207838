"""Compare candidates by their MinHash signatures: faster than by full text, and possible without the texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.dedup.arrays import load_array
from penstock.dedup.choose_removed import Candidates, choose_removed
from penstock.dedup.components import PAIR_RECORD, partition_of_component
from penstock.dedup.duplicate_pairs import write_removed
from penstock.dedup.phases import exists, file_name, files_of
from penstock.dedup.shuffle import read_records, write_records
from penstock.dedup.signing import Banding, signature_record
from penstock.dedup.similarity import SignatureSimilarity
from penstock.dedup.stored_stage import StoredStage


class GatherSignatures(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Write the signatures of candidates, partitioned so that documents to compare are in the same partition."""

    name = "gather_signatures"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(self, connected: str, folder: str, partitions: int, banding: Banding) -> None:
        self.connected = connected
        self.folder = folder
        self.partitions = partitions
        self.banding = banding

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Write the signatures of the candidates in one file."""
        [source] = task.data
        path = f"{self.folder}/{file_name(task)}.run"
        if not exists(path):
            documents, components = (load_array(f"{self.connected}/{name}.npy") for name in ("documents", "components"))
            signed = load_array(source)
            ids = np.asarray(signed["document"])
            places = np.minimum(np.searchsorted(documents, ids), max(0, len(documents) - 1))
            chosen = np.flatnonzero(documents[places] == ids) if len(documents) else places[:0]
            records = np.empty(len(chosen), dtype=gathered_record(self.banding))
            records["component"] = components[places[chosen]]
            for field in ("rank", "document", "signature"):
                records[field] = signed[field][chosen]
            partition = partition_of_component(records["component"], self.partitions)
            write_records(path, records, partition, self.partitions)
        return FileGroupTask(task.dataset_name, [path])


class CompareSignatures(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Estimate the similarity of the candidates of one partition, and decide which are removed."""

    name = "compare_signatures"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(self, pair_files: Sequence[str], folder: str, banding: Banding, similarity_threshold: float) -> None:
        self.pair_files = list(pair_files)
        self.folder = folder
        self.banding = banding
        self.similarity_threshold = similarity_threshold

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Compare the candidates of one partition by signature."""
        files, partition = files_of(task)
        path = f"{self.folder}/part.{partition}.npy"
        if not exists(path):
            pairs = read_records(self.pair_files, partition, PAIR_RECORD)
            known = read_records(files, partition, gathered_record(self.banding))
            candidates = Candidates(known["component"], known["rank"], known["document"])
            measure = SignatureSimilarity(known["signature"])
            write_removed(path, choose_removed(pairs, candidates, measure, self.similarity_threshold))
        return FileGroupTask(task.dataset_name, [path])


def gathered_record(banding: Banding) -> np.dtype[np.void]:
    """Return the dtype of a signature record with its component."""
    return np.dtype([("component", np.int64), *signature_record(banding).descr])
