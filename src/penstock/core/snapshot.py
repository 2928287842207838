"""The state of a run at one moment, as shown in the terminal, in log lines and on the status page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolSnapshot:
    """One pool at one moment."""

    name: str
    stages: tuple[str, ...]
    # Workers that are ready, and workers in the plan.
    ready: int
    wanted: int
    items_per_second: float
    queue: int
    # Bytes in the queue of this pool and in its running batches.
    held_bytes: int
    # The share of recent time in which its workers were busy, 0 to 1.
    busy: float
    done: int
    remaining: float
    # Seconds until it has nothing left to do; None while unknown.
    eta_seconds: float | None


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one moment."""

    pipeline: str
    elapsed: float
    pools: tuple[PoolSnapshot, ...]
    held_bytes: int
    budget_bytes: int
    # The slowest pool, the resource it lacks ("GPUs", "CPUs"), and the speed of the plan relative to the optimum.
    bottleneck: str | None
    bound_by: str
    efficiency: float
    failed: int = 0
    eta_seconds: float | None = None
