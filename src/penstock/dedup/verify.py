"""Candidates are compared: a document goes only if it is similar enough to one that stays.

Documents are taken in the order in which they would stay. Each is compared with the candidates in front of it that
stay, and with those because of which its candidates go; the first that is similar enough is its twin. So no chain of
small steps ends far from where it began: what goes was measured against the very document that is kept for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.worker_info import WorkerMetadata
from penstock.dedup.arrays import load_array
from penstock.dedup.candidates import unique_pairs
from penstock.dedup.components import PAIR_RECORD, partition_of_component
from penstock.dedup.keep import KeepPolicy
from penstock.dedup.normalise import texts_of
from penstock.dedup.phases import exists, file_name, files_of
from penstock.dedup.places import FileTable, Ids
from penstock.dedup.removed import Removed, nothing_removed, write_removed
from penstock.dedup.shuffle import read_records, read_tables, write_tables
from penstock.kernels.jaccard import Comparing, ShingleSet, is_sampled
from penstock.kernels.shingles import Shingling
from penstock.kernels.text_buffer import text_buffer

# How much a worker holds of documents that others are being compared with.
_HELD_BYTES = 128 << 20


class GatherTexts(ProcessingStage[DocumentBatch, FileGroupTask]):
    """Writes the texts of candidates down where those they are to be compared with are."""

    name = "gather_texts"

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
        """Forget what an earlier run looked at."""
        self._candidates: tuple[Ids, Ids] | None = None

    def process(self, task: DocumentBatch) -> FileGroupTask:
        """Pick the candidates of a batch."""
        nothing = FileGroupTask(task.dataset_name, [])
        path = f"{self.folder}/{file_name([task])}.run"
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
        ids = self.table.ids(task)
        places = np.minimum(np.searchsorted(documents, ids), len(documents) - 1)
        chosen = np.flatnonzero(documents[places] == ids)
        if not len(chosen):
            return nothing
        column = task.column(self.text_field)
        texts = texts_of(column, normalise=self.normalize_text)
        component = np.asarray(components[places[chosen]])
        table = pa.table(
            {
                "component": component,
                "rank": self.keep.ranks(task, column)[chosen],
                "document": ids[chosen],
                "text": texts.take(pa.array(chosen)),
            }
        )
        partition = partition_of_component(component, self.partitions)
        parts = [np.flatnonzero(partition == number) for number in range(self.partitions)]
        write_tables(path, [table.take(pa.array(rows)) if len(rows) else None for rows in parts])
        return FileGroupTask(task.dataset_name, [path])


class CompareCandidates(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Measures the candidates of one partition, and decides which of them go."""

    name = "compare_candidates"

    def __init__(
        self, pair_files: Sequence[str], folder: str, shingling: Shingling, similarity_threshold: float
    ) -> None:
        self.pair_files = list(pair_files)
        self.folder = folder
        self.shingling = shingling
        self.similarity_threshold = similarity_threshold

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Compare."""
        files, partition = files_of(task)
        path = f"{self.folder}/part.{partition}.parquet"
        if not exists(path):
            pairs = read_records(self.pair_files, partition, PAIR_RECORD)
            tables = list(read_tables(files, partition))
            write_removed(path, self._removed(pairs, tables))
        return FileGroupTask(task.dataset_name, [path])

    def _removed(self, records: npt.NDArray[np.void], tables: list[pa.Table]) -> Removed:
        if not len(records):
            return nothing_removed()
        table = pa.concat_tables(tables).combine_chunks()
        components, ranks, documents = (table[name].to_numpy() for name in ("component", "rank", "document"))
        order = np.lexsort((documents, ranks, components))
        texts = Texts(table["text"], order, self.shingling)
        by_id = np.argsort(documents[order])
        sorted_ids = documents[order][by_id]
        pairs = unique_pairs(np.stack([records["worse"], records["better"]], axis=1))
        # In places of the order: whoever stands in front stays rather than whoever stands behind.
        places = np.sort(by_id[np.searchsorted(sorted_ids, pairs)], axis=1)[:, ::-1]
        twins, similarities = self._twins(unique_pairs(places), texts, len(order))
        gone = np.flatnonzero(twins >= 0)
        ordered = documents[order]
        estimated = np.array([texts.is_sampled(int(twin)) for twin in twins[gone]], dtype=np.bool_)
        return Removed(ordered[gone], ordered[twins[gone]], similarities[gone], estimated)

    def _twins(
        self, pairs: npt.NDArray[np.int64], texts: Texts, count: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return for each document the one it goes for, or -1 if it stays; pairs are in the order of their first."""
        twins = np.full(count, -1, dtype=np.int64)
        similarities = np.zeros(count)
        starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=True):
            document = int(pairs[start, 0])
            tried: set[int] = set()
            for candidate in pairs[start:stop, 1].tolist():
                stays = candidate if twins[candidate] < 0 else int(twins[candidate])
                if stays in tried:
                    continue
                tried.add(stays)
                similarity = texts.similarity(stays, document)
                if similarity >= self.similarity_threshold:
                    twins[document], similarities[document] = stays, similarity
                    break
        return twins, similarities


class Texts:
    """Texts to be compared, in a given order; those compared with most recently are held taken apart."""

    def __init__(self, column: pa.ChunkedArray, order: npt.NDArray[np.int64], shingling: Shingling) -> None:
        self._data, self._offsets = text_buffer(column)
        self._order = order
        self._comparing = Comparing(shingling)
        self._held: OrderedDict[int, ShingleSet] = OrderedDict()
        self._held_bytes = 0

    def similarity(self, first: int, second: int) -> float:
        """Return how similar two texts are."""
        return self._comparing.similarity(self._shingles(first), self._text(second))

    def is_sampled(self, first: int) -> bool:
        """Tell whether similarities to a text are estimated from a sample of its shingles."""
        return is_sampled(self._text(first))

    def _text(self, place: int) -> npt.NDArray[np.uint8]:
        row = self._order[place]
        return self._data[self._offsets[row] : self._offsets[row + 1]]

    def _shingles(self, place: int) -> ShingleSet:
        if place in self._held:
            self._held.move_to_end(place)
            return self._held[place]
        made = self._held[place] = self._comparing.shingles(self._text(place))
        self._held_bytes += made.num_bytes
        while self._held_bytes > _HELD_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= oldest.num_bytes
        return made
