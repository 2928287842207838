"""The state of a run as plain data: pools, workers, items and batches. Owned by the scheduler."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from penstock.core.resources import Resources
from penstock.schedule.actions import Action, Selection
from penstock.schedule.credit import Charge, Credits
from penstock.schedule.estimate import PoolEstimate
from penstock.schedule.nodes import Nodes, Placement

if TYPE_CHECKING:
    from penstock.schedule.frontier import Frontier
    from penstock.schedule.recovery import Recovery

Order = tuple[int, ...]

# The most batches a worker holds besides the running one.
MAX_AHEAD = 64


@dataclass(frozen=True)
class PoolSpec:
    """The planned properties of a pool."""

    name: str
    need: Resources = field(default_factory=Resources)
    batch_size: int = 1
    # A fixed number of workers; None: the scheduler decides.
    workers: int | None = None
    # It starts only after everything upstream has ended.
    barrier: bool = False
    timeout_s: float | None = None
    max_tasks_per_worker: int | None = None
    max_lifetime_s: float | None = None
    restart_interval_s: float = 0.0
    max_resident_growth: int | None = None
    # Measurements of an earlier run, if there was one: seconds per item; output items and bytes per input item; seconds
    # until a worker is ready. They have the weight of one task, so that a run begins balanced and adapts quickly.
    expected_seconds: float | None = None
    expected_fan_out: float | None = None
    expected_output_bytes: float | None = None
    expected_start_up_s: float | None = None
    # How long a worker may wait for its resources; None: as in the settings of the run.
    place_timeout_s: float | None = None


@dataclass(frozen=True)
class Settings:
    """The scheduling settings of a run."""

    memory_budget: int
    autoscale_interval_s: float = 180.0
    max_attempts: int = 3
    # The round-trip time of a message to a worker; it decides how many batches a worker holds ahead.
    round_trip_s: float = 0.0005
    # Every pool waits for the one before it to end.
    batch_mode: bool = False
    # How long a worker may wait for its resources, which processes outside the run may occupy; None: they are available
    # at once. And how long it may take after that until it is ready.
    place_timeout_s: float | None = None
    start_timeout_s: float = 3600.0
    # A worker that has sent nothing for this long is asked whether it still runs; a run without an active worker ends.
    stall_timeout_s: float = 600.0
    # How long the answer may take, and how long a worker may take to stop, or to end after it was killed.
    answer_timeout_s: float = 60.0
    stop_timeout_s: float = 30.0


class Status(Enum):
    """The status of a worker."""

    STARTING = "starting"
    READY = "ready"
    # It stops after its assigned batches.
    DRAINING = "draining"
    STOPPING = "stopping"


@dataclass
class WorkerState:
    """One worker of a pool."""

    id: str
    pool: int
    placement: Placement
    started_at: float
    status: Status = Status.STARTING
    # When it got its resources; None: it still waits for them.
    placed_at: float | None = None
    # Whether it has ever been ready.
    is_up: bool = False
    ready_at: float = 0.0
    # Its assigned batches: the first is running, the others wait.
    batches: deque[Batch] = field(default_factory=deque)
    # When the running batch began, plus the time it has waited for credit.
    running_since: float = 0.0
    worked_before_waiting: float = 0.0
    waits_for_credit: bool = False
    # When it last reported on the running batch, and when it was asked after that; None: it was not asked.
    heard_at: float = 0.0
    asked_at: float | None = None
    # Since when it is stopping, and whether it was killed.
    stopping_since: float = 0.0
    is_killed: bool = False
    # Whether its resources are occupied by processes outside the run.
    place_is_taken: bool = False
    # The number of batches under which it is listed in ``PoolState.by_load``; None: it is not listed.
    filed_under: int | None = None
    # The overdue batch it is being killed for, and the reason; it counts as busy until it has ended.
    overdue: tuple[int, str] | None = None
    # The worker that is stopped when this one is ready.
    replaces: str | None = None
    is_replaced: bool = False
    tasks_done: int = 0
    first_resident_bytes: int = 0
    resident_bytes: int = 0

    @property
    def is_staff(self) -> bool:
        """Whether it counts as a worker of its pool: it is starting or ready."""
        return self.status in (Status.STARTING, Status.READY)


def item_key(pool: int, item_id: str) -> str:
    """Return the key of an item in the queue of a pool."""
    return f"{pool}/{item_id}"


@dataclass
class Item:
    """A task as the scheduler sees it: in the queue of a pool, or in a batch of it."""

    id: str
    order: Order
    pool: int
    size: int = 0
    rows: int = 1
    charge: Charge | None = None
    # The batch that emitted it, None for initial items; and the batch that consumes it, once there is one.
    made_by: Batch | None = field(default=None, repr=False, compare=False)
    batch: Batch | None = field(default=None, repr=False, compare=False)
    # Whether its stored data was lost and is being regenerated.
    is_lost: bool = False
    # The node that stores it.
    node: str | None = None

    def __post_init__(self) -> None:
        """Set the key by which a backend identifies it: the same id may occur in several pools."""
        self.key = item_key(self.pool, self.id)


@dataclass(eq=False)
class Batch:
    """Items that a worker processes together; retries have the same items."""

    id: int
    pool: int
    items: tuple[Item, ...]
    attempts: int = 0
    # Of those, the ones that exceeded the time limit.
    attempts_that_hung: int = 0
    charge: Charge | None = None
    emitted: set[str] = field(default_factory=set)
    selections: tuple[Selection, ...] = ()
    # The current search for rows that cannot be processed, and the number of searches that found none.
    recovery: Recovery | None = None
    fruitless_searches: int = 0
    # How often its worker was killed for a reason that need not be the batch.
    unexplained_deaths: int = 0
    # How often its worker did not answer a question about the batch.
    unanswered: int = 0
    # The number of rows at each step of its chain where it has failed.
    rows_at: dict[int, int] = field(default_factory=dict)
    # Whether it is done; it is reopened when one of its outputs was lost.
    is_closed: bool = False
    is_again: bool = False
    # Lost items that it waits for; lost outputs that it has to emit again; and those requested of the current attempt.
    missing: frozenset[str] = frozenset()
    owed: frozenset[str] = frozenset()
    asked_for: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Set the batch of the items."""
        for item in self.items:
            item.batch = self

    @property
    def order(self) -> Order:
        """The position among other batches: that of its first item."""
        return self.items[0].order

    @property
    def rows(self) -> int:
        """The number of rows of all its items."""
        return sum(item.rows for item in self.items)

    @property
    def is_probe(self) -> bool:
        """Whether it is run only to find out which rows can be processed."""
        return self.recovery is not None


