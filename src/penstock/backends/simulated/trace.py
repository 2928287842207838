"""What a simulation saw, for a test or a report to look at."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.schedule.actions import Action, DeadLetter
from penstock.schedule.events import Event


@dataclass
class Trace:
    """The course of one simulated run."""

    finished_at: float = 0.0
    results: list[str] = field(default_factory=list)
    result_times: list[float] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    starts: int = 0
    # The most bytes that lay between pools at any time, in memory: counted by what was stored and dropped.
    peak_bytes: int = 0
    busy_seconds: dict[int, float] = field(default_factory=dict)
    tasks: int = 0
    # Work that had to be done again: what lost workers were at, and trials whose results were thrown away.
    lost_seconds: float = 0.0
    # Items that were still stored when the run was over: somebody forgot to drop them.
    left_over: int = 0
    # Only if asked for: everything that was said, in order; and which events were handed over together.
    log: list[tuple[float, Action | Event]] = field(default_factory=list)
    handled: list[tuple[float, tuple[Event, ...]]] = field(default_factory=list)

    @property
    def actions(self) -> list[tuple[float, Action]]:
        """What the scheduler said."""
        return [(time, entry) for time, entry in self.log if isinstance(entry, Action)]

    def add_busy(self, pool: int, seconds: float) -> None:
        """Count one task that a worker worked on."""
        self.tasks += 1
        self.busy_seconds[pool] = self.busy_seconds.get(pool, 0.0) + seconds

    def add_result(self, item_id: str, time: float) -> None:
        """Count one item that came out."""
        self.results.append(item_id)
        self.result_times.append(time)
