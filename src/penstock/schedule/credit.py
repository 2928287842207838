"""Bytes in flight: never more than the budget, and never a deadlock.

Between pool i and i+1 lies an edge. Each edge owns a private credit, enough for one whole batch of the pool behind it;
what is left of the budget is shared. What a pool gives out is stored only after its bytes were acquired, from the
shared part first, else from the edge's own, and they are released when the task that consumed it has finished.

Why it cannot deadlock: the last pool always consumes. A pool that waits for credit faces an edge whose private credit
is full, so at least one whole batch lies there; the pool behind it works on that batch or can, finishes by the same
argument, and gives the bytes back. What fits nowhere although nothing behind it moves (an item larger than the budget
leaves room for, everything in front of a barrier, pools that take turns on one GPU) goes to disk instead, takes no
credit, and is counted, so that it can be said aloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class Edge:
    """What lies between two pools."""

    private: int
    batch_size: int = 1
    # Whether the pool behind it begins only when everything has come, so that no credit could be enough.
    spills: bool = False
    largest: int = 0
    # Bytes held, by where they were taken from.
    held_private: int = 0
    held_shared: int = 0

    @property
    def batch_bytes(self) -> int:
        """What a whole batch of the largest items takes; of one that is everything there is, an item is enough."""
        return self.largest * (1 if self.spills else self.batch_size)


class Charge(NamedTuple):
    """What was acquired for some bytes, to be given back as it is."""

    edge: int
    shared: int = 0
    private: int = 0
    # Stored without having been granted: beyond the budget.
    forced: int = 0

    @property
    def total(self) -> int:
        """All bytes of the charge."""
        return self.shared + self.private + self.forced

    def plus(self, other: Charge) -> Charge:
        """Return both together; they are of one edge."""
        return Charge(self.edge, self.shared + other.shared, self.private + other.private, self.forced + other.forced)

    def split(self, size: int) -> tuple[Charge, Charge]:
        """Cut in two, the first for so many bytes; what is beyond the budget goes last."""
        shared = min(size, self.shared)
        private = min(size - shared, self.private)
        forced = min(size - shared - private, self.forced)
        rest = Charge(self.edge, self.shared - shared, self.private - private, self.forced - forced)
        return Charge(self.edge, shared, private, forced), rest


class Credits:
    """A budget, and who holds how much of it."""

    def __init__(self, budget: int, batch_sizes: Sequence[int], spills: Sequence[bool] = ()) -> None:
        """Divide a budget over edges; ``batch_sizes`` are those of the pools behind each edge."""
        self.budget = budget
        # The most bytes held at any time.
        self.peak = 0
        # Bytes held beyond the budget, because a backend stored what it was not granted.
        self.forced = 0
        # How many outputs went to disk for want of room.
        self.spilled = 0
        # Nothing is known about sizes yet: half of the budget is private, in equal parts.
        share = budget // (2 * len(batch_sizes)) if batch_sizes else 0
        spills = spills or [False] * len(batch_sizes)
        self.edges = [Edge(share, size, spill) for size, spill in zip(batch_sizes, spills, strict=True)]
        self._private = share * len(batch_sizes)
        self._held_shared = 0
        self._held_private = 0

    @property
    def held(self) -> int:
        """Bytes held on all edges."""
        return self._held_shared + self._held_private + self.forced

    @property
    def shared_free(self) -> int:
        """Bytes of the shared part that nobody holds."""
        return max(0, self.budget - self._private - self._held_shared)

    def available(self, edge: int, *, shared_only: bool = False) -> int:
        """Return how many bytes could be acquired for an edge right now.

        ``shared_only`` leaves the private credit to somebody the pool behind is waiting for.
        """
        own = self.edges[edge]
        return self.shared_free + (0 if shared_only else own.private - own.held_private)

    def keeps_within_private(self, edge: int) -> bool:
        """Tell whether an edge holds no more than what is its own anyway."""
        own = self.edges[edge]
        return own.held_private + own.held_shared <= own.private

    def overflow(self, edge: int, size: int) -> float:
        """Return which share of so many bytes has no room on an edge even while nobody shares with it.

        >>> Credits(100, [1]).overflow(0, 400)
        0.75
        """
        room = self.room(edge)
        return 0.0 if self.edges[edge].spills or size <= room else 1 - room / size

    def room(self, edge: int) -> int:
        """Return how many bytes an edge could hold if it had all that is shared."""
        return max(0, self.budget - (self._private - self.edges[edge].private))

    def acquire(self, edge: int, size: int, *, shared_only: bool = False) -> Charge | None:
        """Take credit for some bytes; None if there is none now.

        >>> credits = Credits(100, [1, 1])
        >>> credits.acquire(0, 60)
        Charge(edge=0, shared=50, private=10, forced=0)
        >>> credits.acquire(0, 20) is None
        True
        """
        self._grow(edge)
        if size > self.available(edge, shared_only=shared_only):
            return None
        return self.reserve(edge, size, shared_only=shared_only)

    def reserve(self, edge: int, size: int, *, shared_only: bool = False) -> Charge:
        """Take up to so many bytes ahead of outputs whose sizes nobody knows yet."""
        size = min(size, self.available(edge, shared_only=shared_only))
        shared = min(size, self.shared_free)
        self._hold(edge, shared, size - shared)
        return Charge(edge, shared, size - shared)

    def force(self, edge: int, size: int) -> Charge:
        """Take what there is, and the rest beyond the budget: it is stored already."""
        within = self.reserve(edge, size)
        self.forced += size - within.total
        self.peak = max(self.peak, self.held)
        return within._replace(forced=size - within.total)

    def release(self, charge: Charge) -> None:
        """Give credit back."""
        self._hold(charge.edge, -charge.shared, -charge.private)
        self.forced -= charge.forced

    def learn(self, edge: int, size: int) -> None:
        """Keep the private credit of an edge large enough for a whole batch of the largest item seen on it."""
        own = self.edges[edge]
        if size <= own.largest:
            return
        own.largest = size
        self._grow(edge)
        if all(other.largest for other in self.edges):
            # Every edge knows its sizes now: what was set apart in ignorance goes to the shared part.
            for other in self.edges:
                self._resize(other, min(other.private, max(other.batch_bytes, other.held_private)))

    def _grow(self, edge: int) -> None:
        """Let an edge have what a batch of its largest items needs, as far as the shared part has it to give."""
        own = self.edges[edge]
        missing = own.batch_bytes - own.private
        if missing > 0:
            self._resize(own, own.private + min(missing, self.shared_free))

    def _resize(self, edge: Edge, private: int) -> None:
        self._private += private - edge.private
        edge.private = private

    def _hold(self, edge: int, shared: int, private: int) -> None:
        own = self.edges[edge]
        own.held_shared += shared
        own.held_private += private
        self._held_shared += shared
        self._held_private += private
        self.peak = max(self.peak, self.held)
