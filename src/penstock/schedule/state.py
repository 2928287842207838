"""What the scheduler knows: pools, workers, items, batches, and the run they belong to. Plain data."""

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

# The most batches a worker is given beside the one it runs.
MAX_AHEAD = 64


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
    # What an earlier run has shown, if there was one: seconds for one item; how many, and how many bytes, come out for
    # one that goes in; seconds until a worker is ready. They count as much as one task, so that a run begins balanced
    # and believes what it sees.
    expected_seconds: float | None = None
    expected_fan_out: float | None = None
    expected_output_bytes: float | None = None
    expected_start_up_s: float | None = None
    # How long a worker may wait for its place; None: as the settings of the run say.
    place_timeout_s: float | None = None


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
    # How long a worker may wait for the resources of its place, which others may have taken; None: workers have them at
    # once. And how long it may take after that until it is ready.
    place_timeout_s: float | None = None
    start_timeout_s: float = 3600.0
    # After that long without a word a worker is asked whether it still works; a run in which no worker works ends.
    stall_timeout_s: float = 600.0
    # How long an answer to that may take, and how long a worker may take to stop, or to end when it was killed.
    answer_timeout_s: float = 60.0
    stop_timeout_s: float = 30.0


class Status(Enum):
    """What a worker is doing."""

    STARTING = "starting"
    READY = "ready"
    # It ends after what it was given.
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
    # When it had the resources of its place; None: it still waits for them.
    placed_at: float | None = None
    # Whether it has ever been ready.
    is_up: bool = False
    ready_at: float = 0.0
    # What it was given: the first runs, the others wait in front of it.
    batches: deque[Batch] = field(default_factory=deque)
    # When the running batch was begun, later by as much as it has waited for credit.
    running_since: float = 0.0
    worked_before_waiting: float = 0.0
    waits_for_credit: bool = False
    # When it last said something about the running batch, and when it was asked about it after that, if it was.
    heard_at: float = 0.0
    asked_at: float | None = None
    # Since when it is to end, and whether it was killed for that.
    stopping_since: float = 0.0
    is_killed: bool = False
    # Whether its place turned out to be taken by others.
    place_is_taken: bool = False
    # How many batches it was seen to hold when it was put in its place among the others, if it is there.
    filed_under: int | None = None
    # The batch it is being killed for because that took too long, and the reason; it is still at work until it is gone.
    overdue: tuple[int, str] | None = None
    # The worker that goes when this one is ready.
    replaces: str | None = None
    is_replaced: bool = False
    tasks_done: int = 0
    first_resident_bytes: int = 0
    resident_bytes: int = 0

    @property
    def is_staff(self) -> bool:
        """Whether its pool counts on it."""
        return self.status in (Status.STARTING, Status.READY)


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
    # The batch it came out of, None for what a run begins with; and the one it goes into, when it does.
    made_by: Batch | None = field(default=None, repr=False, compare=False)
    batch: Batch | None = field(default=None, repr=False, compare=False)
    # Whether it is gone from where it was stored, and being made again.
    is_lost: bool = False
    # The machine it was made on, and lies on.
    node: str | None = None

    def __post_init__(self) -> None:
        """Make the name a backend knows it by: a stage may keep an id, so the pool is part of it."""
        self.key = item_key(self.pool, self.id)


