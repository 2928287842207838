"""Plan the memory of a fuzzy deduplication before it runs, and estimate which pairs its bands will find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from penstock.core.sizes import human_bytes
from penstock.dedup.signing import BAND_RECORD, Banding
from penstock.errors import InputError

# Measured: number of copies of a record in memory while its partition is sorted, and of a text while it is compared.
_COPIES_OF_RECORD = 4
_COPIES_OF_TEXT = 3
# A candidate needs its id, its component and a share of the pairs.
_CANDIDATE_BYTES = 48
_MIN_PARTITIONS = 2
# Comparing texts is most of the work, and the cost of partitions varies. Several per worker keep all workers busy.
_TEXT_PARTITIONS_PER_WORKER = 4
_MIN_TEXT_PARTITION_BYTES = 4 << 20
# With more partitions than this, reads become so small that a round of fewer bands is faster.
_MAX_PARTITIONS = 1024


@dataclass(frozen=True)
class MemoryPlan:
    """Memory plan of a fuzzy deduplication, computed from the size of its input.

    The number of partitions and the bands per round are chosen to fit into memory. Numbers that the user chose are
    used as they are; ``check`` raises if they do not fit.
    """

    banding: Banding
    documents: int
    text_bytes: int
    memory_budget: int
    workers: int
    # Number of documents in the index; they take part in the search.
    indexed: int = 0
    chosen_partitions: int | None = None
    chosen_text_partitions: int | None = None

    @property
    def per_worker(self) -> int:
        """Bytes of memory available to one worker."""
        return max(1, self.memory_budget // (2 * self.workers))

    @property
    def record_bytes(self) -> int:
        """Bytes of band records in one round."""
        known = self.indexed * self.banding.num_bands
        return (self.documents * self.banding.bands_per_iteration + known) * BAND_RECORD.itemsize

    @property
    def partitions(self) -> int:
        """Number of partitions of a round, such that one fits into the memory of a worker."""
        return self.chosen_partitions or self._needed_partitions

    @property
    def text_partitions(self) -> int:
        """Number of partitions for the texts of candidates, assuming that all documents are candidates."""
        worthwhile = min(_TEXT_PARTITIONS_PER_WORKER * self.workers, self.text_bytes // _MIN_TEXT_PARTITION_BYTES)
        needed = ceil(self.text_bytes * _COPIES_OF_TEXT / self.per_worker)
        return self.chosen_text_partitions or max(_MIN_PARTITIONS, worthwhile, needed)

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that a worker needs for one partition."""
        return self.record_bytes * _COPIES_OF_RECORD // self.partitions

    @property
    def usual_formula_bytes(self) -> int:
        """Memory by the usual formula: 8 bytes per hash and document, for the share of bands in one iteration."""
        share = self.banding.bands_per_iteration / self.banding.num_bands
        return int(self.documents * 8 * self.banding.num_hashes * share)

    @property
    def _needed_partitions(self) -> int:
        needed = ceil(self.record_bytes * _COPIES_OF_RECORD / self.per_worker)
        return max(_MIN_PARTITIONS, self.workers, needed)

    def fitted(self) -> MemoryPlan:
        """Return the plan with the most bands per round that fit into memory; fewer rounds are faster."""
        for bands in range(self.banding.num_bands, 0, -1):
            tried = replace(self, banding=replace(self.banding, bands_per_iteration=bands))
            if tried.held_bytes <= self.per_worker and tried._needed_partitions <= _MAX_PARTITIONS:
                return tried
        return tried

    def check(self) -> None:
        """Raise ``InputError`` with the figures if a partition, or the list of candidates, does not fit into memory."""
        if self.held_bytes > self.per_worker:
            raise InputError(
                f"{self.banding.bands_per_iteration} bands at a time in {self.partitions} partitions do not fit: "
                f"{self.documents:,} documents x {BAND_RECORD.itemsize} bytes x {self.banding.bands_per_iteration} "
                f"bands x {_COPIES_OF_RECORD} (sorting) / {self.partitions} partitions is "
                f"{human_bytes(self.held_bytes)}, and a worker has {human_bytes(self.per_worker)} (half of "
                f"memory_budget={human_bytes(self.memory_budget)} for {self.workers} workers). "
                f"Take {self._needed_partitions} partitions, or leave both numbers out."
            )
        if self.partitions > _MAX_PARTITIONS and self.banding.bands_per_iteration > 1:
            raise InputError(
                f"{self.banding.bands_per_iteration} bands at a time would be {self.partitions} partitions, more than "
                f"{_MAX_PARTITIONS}: {self.documents:,} documents x {BAND_RECORD.itemsize} bytes x "
                f"{self.banding.bands_per_iteration} bands x {_COPIES_OF_RECORD} (sorting) = "
                f"{human_bytes(self.record_bytes * _COPIES_OF_RECORD)}, and a worker has "
                f"{human_bytes(self.per_worker)}. "
                f"Take bands_per_iteration={self.fitted().banding.bands_per_iteration}, or leave it out."
            )
        needed = self.documents * _CANDIDATE_BYTES
        if needed > self.memory_budget:
            raise InputError(
                f"about {self.documents:,} documents x {_CANDIDATE_BYTES} bytes (if all were candidates) is "
                f"{human_bytes(needed)}, more than memory_budget={human_bytes(self.memory_budget)}. Give it more, or "
                "deduplicate in parts with an index."
            )

    def describe(self) -> str:
        """Return the plan as text for the user."""
        banding = self.banding
        share = f"{banding.bands_per_iteration}/{banding.num_bands} bands"
        return "\n".join(
            [
                f"Fuzzy deduplication of {human_bytes(self.text_bytes)} of text, about {self.documents:,} documents",
                f"  {banding.num_bands} bands of {banding.minhashes_per_band}, "
                f"{banding.bands_per_iteration} at a time, {banding.num_hashes} hashes of {banding.bits} bits",
                f"  by the usual formula (8 bytes x {banding.num_hashes} hashes x documents x {share}): "
                f"{human_bytes(self.usual_formula_bytes)} at once",
                f"  here: {human_bytes(self.record_bytes)} of band hashes a round, on disk in {self.partitions} "
                f"partitions, {human_bytes(self.held_bytes)} held by a worker; texts of candidates in "
                f"{self.text_partitions} partitions",
                f"  memory_budget {human_bytes(self.memory_budget)} for {self.workers} workers",
                f"  a pair is compared with a probability of {_curve_in_words(banding)}",
            ]
        )


def chance_of_meeting(similarity: float, bands: int, rows: int) -> float:
    """Return the probability that two documents with this Jaccard similarity share at least one band.

    >>> round(chance_of_meeting(0.8, 20, 13), 2), round(chance_of_meeting(0.9, 20, 13), 3)
    (0.68, 0.997)
    """
    return float(1 - (1 - similarity**rows) ** bands)


def _curve_in_words(banding: Banding) -> str:
    points = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    chances = ((s, chance_of_meeting(s, banding.num_bands, banding.minhashes_per_band)) for s in points)
    return ", ".join(f"{chance:.0%} at {similarity:g}" for similarity, chance in chances)
