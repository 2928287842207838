"""Bytes in flight: never more than the budget, and never a deadlock.

Between pool i and i+1 lies an edge. Each edge owns a private credit, enough for one whole batch of the pool behind it;
what is left of the budget is shared. What a pool gives out is stored only after its bytes were acquired, from the
shared part first, else from the edge's own, and they are released when the task that consumed it has finished.

Why it cannot deadlock: the last pool always consumes. A pool that waits for credit faces an edge whose private credit
is full, so at least one whole batch lies there; the pool behind it works on that batch or can, finishes by the same
argument, and gives the bytes back. An item that fits nowhere although nothing behind it moves is let through alone
(``force``), and counted, so that it can be said aloud.
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
    largest: int = 0
    # Bytes held, by where they were taken from.
    held_private: int = 0
    held_shared: int = 0


class Charge(NamedTuple):
    """What was acquired for some bytes, to be given back as it is."""

    edge: int
    shared: int = 0
    private: int = 0
    # Held beyond the budget: an item that is larger than what the budget leaves for it.
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

    def __init__(self, budget: int, batch_sizes: Sequence[int]) -> None:
        """Divide a budget over edges; ``batch_sizes`` are those of the pools behind each edge."""
        self.budget = budget
        self.peak = 0
        self.forced = 0
        self.times_forced = 0
        # Nothing is known about sizes yet: half of the budget is private, in equal parts.
        share = budget // (2 * len(batch_sizes)) if batch_sizes else 0
        self.edges = [Edge(private=share, batch_size=size) for size in batch_sizes]
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

    def available(self, edge: int) -> int:
        """Return how many bytes could be acquired for an edge right now."""
        own = self.edges[edge]
        return self.shared_free + max(0, own.private - own.held_private)

    def acquire(self, edge: int, size: int, *, shared_only: bool = False) -> Charge | None:
        """Take credit for some bytes; None if there is none now.

        ``shared_only`` leaves the private credit to somebody the pool behind is waiting for.

        >>> credits = Credits(100, [1, 1])
        >>> credits.acquire(0, 60)
        Charge(edge=0, shared=15, private=45, forced=0)
        >>> credits.acquire(0, 20) is None
        True
        """
        self.learn(edge, size)
        if size > (self.shared_free if shared_only else self.available(edge)):
            return None
        shared = min(size, self.shared_free)
        self._hold(edge, shared, size - shared)
        return Charge(edge, shared, size - shared)

    def reserve(self, edge: int, size: int, *, shared_only: bool = False) -> Charge:
        """Take up to so many bytes ahead of outputs whose sizes nobody knows yet."""
        size = min(size, self.shared_free if shared_only else self.available(edge))
        shared = min(size, self.shared_free)
        self._hold(edge, shared, size - shared)
        return Charge(edge, shared, size - shared)

    def force(self, edge: int, size: int) -> Charge:
        """Take what there is, and the rest beyond the budget."""
        have = min(size, self.available(edge))
        shared = min(have, self.shared_free)
        self.forced += size - have
        self.times_forced += size > have
        self._hold(edge, shared, have - shared)
        return Charge(edge, shared, have - shared, size - have)

    def release(self, charge: Charge) -> None:
        """Give credit back."""
        self._hold(charge.edge, -charge.shared, -charge.private)
        self.forced -= charge.forced

    def _hold(self, edge: int, shared: int, private: int) -> None:
        own = self.edges[edge]
        own.held_shared += shared
        own.held_private += private
        self._held_shared += shared
        self._held_private += private
        self.peak = max(self.peak, self.held)

    def learn(self, edge: int, size: int) -> None:
        """Keep the private credit of an edge large enough for a whole batch of the largest item seen on it."""
        own = self.edges[edge]
        if size <= own.largest:
            return
        own.largest = size
        needed = own.batch_size * size
        if needed > own.private:
            self._resize(own, own.private + min(needed - own.private, self.shared_free))
        if all(other.largest for other in self.edges):
            # Every edge knows its sizes now: what was set apart in ignorance goes to the shared part.
            for other in self.edges:
                self._resize(other, min(other.private, max(other.batch_size * other.largest, other.held_private)))

    def _resize(self, edge: Edge, private: int) -> None:
        self._private += private - edge.private
        edge.private = private
