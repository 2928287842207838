"""The nodes by name with their free resources, and the placement of workers on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources
from penstock.schedule.pack import (
    SEARCH_STEPS,
    FreeCapacity,
    Memo,
    Memos,
    Space,
    Step,
    free_node,
    packing_order,
    search,
)

# The memo of node states is cleared when it exceeds this many entries.
_MAX_MEMO_ENTRIES = 100_000


@dataclass(frozen=True)
class Placement:
    """The node and GPUs of one worker."""

    node: str
    gpus: tuple[int, ...] = ()


class Nodes:
    """The nodes of the cluster and the free resources of each. The only record of the cluster in a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._free: dict[str, FreeCapacity] = {}
        self._empty: dict[str, Node] = {}
        # The names of the nodes by their free resources, in the order of arrival: many nodes are in the same state.
        self._alike: dict[FreeCapacity, dict[str, None]] = {}
        # Cached results about such states; all copies of these nodes share them.
        self._memos: Memos = {}
        # Derived from the nodes; None after a change.
        self._cluster: Cluster | None = None
        self._empty_space: tuple[Sequence[tuple[Resources, Placement]], Space] | None = None
        for node in cluster.nodes:
            self.add(node)

    @property
    def cluster(self) -> Cluster:
        """The machines as they are when empty."""
        if self._cluster is None:
            self._cluster = Cluster(tuple(self._empty.values()))
        return self._cluster

    def empty_space(self, withheld: Sequence[tuple[Resources, Placement]] = ()) -> Space:
        """Return the space of the machines without any worker, less the ``withheld`` places."""
        if self._empty_space is None or self._empty_space[0] != withheld:
            nodes = Nodes(self.cluster)
            for need, placement in withheld:
                nodes.take(need, placement)
            self._empty_space = (tuple(withheld), nodes.space())
        return self._empty_space[1]

    def copy(self) -> Nodes:
        """Return a copy that can be changed without changing these nodes."""
        twin = Nodes(Cluster(()))
        twin._cluster = self._cluster
        twin._free = dict(self._free)
        twin._empty = self._empty
        twin._alike = {free: dict(names) for free, names in self._alike.items()}
        twin._memos = self._memos
        return twin

    def place(self, need: Resources) -> Placement | None:
        """Place a worker on the most suitable node; None if it fits on no node."""
        best = self._best(need)
        if best is None:
            return None
        name = next(iter(self._alike[best]))
        after, gpus = best.take(need)
        self._set(name, after)
        return Placement(name, gpus)

    def _best(self, need: Resources) -> FreeCapacity | None:
        """Return the most suitable node state for a worker; the first of equals."""
        memo = self._memos.setdefault(need, Memo())
        best, best_preference = None, None
        for free in self._alike:
            room = memo.room.get(free)
            if room is None:
                room = memo.learn(free, need)
            if room:
                value = memo.preference[free]
                if best_preference is None or value < best_preference:
                    best, best_preference = free, value
        return best

    def place_all(self, counts: Sequence[tuple[Resources, int]]) -> list[list[Placement]]:
        """Place workers of several kinds, the hardest to place first; return the placements found for each kind."""
        hardest = sorted(range(len(counts)), key=lambda i: packing_order(counts[i][0]))
        trial = self.copy()
        places = trial._place_greedily(counts, hardest)
        if sum(map(len, places)) < sum(count for _, count in counts):
            path = search(self.space(), [counts[i] for i in hardest], SEARCH_STEPS)
            if path is not None:
                places = self._replay(counts, hardest, path)
        for (need, _), found in zip(counts, places, strict=True):
            for placement in found:
                self.take(need, placement)
        return places

    def _place_greedily(self, counts: Sequence[tuple[Resources, int]], hardest: Sequence[int]) -> list[list[Placement]]:
        places: list[list[Placement]] = [[] for _ in counts]
        for i in hardest:
            need, count = counts[i]
            while len(places[i]) < count and (place := self.place(need)) is not None:
                places[i].append(place)
        return places

    def _replay(
        self, counts: Sequence[tuple[Resources, int]], hardest: Sequence[int], path: Sequence[Step]
    ) -> list[list[Placement]]:
        """Turn the result of a search over node states into placements on named nodes."""
        trial = self.copy()
        places: list[list[Placement]] = [[] for _ in counts]
        steps = iter(path)
        for i in hardest:
            for _ in range(counts[i][1]):
                free, gpus = next(steps)
                places[i].append(Placement(next(iter(trial._alike[free])), gpus))
                trial.take(counts[i][0], places[i][-1])
        return places

    def take(self, need: Resources, placement: Placement) -> bool:
        """Occupy a place; False if it is not free."""
        free = self._free.get(placement.node)
        if free is None or not free.has_room_at(need, placement.gpus):
            return False
        self._set(placement.node, free.take_at(need, placement.gpus))
        return True

    def release(self, need: Resources, placement: Placement) -> None:
        """Free the resources of a worker."""
        free = self._free.get(placement.node)
        if free is not None:
            self._set(placement.node, free.released(need, placement.gpus))

    def add(self, node: Node) -> None:
        """Add a node."""
        self._empty[node.name] = node
        self._cluster = self._empty_space = None
        self._set(node.name, free_node(node))

    def remove(self, name: str) -> None:
        """Remove a node that is lost or left out."""
        self._empty.pop(name, None)
        self._cluster = self._empty_space = None
        self._set(name, None)

    def can_do_without(self, name: str, needs: Sequence[Resources]) -> bool:
        """Tell whether a worker of every kind fits on some other node."""
        others = Cluster(tuple(node for other, node in self._empty.items() if other != name))
        return all(others.why_not(need) is None for need in needs)

    def free(self) -> Mapping[str, FreeCapacity]:
        """Return the free resources of each node."""
        return self._free

    def space(self) -> Space:
        """Return the free resources, with equal nodes counted together."""
        if sum(len(memo.room) for memo in self._memos.values()) > _MAX_MEMO_ENTRIES:
            self._memos.clear()
        return Space({free: len(names) for free, names in self._alike.items()}, self._memos)

    def _set(self, name: str, free: FreeCapacity | None) -> None:
        before = self._free.pop(name, None)
        if before is not None:
            del self._alike[before][name]
            if not self._alike[before]:
                del self._alike[before]
        if free is not None:
            self._free[name] = free
            self._alike.setdefault(free, {})[name] = None
