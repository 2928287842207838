"""Credits: keep the bytes in flight within the budget, without deadlock.

Between pool i and i+1 there is an edge. Each edge owns a private credit, enough for one whole batch of the pool
downstream; the rest of the budget is shared. An output of a pool is stored only after its bytes were acquired, from the
shared part first, else from the edge's own. They are released when the task that consumed the output has finished.

Why it cannot deadlock: the last pool always consumes. If a pool waits for credit, the private credit of its edge is
full, so at least one whole batch is stored there. The pool downstream runs that batch or can run it, finishes by the
same argument, and releases the bytes. An output that does not fit although nothing downstream moves (an item larger
than the budget allows, all input of a barrier, pools that take turns on one GPU) is spilled to disk. It takes no credit
and is counted, so that it can be reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class Edge:
    """The bytes stored between two neighbouring pools."""

    private: int
    batch_size: int = 1
    # Whether the pool downstream waits for all of its input, so that no credit would be enough.
    spills: bool = False
    largest: int = 0
    # Bytes held, by the part of the budget they were taken from.
    held_private: int = 0
    held_shared: int = 0

    @property
    def batch_bytes(self) -> int:
        """The size of a batch of the largest items; for an edge that spills, the size of one item."""
        return self.largest * (1 if self.spills else self.batch_size)


class Charge(NamedTuple):
    """Credit acquired for some bytes, to be released in the same parts."""

    edge: int
    shared: int = 0
    private: int = 0
    # Bytes stored without credit, beyond the budget.
    forced: int = 0

    @property
    def total(self) -> int:
        """All bytes of the charge."""
        return self.shared + self.private + self.forced

    def plus(self, other: Charge) -> Charge:
        """Return the sum of two charges of the same edge."""
        return Charge(self.edge, self.shared + other.shared, self.private + other.private, self.forced + other.forced)

    def split(self, size: int) -> tuple[Charge, Charge]:
        """Split into a charge of ``size`` bytes and the rest; bytes beyond the budget are used last."""
        shared = min(size, self.shared)
        private = min(size - shared, self.private)
        forced = min(size - shared - private, self.forced)
        rest = Charge(self.edge, self.shared - shared, self.private - private, self.forced - forced)
        return Charge(self.edge, shared, private, forced), rest


class Credits:
    """The memory budget, and how much each edge holds of it."""

    def __init__(self, budget: int, batch_sizes: Sequence[int], spills: Sequence[bool] = ()) -> None:
        """Divide a budget over edges; ``batch_sizes`` are those of the pools downstream of each edge."""
        self.budget = budget
        # The most bytes held at any time.
        self.peak = 0
        # Bytes held beyond the budget, because a backend stored what it was not granted.
        self.forced = 0
        # The number of outputs spilled to disk.
        self.spilled = 0
        # Sizes are unknown at first: half of the budget is private, in equal parts.
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
        """Free bytes of the shared part."""
        return max(0, self.budget - self._private - self._held_shared)

    def available(self, edge: int, *, shared_only: bool = False) -> int:
        """Return how many bytes could be acquired for an edge right now.

        ``shared_only`` leaves the private credit to outputs that the pool downstream is waiting for.
        """
        own = self.edges[edge]
        return self.shared_free + (0 if shared_only else own.private - own.held_private)

    def keeps_within_private(self, edge: int) -> bool:
        """Tell whether an edge holds no more bytes than its private credit."""
        own = self.edges[edge]
        return own.held_private + own.held_shared <= own.private

    def overflow(self, edge: int, size: int) -> float:
        """Return the share of ``size`` bytes that does not fit on an edge even if it has all of the shared part.

        >>> Credits(100, [1]).overflow(0, 400)
        0.75
        """
        capacity = self.capacity(edge)
        return 0.0 if self.edges[edge].spills or size <= capacity else 1 - capacity / size

    def capacity(self, edge: int) -> int:
        """Return how many bytes an edge can hold if it has all of the shared part."""
        return max(0, self.budget - (self._private - self.edges[edge].private))

    def acquire(self, edge: int, size: int, *, shared_only: bool = False) -> Charge | None:
        """Acquire credit for some bytes; None if there is not enough now.

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
        """Acquire up to ``size`` bytes before the sizes of the outputs are known."""
        size = min(size, self.available(edge, shared_only=shared_only))
        shared = min(size, self.shared_free)
        self._hold(edge, shared, size - shared)
        return Charge(edge, shared, size - shared)

    def force(self, edge: int, size: int) -> Charge:
        """Acquire what is available, and count the rest beyond the budget: the bytes are stored already."""
        within = self.reserve(edge, size)
        self.forced += size - within.total
        self.peak = max(self.peak, self.held)
        return within._replace(forced=size - within.total)

    def release(self, charge: Charge) -> None:
        """Release credit."""
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
            # The sizes of every edge are known now: the excess of the initial division is returned to the shared part.
            for other in self.edges:
                self._resize(other, min(other.private, max(other.batch_bytes, other.held_private)))

    def _grow(self, edge: int) -> None:
        """Enlarge the private credit of an edge to a batch of its largest items, as far as the shared part allows."""
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
