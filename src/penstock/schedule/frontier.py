"""Track up to which position the queue of a pool is complete: no earlier item can still arrive.

A stage that processes several tasks at a time must always get the same tasks together, whatever the timing, or the same
input would not result in the same bytes. So its queue is consumed in lineage order, and only as far as every earlier
item has arrived or is known not to come.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import inf

from penstock.schedule.state import Item, Order

Mark = tuple[float, ...]


class Frontier:
    """For one pool, the items upstream of it and the first position at which each may still produce an output."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._heap: list[tuple[Mark, str]] = []

    def enter(self, item: Item) -> None:
        """Add an item upstream; its outputs have its position or a later one."""
        self._set(item.key, item.order)

    def advance(self, item: Item, emitted: Order) -> None:
        """Record that an item has emitted an output at a position; its next output comes after that."""
        if item.key in self._marks:
            self._set(item.key, max(self._marks[item.key], (*emitted, inf)))

    def leave(self, item: Item) -> None:
        """Remove an item upstream that has been processed; its outputs have been added before."""
        self._marks.pop(item.key, None)

    def passed(self, order: Order) -> bool:
        """Tell whether no item at or before this position can still arrive."""
        first = self._first()
        return first is None or order < first[0]

    def waits_for(self, items: Iterable[Item]) -> bool:
        """Tell whether the next output in order will come from one of these items."""
        first = self._first()
        return first is None or any(item.key == first[1] for item in items)

    def _first(self) -> tuple[Mark, str] | None:
        while self._heap and self._marks.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _set(self, key: str, mark: Mark) -> None:
        self._marks[key] = mark
        heapq.heappush(self._heap, (mark, key))
