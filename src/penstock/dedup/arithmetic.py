"""The arithmetic in front of a fuzzy deduplication: how much memory it takes, and which pairs the bands will catch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from penstock.core.sizes import human_bytes
from penstock.dedup.signing import BAND_RECORD, Banding
from penstock.errors import InputError

# Measured: a record is held about so many times while a partition is sorted, and a text while it is compared.
_TIMES_RECORD = 4
_TIMES_TEXT = 3
# A candidate costs its id, its component and a share of the pairs.
_CANDIDATE_BYTES = 48
_FEWEST_PARTITIONS = 2
# To compare texts is most of the work, and their partitions differ in what they cost: nobody should be idle at the end.
_TEXT_PARTITIONS_PER_WORKER = 4
_SMALLEST_TEXT_PARTITION = 4 << 20
# More partitions than this are read in pieces so small that a round of fewer bands is faster.
_MOST_PARTITIONS = 1024


@dataclass(frozen=True)
class Arithmetic:
    """What a run will take, from the size of its input.

    ``partitions`` and the bands of a round are chosen to fit; what the user chose is honoured, or refused by ``check``.
    """

    banding: Banding
    documents: int
    text_bytes: int
    memory_budget: int
    workers: int
    # Documents known from an index, which are looked up with the others.
    indexed: int = 0
    chosen_partitions: int | None = None
    chosen_text_partitions: int | None = None

    @property
    def per_worker(self) -> int:
        """Bytes that one worker may hold."""
        return max(1, self.memory_budget // (2 * self.workers))

    @property
    def record_bytes(self) -> int:
        """Bytes of one round of bands."""
        known = self.indexed * self.banding.num_bands
        return (self.documents * self.banding.bands_per_iteration + known) * BAND_RECORD.itemsize

    @property
    def partitions(self) -> int:
        """Into how many parts a round is cut, so that a worker can hold one."""
        return self.chosen_partitions or self._needed_partitions

    @property
    def text_partitions(self) -> int:
        """Into how many parts the texts of candidates are cut, if all documents were candidates."""
        worthwhile = min(_TEXT_PARTITIONS_PER_WORKER * self.workers, self.text_bytes // _SMALLEST_TEXT_PARTITION)
        needed = ceil(self.text_bytes * _TIMES_TEXT / self.per_worker)
        return self.chosen_text_partitions or max(_FEWEST_PARTITIONS, worthwhile, needed)

    @property
    def held_bytes(self) -> int:
        """Bytes that a worker holds of one partition."""
        return self.record_bytes * _TIMES_RECORD // self.partitions

    @property
    def usual_formula_bytes(self) -> int:
        """What the usual formula says: 8 bytes per hash and document, for the share of bands in one iteration."""
        share = self.banding.bands_per_iteration / self.banding.num_bands
        return int(self.documents * 8 * self.banding.num_hashes * share)

    @property
    def _needed_partitions(self) -> int:
        needed = ceil(self.record_bytes * _TIMES_RECORD / self.per_worker)
        return max(_FEWEST_PARTITIONS, self.workers, needed)

    def fitted(self) -> Arithmetic:
        """Return the same with as many bands in a round as fit; fewer rounds are faster."""
        for bands in range(self.banding.num_bands, 0, -1):
            tried = replace(self, banding=replace(self.banding, bands_per_iteration=bands))
            if tried.held_bytes <= self.per_worker and tried._needed_partitions <= _MOST_PARTITIONS:
                return tried
        return tried

    def check(self) -> None:
        """Refuse what cannot fit, with the figures: a partition too large for a worker, and the one list held whole."""
        if self.held_bytes > self.per_worker:
            raise InputError(
                f"{self.banding.bands_per_iteration} bands at a time in {self.partitions} partitions do not fit: "
                f"{self.documents:,} documents x {BAND_RECORD.itemsize} bytes x {self.banding.bands_per_iteration} "
                f"bands x {_TIMES_RECORD} (sorting) / {self.partitions} partitions is {human_bytes(self.held_bytes)}, "
                f"and a worker has {human_bytes(self.per_worker)} (half of memory_budget="
                f"{human_bytes(self.memory_budget)} for {self.workers} workers). "
                f"Take {self._needed_partitions} partitions, or leave both numbers out."
            )
        if self.partitions > _MOST_PARTITIONS and self.banding.bands_per_iteration > 1:
            raise InputError(
                f"{self.banding.bands_per_iteration} bands at a time would be {self.partitions} partitions, more than "
                f"{_MOST_PARTITIONS}: {self.documents:,} documents x {BAND_RECORD.itemsize} bytes x "
                f"{self.banding.bands_per_iteration} bands x {_TIMES_RECORD} (sorting) = "
                f"{human_bytes(self.record_bytes * _TIMES_RECORD)}, and a worker has {human_bytes(self.per_worker)}. "
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
        """Say it in words."""
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
    """Return the probability that two documents of a similarity share a band.

    >>> round(chance_of_meeting(0.8, 20, 13), 2), round(chance_of_meeting(0.9, 20, 13), 3)
    (0.68, 0.997)
    """
    return float(1 - (1 - similarity**rows) ** bands)


def _curve_in_words(banding: Banding) -> str:
    points = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    chances = ((s, chance_of_meeting(s, banding.num_bands, banding.minhashes_per_band)) for s in points)
    return ", ".join(f"{chance:.0%} at {similarity:g}" for similarity, chance in chances)
