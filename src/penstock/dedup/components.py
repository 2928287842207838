"""Connected components of candidate pairs: documents of one component are compared in the same partition.

A component is not a decision: it may be a chain whose ends have nothing in common. It only means that no document
outside has to be compared with a document inside.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core.files import FileGroupTask
from penstock.dedup.arrays import load_array, save_array
from penstock.dedup.phases import AllInOne, exists, files_of
from penstock.dedup.shuffle import write_records
from penstock.kernels.union import connect

PAIR_RECORD = np.dtype([("component", np.int64), ("better", np.int64), ("worse", np.int64)])
Ids = npt.NDArray[np.int64]


class ConnectCandidates(AllInOne):
    """Number the connected components, and partition the candidate pairs by component.

    Memory: two integers per document that is in a pair, and the pairs of one file at a time.
    """

    name = "connect_candidates"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(self, folder: str, partitions: int) -> None:
        self.folder = folder
        self.partitions = partitions

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Compute the connected components of all pairs."""
        files, _ = files_of(task)
        done, known = f"{self.folder}/components.npy", f"{self.folder}/documents.npy"
        pair_files = [f"{self.folder}/pairs/{number}.run" for number in range(len(files))]
        if not all(map(exists, [done, known, *pair_files])):
            documents = _documents(files)
            components = np.arange(len(documents))
            for file in files:
                connect(components, _positions(documents, load_array(file)))
            for file, target in zip(files, pair_files, strict=True):
                pairs = load_array(file)
                records = np.empty(len(pairs), dtype=PAIR_RECORD)
                records["better"], records["worse"] = pairs[:, 0], pairs[:, 1]
                records["component"] = components[np.searchsorted(documents, pairs[:, 0])]
                partition = partition_of_component(records["component"], self.partitions)
                write_records(target, records, partition, self.partitions)
            save_array(known, documents)
            save_array(done, components)
        return FileGroupTask(task.dataset_name, pair_files)


def partition_of_component(components: Ids, partitions: int) -> Ids:
    """Return the partition of each component; components are spread evenly."""
    return (components * 0x9E3779B1 % (1 << 31)) % partitions


def _documents(files: list[str]) -> Ids:
    documents = np.zeros(0, dtype=np.int64)
    for file in files:
        documents = np.union1d(documents, load_array(file))
    return documents


def _positions(documents: Ids, pairs: Ids) -> Ids:
    return np.searchsorted(documents, pairs)
