"""A run at one moment, as numbers for people: what the terminal, a log line and a page show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolSnapshot:
    """One pool at one moment."""

    name: str
    stages: tuple[str, ...]
    # Workers that can work, and workers the plan wants.
    ready: int
    wanted: int
    items_per_second: float
    queue: int
    # Bytes that wait in front of this pool or are being worked on in it.
    held_bytes: int
    # Which share of the last moments its workers were busy, 0 to 1.
    busy: float
    done: int
    remaining: float
    # Seconds until it has nothing left to do; None while nobody knows.
    eta_seconds: float | None


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one moment."""

    pipeline: str
    elapsed: float
    pools: tuple[PoolSnapshot, ...]
    held_bytes: int
    budget_bytes: int
    # The pool that decides how fast everything is, what it lacks ("GPUs", "CPUs"), how near the plan is to the best.
    bottleneck: str | None
    bound_by: str
    efficiency: float
    failed: int = 0
    eta_seconds: float | None = None
