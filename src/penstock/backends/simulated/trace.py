"""The record of a simulated run, for tests and reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.schedule.actions import Action, DeadLetter
from penstock.schedule.events import Event


@dataclass
class Trace:
    """Results and measurements of one simulated run."""

    finished_at: float = 0.0
    results: list[str] = field(default_factory=list)
    result_times: list[float] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    starts: int = 0
    # The peak bytes in memory between pools, counted from stored and dropped items.
    peak_bytes: int = 0
    busy_seconds: dict[int, float] = field(default_factory=dict)
    tasks: int = 0
    # Seconds of repeated work: batches of lost workers, and probes whose results were discarded.
    lost_seconds: float = 0.0
    # Items that were still stored at the end of the run, because the scheduler did not drop them.
    left_over: int = 0
    # With ``record``: all actions and events in order; and which events were delivered together.
    log: list[tuple[float, Action | Event]] = field(default_factory=list)
    handled: list[tuple[float, tuple[Event, ...]]] = field(default_factory=list)

    @property
    def actions(self) -> list[tuple[float, Action]]:
        """The actions of the scheduler."""
        return [(time, entry) for time, entry in self.log if isinstance(entry, Action)]

    def add_busy(self, pool: int, seconds: float) -> None:
        """Count one batch that a worker processed."""
        self.tasks += 1
        self.busy_seconds[pool] = self.busy_seconds.get(pool, 0.0) + seconds

    def add_result(self, item_id: str, time: float) -> None:
        """Count one result."""
        self.results.append(item_id)
        self.result_times.append(time)
