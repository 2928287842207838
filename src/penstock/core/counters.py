"""Counters of each stage of a run; counters of several workers add up."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class StageCounters:
    """Totals of one stage. Counters of the same stage from two workers add up."""

    stage: str
    tasks: int = 0
    items_in: int = 0
    items_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    # How often the stage raised, retried attempts included; and the number of items in the dead-letter file.
    errors: int = 0
    failed: int = 0
    rejected: int = 0
    # What the items are called ("documents", "files"); empty before the first task.
    noun_in: str = ""
    noun_out: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    # Rows that reached the stage, were processed, were set aside, and came out: ``conservation`` compares them. Of
    # stages merged into one step, the first counts for all of them.
    rows_in: int = 0
    rows_processed: int = 0
    rows_failed: int = 0
    rows_out: int = 0

    def add(self, other: StageCounters) -> None:
        """Add what another worker counted for the same stage."""
        self.tasks += other.tasks
        self.items_in += other.items_in
        self.items_out += other.items_out
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.seconds += other.seconds
        self.errors += other.errors
        self.failed += other.failed
        self.rejected += other.rejected
        self.noun_in = self.noun_in or other.noun_in
        self.noun_out = self.noun_out or other.noun_out
        for name, value in other.metrics.items():
            self.metrics[name] = self.metrics.get(name, 0.0) + value
        self.rows_in += other.rows_in
        self.rows_processed += other.rows_processed
        self.rows_failed += other.rows_failed
        self.rows_out += other.rows_out

    @property
    def dropped(self) -> int:
        """Items that went in and did not come out, where both are of one kind. Failed items are not counted."""
        same_kind = self.noun_out in ("", self.noun_in)
        return max(0, self.items_in - self.items_out - self.failed) if same_kind else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the totals as plain data."""
        fields = {name: value for name, value in asdict(self).items() if not name.startswith("rows_")}
        return {**fields, "dropped": self.dropped}


@dataclass(frozen=True)
class PartCount:
    """Counts of one part of a merged stage for one task; a merged stage reports each of its parts."""

    items_in: int
    items_out: int
    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
