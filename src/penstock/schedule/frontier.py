"""Up to where a queue is complete: nothing that comes before this point can still arrive.

A stage that takes several tasks at a time must be given the same tasks together whatever the timing, or the same input
would not give the same bytes. So its queue is let through in lineage order, and only as far as everything earlier has
either arrived or is known not to come.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import inf

from penstock.schedule.state import Item, Order

Mark = tuple[float, ...]


class Frontier:
    """Knows, for one pool, the items upstream of it, and the first position at which each may still give something."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._heap: list[tuple[Mark, str]] = []

    def enter(self, item: Item) -> None:
        """Note an item somewhere upstream: what comes of it stands where it stands, or behind."""
        self._set(item.key, item.order)

    def advance(self, item: Item, given: Order) -> None:
        """Note that an item has given something at a position: the next thing it gives stands behind that."""
        if item.key in self._marks:
            self._set(item.key, max(self._marks[item.key], (*given, inf)))

    def leave(self, item: Item) -> None:
        """Note that an item upstream has been worked on; what it became has been entered before."""
        self._marks.pop(item.key, None)

    def passed(self, order: Order) -> bool:
        """Tell whether nothing before this position, or at it, can still come."""
        first = self._first()
        return first is None or order < first[0]

    def waits_for(self, items: Iterable[Item]) -> bool:
        """Tell whether the next thing in order will come from one of these items."""
        first = self._first()
        return first is None or any(item.key == first[1] for item in items)

    def _first(self) -> tuple[Mark, str] | None:
        while self._heap and self._marks.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _set(self, key: str, mark: Mark) -> None:
        self._marks[key] = mark
        heapq.heappush(self._heap, (mark, key))