@dataclass(eq=False)
class Batch:
    """Items that a worker takes together; it keeps its members through every attempt."""

    id: int
    pool: int
    items: tuple[Item, ...]
    attempts: int = 0
    charge: Charge | None = None
    emitted: set[str] = field(default_factory=set)
    selections: tuple[Selection, ...] = ()
    # The search for rows that cannot be processed, while there is one, and how many there have been.
    recovery: Recovery | None = None
    fruitless_searches: int = 0
    # How often its worker was ended by something that need not have been the batch.
    unexplained_deaths: int = 0
    # How often its worker did not answer when it was asked about the batch.
    unanswered: int = 0
    # How many rows it had at a step of its chain when it first failed there.
    rows_at: dict[int, int] = field(default_factory=dict)
    # Whether it is done; it is opened again when something it made was lost.
    is_closed: bool = False
    is_again: bool = False
    # Items it waits for, because they were lost; outputs it has to give again, and those it was asked for.
    missing: frozenset[str] = frozenset()
    owed: frozenset[str] = frozenset()
    asked_for: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Tell the items where they are."""
        for item in self.items:
            item.batch = self

    @property
    def order(self) -> Order:
        """Where it stands among others: its first item decides."""
        return self.items[0].order

    @property
    def rows(self) -> int:
        """The rows of all its items."""
        return sum(item.rows for item in self.items)

    @property
    def is_probe(self) -> bool:
        """Whether it is run only to see which rows can be processed."""
        return self.recovery is not None


@dataclass
class PoolState:
    """A pool at work."""

    index: int
    spec: PoolSpec
    # Items that may be taken, the first in order on top.
    waiting: list[tuple[Order, str]] = field(default_factory=list)
    # Items of an ordered queue that came before something that stands in front of them: see Frontier.
    early: list[tuple[Order, str]] = field(default_factory=list)
    ordered: bool = False
    retries: deque[Batch] = field(default_factory=deque)
    workers: dict[str, WorkerState] = field(default_factory=dict)
    # Ready workers by how many batches they hold, in the order they came to hold so many.
    by_load: list[dict[str, None]] = field(default_factory=lambda: [{} for _ in range(MAX_AHEAD + 2)])
    # Workers that have an output to store and no credit for it: which batch, and how many bytes more they need.
    wants: dict[str, tuple[Batch, int]] = field(default_factory=dict)
    wants_in_order: list[tuple[Order, str]] = field(default_factory=list)
    wanted: int = 0
    # How many of them the last plan cannot do without.
    needed: int = 0
    # How many workers it has or is getting, those on their way out not counted.
    staffed: int = 0
    # How many of them are not set up yet.
    starting: int = 0
    # It cannot have more workers than that: others could not be set up beside them.
    ceiling: int | None = None
    # Items that are in this pool: waiting, or in a batch.
    items: int = 0
    done: int = 0
    estimate: PoolEstimate = field(default_factory=PoolEstimate)
    # Number of batches being worked on, and the sum of their beginnings: gives the age of all at once.
    running: int = 0
    running_since: float = 0.0
    # When a worker of it last waited for room to store what it has made.
    waited_at: float = -inf
    setup_failures: int = 0
    # How often a worker did not get its place in time.
    unplaced: int = 0
    # How often a worker came through what it was given, and how often it was ended by who knows whom.
    survived: int = 0
    unexplained_deaths: int = 0
    has_lost_workers: bool = False
    last_recycled: float = -inf

    def __post_init__(self) -> None:
        """Take in what was known before."""
        self.estimate.expect(
            self.spec.batch_size,
            self.spec.expected_seconds,
            self.spec.expected_fan_out,
            self.spec.expected_output_bytes,
            self.spec.expected_start_up_s,
        )

    @property
    def idle(self) -> dict[str, None]:
        """Ready workers that have nothing to do."""
        return self.by_load[0]

    @property
    def queued(self) -> int:
        """Items that nobody was given yet."""
        return len(self.waiting) + len(self.early)

    @property
    def in_hand(self) -> int:
        """Items that workers were given, or will be given again."""
        return self.items - self.queued

    def push(self, item: Item) -> None:
        """Put an item into the queue."""
        heapq.heappush(self.early if self.ordered else self.waiting, (item.order, item.key))

    def pop(self) -> str:
        """Take the first item of the queue."""
        return heapq.heappop(self.waiting)[1]

    def least_busy(self) -> list[WorkerState]:
        """Return the workers that may be let go, those first that would be missed least.

        One that still starts goes last: all its start-up would be wasted.
        """
        staff = [worker for worker in self.workers.values() if worker.is_staff]
        return sorted(staff, key=lambda worker: (not worker.is_up, len(worker.batches), -worker.started_at, worker.id))

    def age_in_flight(self, now: float) -> float:
        """Return the ages of all running batches, added up."""
        return max(0.0, self.running * now - self.running_since)

    def rate(self, now: float) -> float | None:
        """Return items per second of one worker, what runs right now included; None while nobody knows."""
        return self.estimate.rate.rate([self.age_in_flight(now)], self.running)


@dataclass
class RunState:
    """Everything about one run; changed only by what the scheduler does in answer to events."""

    settings: Settings
    pools: list[PoolState]
    nodes: Nodes
    credits: Credits
    frontiers: dict[int, Frontier]
    # For each pool, the nearest one behind it that takes its items in order.
    next_ordered: list[int | None]
    now: float = 0.0
    # When work last went on: a worker came up, an output was stored, a batch ended. And the same without the first.
    moved_at: float = 0.0
    worked_at: float = 0.0
    # Whether a worker works, is being set up for work that is there, or is torn down after work; and when one last was.
    is_active: bool = False
    active_at: float = 0.0
    # When to look next for workers that have not answered in time.
    next_check: float = inf
    # Places that others have taken: until when they are left alone, the pool that wanted them, the place.
    withheld: list[tuple[float, int, Placement]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    workers: dict[str, WorkerState] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    # Pools before this one have nothing left, and nothing can come to them.
    first_open: int = 0
    # Workers at work; workers that start or stop. When both are 0, nothing will happen by itself.
    busy: int = 0
    in_transition: int = 0
    # When running batches have to be done: the time, the worker, the batch.
    deadlines: list[tuple[float, str, int]] = field(default_factory=list)
    # Places that workers are to be started at, by node; and the nodes on which that may have become possible.
    pending: dict[str, list[tuple[int, Placement]]] = field(default_factory=dict)
    freed: dict[str, None] = field(default_factory=dict)
    # Why a plan should be made, if there is a reason.
    reason_to_plan: str | None = None
    results: int = 0
    dead: int = 0
    abandoned: int = 0
    stopping: bool = False
    # Set when the run cannot go on at all, such as a stage whose setup fails every time.
    fatal: str | None = None
    shutting_down: bool = False
    batch_count: int = 0
    worker_count: int = 0
    # Which pool a worker was of, also after it is gone: for what it said last.
    pool_of: dict[str, int] = field(default_factory=dict)
    # What speaks against a machine since something was last finished there; and machines that get no more work.
    blamed: dict[str, set[str]] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)
    # Whether the run began with one empty task that a source makes others from.
    begins_with_root: bool = False

    def ask_for_plan(self, reason: str) -> None:
        """Want a plan; the first reason given is the one recorded."""
        self.reason_to_plan = self.reason_to_plan or reason

    def want_at(self, pool: int, placement: Placement) -> None:
        """Let a worker be started at a place as soon as that is free."""
        self.pending.setdefault(placement.node, []).append((pool, placement))
        self.freed[placement.node] = None

    def waits_for_all(self, pool: PoolState) -> bool:
        """Tell whether a pool may not begin yet because something upstream has not ended."""
        return (pool.spec.barrier or self.settings.batch_mode) and self.first_open < pool.index

    def is_last(self, index: int) -> bool:
        """Tell whether what this pool gives are results."""
        return index + 1 == len(self.pools)