@dataclass
class PoolState:
    """The state of a pool: its queue, workers and measurements."""

    index: int
    spec: PoolSpec
    # A heap of the items that may be taken, by position.
    waiting: list[tuple[Order, str]] = field(default_factory=list)
    # Items of an ordered queue that arrived before an item with an earlier position: see Frontier.
    early: list[tuple[Order, str]] = field(default_factory=list)
    ordered: bool = False
    retries: deque[Batch] = field(default_factory=deque)
    workers: dict[str, WorkerState] = field(default_factory=dict)
    # Ready workers by the number of batches they hold, in the order in which they reached that number.
    by_load: list[dict[str, None]] = field(default_factory=lambda: [{} for _ in range(MAX_AHEAD + 2)])
    # Workers that wait for credit to store an output: the batch, and the missing bytes.
    wants: dict[str, tuple[Batch, int]] = field(default_factory=dict)
    wants_in_order: list[tuple[Order, str]] = field(default_factory=list)
    wanted: int = 0
    # The number of workers in the last plan.
    needed: int = 0
    # The number of ready and starting workers.
    staffed: int = 0
    # The number of starting workers.
    starting: int = 0
    # The most workers it can have, after the setup of more has failed; None: no limit.
    ceiling: int | None = None
    # The number of items in this pool: waiting, or in a batch.
    items: int = 0
    done: int = 0
    estimate: PoolEstimate = field(default_factory=PoolEstimate)
    # The number of running batches, and the sum of their start times, from which the sum of their ages follows.
    running: int = 0
    running_since: float = 0.0
    # When a worker of it last waited for credit.
    waited_at: float = -inf
    setup_failures: int = 0
    # How often a worker did not get its resources in time.
    unplaced: int = 0
    # The number of finished batches, and of workers killed for an unknown reason.
    survived: int = 0
    unexplained_deaths: int = 0
    has_lost_workers: bool = False
    last_recycled: float = -inf

    def __post_init__(self) -> None:
        """Start from the measurements of an earlier run."""
        self.estimate.expect(
            self.spec.batch_size,
            self.spec.expected_seconds,
            self.spec.expected_fan_out,
            self.spec.expected_output_bytes,
            self.spec.expected_start_up_s,
        )

    @property
    def idle(self) -> dict[str, None]:
        """Ready workers without a batch."""
        return self.by_load[0]

    @property
    def queued(self) -> int:
        """The number of items that are not in a batch yet."""
        return len(self.waiting) + len(self.early)

    @property
    def in_hand(self) -> int:
        """The number of items in batches, running or waiting for a retry."""
        return self.items - self.queued

    def push(self, item: Item) -> None:
        """Add an item to the queue."""
        heapq.heappush(self.early if self.ordered else self.waiting, (item.order, item.key))

    def pop(self) -> str:
        """Remove and return the first item of the queue."""
        return heapq.heappop(self.waiting)[1]

    def least_busy(self) -> list[WorkerState]:
        """Return the workers that may be stopped, the least busy first.

        Starting workers come last: their start-up time would be wasted.
        """
        staff = [worker for worker in self.workers.values() if worker.is_staff]
        return sorted(staff, key=lambda worker: (not worker.is_up, len(worker.batches), -worker.started_at, worker.id))

    def age_in_flight(self, now: float) -> float:
        """Return the sum of the ages of all running batches."""
        return max(0.0, self.running * now - self.running_since)

    def rate(self, now: float) -> float | None:
        """Return the items per second of one worker, running batches included; None while unknown."""
        return self.estimate.rate.rate([self.age_in_flight(now)], self.running)


