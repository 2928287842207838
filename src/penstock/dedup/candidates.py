"""Find candidate pairs: documents that share a band, each paired with the document of the band that would be kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.dedup.arrays import load_array, save_array
from penstock.dedup.exact import partition_of
from penstock.dedup.phases import LISTING, exists, listed
from penstock.dedup.shuffle import Records, read_records, read_span
from penstock.dedup.signing import BAND_RECORD
from penstock.dedup.stored_stage import StoredStage

Pairs = npt.NDArray[np.int64]


class FindCandidates(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Find documents that share a band, in one partition of one round of bands.

    Of exact duplicates only the kept document takes part.
    """

    name = "find_candidates"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(
        self,
        signed: str,
        folder: str,
        exact_duplicates: str,
        rounds: Sequence[str],
        partitions: int,
        known: Sequence[str] = (),
    ) -> None:
        self.signed = signed
        self.folder = folder
        # A file with the sorted ids of exact duplicates.
        self.exact_duplicates = exact_duplicates
        self.rounds = list(rounds)
        self.partitions = partitions
        # Files of an index. They hold all bands; two documents share a hash only if they share a band.
        self.known = list(known)

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Find the candidate pairs of one partition and one round."""
        # There is one task per round and partition, numbered consecutively.
        partition, number = divmod(int(task.reader_config["partition"]), len(self.rounds))
        bands = self.rounds[number]
        path = f"{self.folder}/{bands}.{partition}.npy"
        if not exists(path):
            files = [f"{self.signed}/{bands}/{name}" for name in listed(f"{self.signed}/{LISTING}")["files"]]
            records = without(read_records(files, partition, BAND_RECORD), load_array(self.exact_duplicates))
            known = read_span(self.known, partition, self.partitions, BAND_RECORD)
            known = known[partition_of(known["hash"], self.partitions) == partition]
            pairs = candidate_pairs(np.concatenate([records, known]))
            save_array(path, pairs[pairs[:, 1] >= 0])  # documents in the index were compared earlier
        return FileGroupTask(task.dataset_name, [path])


def without(records: Records, documents: Pairs) -> Records:
    """Return the records without those of some documents, whose ids are sorted."""
    if not len(documents) or not len(records):
        return records
    places = np.minimum(np.searchsorted(documents, records["document"]), len(documents) - 1)
    others: Records = records[documents[places] != records["document"]]
    return others


def candidate_pairs(records: Records) -> Pairs:
    """Return the pairs of documents that share a hash, the preferred document first; sorted, without duplicates.

    >>> records = np.array([(7, 0.0, 5), (7, 0.0, 3), (8, 0.0, 4), (7, 0.0, 9)], dtype=BAND_RECORD)
    >>> candidate_pairs(records).tolist()
    [[3, 5], [3, 9]]
    """
    order = np.lexsort((records["document"], records["rank"], records["hash"]))
    hashes, documents = records["hash"][order], records["document"][order]
    is_first = np.ones(len(hashes), dtype=np.bool_)
    is_first[1:] = hashes[1:] != hashes[:-1]
    best = np.maximum.accumulate(np.where(is_first, np.arange(len(hashes)), 0))
    others = ~is_first
    pairs = np.stack([documents[best[others]], documents[others]], axis=1)
    return unique_pairs(pairs)


def unique_pairs(pairs: Pairs) -> Pairs:
    """Return the pairs sorted and without duplicates."""
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    is_new = np.ones(len(pairs), dtype=np.bool_)
    is_new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    return pairs[is_new]
