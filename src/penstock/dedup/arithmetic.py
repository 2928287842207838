"""The arithmetic in front of a fuzzy deduplication: how much memory it takes, and which pairs the bands will catch."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from penstock.core.sizes import human_bytes
from penstock.dedup.signing import BAND_RECORD, Banding
from penstock.errors import InputError

# Measured: a record is held about so many times while a partition is sorted, and a text while it is compared.
_TIMES_RECORD = 4
_TIMES_TEXT = 3
# A candidate costs its id, its component and a share of the pairs.
_CANDIDATE_BYTES = 48
# Documents are rarely shorter on average; more of them only means more partitions than needed.
_MEAN_DOCUMENT_BYTES = 1000
_FEWEST_PARTITIONS = 4


@dataclass(frozen=True)
class Arithmetic:
    """What a run will take, from the size of its input."""

    banding: Banding
    text_bytes: int
    memory_budget: int
    workers: int

    @property
    def documents(self) -> int:
        """About how many documents there may be."""
        return max(1, self.text_bytes // _MEAN_DOCUMENT_BYTES)

    @property
    def per_worker(self) -> int:
        """Bytes that one worker may hold."""
        return max(1, self.memory_budget // (2 * self.workers))

    @property
    def record_bytes(self) -> int:
        """Bytes of one round of bands."""
        return self.documents * BAND_RECORD.itemsize * self.banding.bands_per_iteration

    @property
    def partitions(self) -> int:
        """Into how many parts a round is cut, so that a worker can hold one."""
        return max(_FEWEST_PARTITIONS, ceil(self.record_bytes * _TIMES_RECORD / self.per_worker))

    @property
    def text_partitions(self) -> int:
        """Into how many parts the texts of candidates are cut, if all documents were candidates."""
        return max(_FEWEST_PARTITIONS, ceil(self.text_bytes * _TIMES_TEXT / self.per_worker))

    @property
    def usual_formula_bytes(self) -> int:
        """What the usual formula says: 8 bytes per hash and document, for the share of bands in one iteration."""
        share = self.banding.bands_per_iteration / self.banding.num_bands
        return int(self.documents * 8 * self.banding.num_hashes * share)

    def check(self) -> None:
        """Refuse what cannot fit: the one list that is held as a whole."""
        needed = self.documents * _CANDIDATE_BYTES
        if needed > self.memory_budget:
            raise InputError(
                f"about {self.documents:,} documents (if they have {_MEAN_DOCUMENT_BYTES} bytes on average) times "
                f"{_CANDIDATE_BYTES} bytes for a candidate is {human_bytes(needed)}, more than "
                f"memory_budget={human_bytes(self.memory_budget)}. Give it more, or deduplicate in parts with an index."
            )

    def describe(self) -> str:
        """Say it in words."""
        banding = self.banding
        share = f"{banding.bands_per_iteration}/{banding.num_bands} bands"
        held = human_bytes(self.record_bytes * _TIMES_RECORD // self.partitions)
        return "\n".join(
            [
                f"Fuzzy deduplication of {human_bytes(self.text_bytes)} of text, about {self.documents:,} documents",
                f"  {banding.num_bands} bands of {banding.minhashes_per_band}, "
                f"{banding.bands_per_iteration} at a time, {banding.num_hashes} hashes of {banding.bits} bits",
                f"  by the usual formula (8 bytes x {banding.num_hashes} hashes x documents x {share}): "
                f"{human_bytes(self.usual_formula_bytes)} at once",
                f"  here: {human_bytes(self.record_bytes)} of band hashes a round, on disk in {self.partitions} "
                f"partitions, {held} held by a worker; texts of candidates in {self.text_partitions} partitions",
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
