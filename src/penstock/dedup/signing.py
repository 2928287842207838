"""First pass of a fuzzy deduplication: hash the text and the MinHash bands of every document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.worker_info import WorkerMetadata
from penstock.dedup.arrays import save_array
from penstock.dedup.document_ids import FileTable
from penstock.dedup.exact import exact_records, partition_of
from penstock.dedup.keep_policy import KeepPolicy
from penstock.dedup.normalise import normalised
from penstock.dedup.phases import exists, file_name
from penstock.dedup.shuffle import write_records
from penstock.dedup.stored_stage import StoredStage
from penstock.dedup.texts import texts_of
from penstock.kernels.text_hash import text_hashes

if TYPE_CHECKING:
    from penstock.kernels.shingles import Shingling

BAND_RECORD = np.dtype([("hash", np.uint64), ("rank", np.float64), ("document", np.int64)])
# Memory per worker for the bands of texts it has signed, so that a repeated text is not signed again.
REMEMBERED_BYTES = 64 << 20
# Memory of a cache entry in addition to its bands: a key of two integers, and its row.
_ENTRY_OVERHEAD_BYTES = 200


@dataclass(frozen=True)
class Banding:
    """How signatures are divided into bands, and how many bands are processed in one round."""

    num_bands: int = 20
    minhashes_per_band: int = 13
    bands_per_iteration: int = 5
    seed: int = 42
    bits: int = 32

    @property
    def num_hashes(self) -> int:
        """Number of values in a signature."""
        return self.num_bands * self.minhashes_per_band

    def rounds(self) -> Iterator[slice]:
        """Yield the bands of each round."""
        for first in range(0, self.num_bands, self.bands_per_iteration):
            yield slice(first, min(first + self.bands_per_iteration, self.num_bands))


def signature_record(banding: Banding) -> np.dtype[np.void]:
    """Return the dtype of a record with a whole signature."""
    word = np.uint32 if banding.bits == 32 else np.uint64
    return np.dtype([("rank", np.float64), ("document", np.int64), ("signature", word, (banding.num_hashes,))])


def round_name(bands: slice) -> str:
    """Return the name of the folder for the bands of one round."""
    return f"band_{bands.start}-band_{bands.stop}"


class SignTexts(StoredStage, ProcessingStage[DocumentBatch, FileGroupTask]):
    """Write the hash of the text, and of each band of the MinHash signature, for every document.

    A document that is too short for a single shingle has no bands; only exact duplicates of it are found.
    """

    name = "sign_texts"
    reusable_process = True
    preload = ("penstock.dedup.preload",)

    def __init__(
        self,
        folder: str,
        table: FileTable,
        partitions: int,
        shingling: Shingling,
        banding: Banding,
        text_field: str = "text",
        *,
        normalize_text: bool = False,
        keep: KeepPolicy | None = None,
        device: str = "cpu",
        with_signatures: bool = False,
        remembered_bytes: int = REMEMBERED_BYTES,
    ) -> None:
        self.folder = folder
        self.table = table
        self.partitions = partitions
        self.shingling = shingling
        self.banding = banding
        self.text_field = text_field
        self.normalize_text = normalize_text
        self.keep = keep or KeepPolicy()
        self.device = device
        # Whether to write whole signatures too, for estimating similarities.
        self.with_signatures = with_signatures
        self.remembered_bytes = remembered_bytes
        if device == "cuda":
            self.resources = Resources(cpus=1, gpus=1)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Prepare the permutations on the device that computes signatures."""
        super().setup(worker_metadata)
        from penstock.kernels.signing import Signer  # imports Numba, which the driver does not need

        self._signer = Signer(
            self.shingling, self.banding.num_hashes, self.banding.seed, self.banding.bits, self.device
        )
        self._seen = SeenTexts(self.banding.num_bands, self.remembered_bytes)

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def process(self, task: DocumentBatch) -> FileGroupTask:
        """Sign the texts of a batch."""
        documents = self.table.ids(task)
        name = f"{file_name(task, documents)}.run"
        counts = self.table.counts(documents)
        done = f"{self.folder}/exact/{name}"
        folders = [*map(round_name, self.banding.rounds()), *(["signatures"] if self.with_signatures else [])]
        if not all(map(exists, [done, *(f"{self.folder}/{folder}/{name}" for folder in folders)])):
            texts = texts_of(task, self.text_field)
            ranks = self.keep.ranks(task, texts)
            if self.normalize_text:
                texts = normalised(texts)
            hashes = text_hashes(texts)
            if self.with_signatures:
                bands, has_bands = self._write_signatures(f"signatures/{name}", texts, ranks, documents)
            else:
                bands, has_bands = self._bands(texts, hashes)
            for part in self.banding.rounds():
                self._write_bands(
                    f"{round_name(part)}/{name}", bands[has_bands, part], ranks[has_bands], documents[has_bands]
                )
            records = exact_records(hashes, ranks, documents)
            write_records(done, records, partition_of(records["high"], self.partitions), self.partitions)
        return FileGroupTask(task.dataset_name, [name], _metadata={"counts": counts})

    def _bands(
        self, texts: pa.ChunkedArray, hashes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Return the band hashes of every text, and whether it has any. Repeated texts are signed once."""
        from penstock.kernels.minhash import band_hashes

        keys = list(map(tuple, hashes.tolist()))
        new = self._seen.new_among(keys)
        if new:
            chosen = texts.take(pa.array(list(new.values()), pa.int64()))
            signature, shingled = self._signer.signatures(chosen)
            self._seen.learn(list(new), band_hashes(signature, self.banding.num_bands), shingled)
        return self._seen.recall(keys)

    def _write_signatures(
        self,
        name: str,
        texts: pa.ChunkedArray,
        ranks: npt.NDArray[np.float64],
        documents: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        from penstock.kernels.minhash import band_hashes

        signature, has_bands = self._signer.signatures(texts)
        records = np.empty(int(has_bands.sum()), dtype=signature_record(self.banding))
        records["rank"], records["document"] = ranks[has_bands], documents[has_bands]
        records["signature"] = signature[has_bands]
        save_array(f"{self.folder}/{name}", records)
        return band_hashes(signature, self.banding.num_bands), has_bands

    def _write_bands(
        self,
        name: str,
        hashes: npt.NDArray[np.uint64],
        ranks: npt.NDArray[np.float64],
        documents: npt.NDArray[np.int64],
    ) -> None:
        bands = hashes.shape[1]
        records = np.empty(hashes.size, dtype=BAND_RECORD)
        records["hash"] = hashes.ravel()
        records["rank"] = np.repeat(ranks, bands)
        records["document"] = np.repeat(documents, bands)
        path = f"{self.folder}/{name}"
        write_records(path, records, partition_of(records["hash"], self.partitions), self.partitions)


class SeenTexts:
    """Cache of the band hashes of texts, keyed by the hash of the text. It is cleared when it exceeds its limit."""

    def __init__(self, bands: int, max_bytes: int) -> None:
        self._num_bands = bands
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[tuple[int, int], int] = {}
        self._bands = np.zeros((0, self._num_bands), dtype=np.uint64)
        self._shingled = np.zeros(0, dtype=np.bool_)

    def new_among(self, keys: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Return the keys that are not in the cache, each with its position; clear a cache that is too large."""
        if len(self._rows) * (8 * self._num_bands + _ENTRY_OVERHEAD_BYTES) > self._max_bytes:
            self._clear()
        return {key: place for place, key in enumerate(keys) if key not in self._rows}

    def learn(
        self, keys: list[tuple[int, int]], bands: npt.NDArray[np.uint64], shingled: npt.NDArray[np.bool_]
    ) -> None:
        """Add texts to the cache."""
        self._rows.update(zip(keys, range(len(self._bands), len(self._bands) + len(keys)), strict=True))
        self._bands = np.concatenate([self._bands, bands])
        self._shingled = np.concatenate([self._shingled, shingled])

    def recall(self, keys: list[tuple[int, int]]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Return the band hashes of cached texts, and whether each has any."""
        rows = np.fromiter((self._rows[key] for key in keys), dtype=np.int64, count=len(keys))
        return self._bands[rows], self._shingled[rows]
