"""What the scheduler knows: pools, workers, items, batches. Plain data, changed only by the scheduler."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from penstock.core.resources import Resources
from penstock.schedule.actions import Selection
from penstock.schedule.credit import Charge
from penstock.schedule.estimate import PoolEstimate
from penstock.schedule.pack import Placement

Order = tuple[int, ...]


@dataclass(frozen=True)
class PoolSpec:
    """What a pool is, as planned."""

    name: str
    need: Resources = field(default_factory=Resources)
    batch_size: int = 1
    # A fixed number of workers; None: as many as keep up.
    workers: int | None = None
    # Nothing starts before everything upstream has ended.
    barrier: bool = False
    timeout_s: float | None = None
    max_tasks_per_worker: int | None = None
    max_lifetime_s: float | None = None
    restart_interval_s: float = 0.0
    max_resident_growth: int | None = None


@dataclass(frozen=True)
class Settings:
    """How a run is to be scheduled."""

    memory_budget: int
    autoscale_interval_s: float = 180.0
    max_attempts: int = 3
    # How long a message to a worker and back takes: decides how much a worker is given ahead.
    round_trip_s: float = 0.0005
    # Every pool waits for the one before it to end.
    batch_mode: bool = False


class Status(Enum):
    """What a worker is doing."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


@dataclass
class Worker:
    """One worker of a pool."""

    id: str
    pool: int
    placement: Placement
    started_at: float
    status: Status = Status.STARTING
    ready_at: float = 0.0
    # What it was given: the first runs, the others wait in front of it.
    batches: deque[Batch] = field(default_factory=deque)
    running_since: float = 0.0
    waits_for_credit: bool = False
    tasks_done: int = 0
    first_resident_bytes: int = 0
    resident_bytes: int = 0


def item_key(pool: int, item_id: str) -> str:
    """Return the name of an item in the queue of a pool."""
    return f"{pool}/{item_id}"


@dataclass
class Item:
    """Something on its way: in the queue of a pool, or in a batch of it."""

    id: str
    order: Order
    pool: int
    size: int = 0
    rows: int = 1
    charge: Charge | None = None

    @property
    def key(self) -> str:
        """What a backend calls it: a stage may keep an id, so the pool is part of the name."""
        return item_key(self.pool, self.id)

    @property
    def source(self) -> Order:
        """The source item it descends from, as a position."""
        return self.order[:2]


@dataclass
class Batch:
    """Items that a worker takes together; it keeps its members through every attempt."""

    id: int
    pool: int
    items: tuple[Item, ...]
    attempts: int = 0
    charge: Charge | None = None
    emitted: set[str] = field(default_factory=set)
    outputs: int = 0
    selections: tuple[Selection, ...] = ()
    probe: bool = False

    @property
    def order(self) -> Order:
        """Where it stands among others: its first item decides."""
        return self.items[0].order


@dataclass
class Pool:
    """A pool at work."""

    index: int
    spec: PoolSpec
    waiting: list[tuple[Order, str]] = field(default_factory=list)
    retries: deque[Batch] = field(default_factory=deque)
    workers: dict[str, Worker] = field(default_factory=dict)
    # Ready workers that can take a batch at once, in the order they became free.
    idle: dict[str, None] = field(default_factory=dict)
    wanted: int = 0
    # How many workers it has or is getting, those on their way out not counted.
    staffed: int = 0
    # Items that are in this pool: waiting, or in a batch.
    items: int = 0
    done: int = 0
    estimate: PoolEstimate = field(default_factory=PoolEstimate)
    # Sum of start times of what runs, and their number: gives the age of everything in flight at once.
    running: int = 0
    running_since: float = 0.0
    setup_failures: int = 0
    last_recycled: float = float("-inf")
    # A queue in lineage order is let through only as far as nothing earlier can still come: see Frontier.
    ordered: bool = False

    def push(self, item: Item) -> None:
        """Put an item into the queue."""
        heapq.heappush(self.waiting, (item.order, item.key))

    def pop(self) -> str:
        """Take the first item of the queue."""
        return heapq.heappop(self.waiting)[1]

    def least_busy(self) -> list[Worker]:
        """Return the workers that may be let go, those first that would be missed least."""
        staff = [worker for worker in self.workers.values() if worker.status in (Status.STARTING, Status.READY)]
        return sorted(staff, key=lambda worker: (len(worker.batches), -worker.started_at, worker.id))

    def age_in_flight(self, now: float) -> float:
        """Return the ages of all running batches, added up."""
        return max(0.0, self.running * now - self.running_since)