@dataclass
class RunState:
    """The whole state of one run. Only the scheduler changes it, in response to events."""

    settings: Settings
    pools: list[PoolState]
    nodes: Nodes
    credits: Credits
    frontiers: dict[int, Frontier]
    # For each pool, the nearest pool downstream that takes its items in order.
    next_ordered: list[int | None]
    now: float = 0.0
    # When the run last made progress: a worker became ready, an output was stored, a batch ended. And the same without
    # workers becoming ready.
    moved_at: float = 0.0
    worked_at: float = 0.0
    # Whether a worker is busy, is set up for existing work, or is torn down after work; and when one last was.
    is_active: bool = False
    active_at: float = 0.0
    # When to check next for workers that have not reported in time.
    next_check: float = inf
    # Places occupied from outside the run: until when they are not used, the pool that wanted them, the place.
    withheld: list[tuple[float, int, Placement]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    workers: dict[str, WorkerState] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    # Pools before this one have no items left, and none can arrive.
    first_open: int = 0
    # The number of busy workers, and of starting or stopping ones. If both are 0, no event will come by itself.
    busy: int = 0
    in_transition: int = 0
    # A heap of the deadlines of running batches: the time, the worker, the batch.
    deadlines: list[tuple[float, str, int]] = field(default_factory=list)
    # Places where workers are to be started, by node; and the nodes on which resources may have become free.
    pending: dict[str, list[tuple[int, Placement]]] = field(default_factory=dict)
    freed: dict[str, None] = field(default_factory=dict)
    # The reason to make a plan; None: there is none.
    reason_to_plan: str | None = None
    results: int = 0
    dead: int = 0
    abandoned: int = 0
    stopping: bool = False
    # The error that ends the run, such as a stage whose setup always fails.
    fatal: str | None = None
    shutting_down: bool = False
    batch_count: int = 0
    worker_count: int = 0
    # The pool of every worker, kept after the worker has ended, for its late messages.
    pool_of: dict[str, int] = field(default_factory=dict)
    # Failures on each node since a batch was last finished there; and the quarantined nodes.
    blamed: dict[str, set[str]] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)
    # Whether the run began with one empty task, from which a source makes the others.
    begins_with_root: bool = False

    def ask_for_plan(self, reason: str) -> None:
        """Request a plan; the first reason is the one recorded."""
        self.reason_to_plan = self.reason_to_plan or reason

    def want_at(self, pool: int, placement: Placement) -> None:
        """Start a worker at a place as soon as it is free."""
        self.pending.setdefault(placement.node, []).append((pool, placement))
        self.freed[placement.node] = None

    def waits_for_all(self, pool: PoolState) -> bool:
        """Tell whether a pool may not begin yet, because a pool upstream has not ended."""
        return (pool.spec.barrier or self.settings.batch_mode) and self.first_open < pool.index

    def is_last(self, index: int) -> bool:
        """Tell whether this is the last pool, whose outputs are the results of the run."""
        return index + 1 == len(self.pools)
