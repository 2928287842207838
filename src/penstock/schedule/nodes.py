"""The nodes by name: which worker is where, and where the next ones go."""

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

# So much is remembered about states of nodes, and no more.
_MANY_STATES = 100_000


@dataclass(frozen=True)
class Placement:
    """Where one worker runs."""

    node: str
    gpus: tuple[int, ...] = ()


class Nodes:
    """The nodes by name, with what is free on each: where real workers are put."""

    def __init__(self, cluster: Cluster) -> None:
        self._free: dict[str, FreeCapacity] = {}
        self._empty: dict[str, Node] = {}
        # The same the other way round, since many nodes look alike: all names in one state, in the order they came.
        self._alike: dict[FreeCapacity, dict[str, None]] = {}
        # What was worked out about such states before; all copies of these nodes share it.
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
        """Return nodes that can be filled without changing these."""
        twin = Nodes(Cluster(()))
        twin._cluster = self._cluster
        twin._free = dict(self._free)
        twin._empty = self._empty
        twin._alike = {free: dict(names) for free, names in self._alike.items()}
        twin._memos = self._memos
        return twin

    def place(self, need: Resources) -> Placement | None:
        """Put a worker on the node that suits it best; None if it fits nowhere."""
        best = self._best(need)
        if best is None:
            return None
        name = next(iter(self._alike[best]))
        after, gpus = best.take(need)
        self._set(name, after)
        return Placement(name, gpus)

    def _best(self, need: Resources) -> FreeCapacity | None:
        """Return the state of the nodes that suit a worker best, the first of equals."""
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
        """Put workers of several kinds somewhere, the hardest first; as many of each as found a place."""
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
        """Turn what a search found for kinds of nodes into places on certain ones."""
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
        """Put a worker at a certain place; False if that is not free."""
        free = self._free.get(placement.node)
        if free is None or not free.has_room_at(need, placement.gpus):
            return False
        self._set(placement.node, free.take_at(need, placement.gpus))
        return True

    def release(self, need: Resources, placement: Placement) -> None:
        """Give back what a worker had."""
        free = self._free.get(placement.node)
        if free is not None:
            self._set(placement.node, free.give_back(need, placement.gpus))

    def add(self, node: Node) -> None:
        """Take a new node in."""
        self._empty[node.name] = node
        self._cluster = self._empty_space = None
        self._set(node.name, free_node(node))

    def remove(self, name: str) -> None:
        """Forget a node that is gone."""
        self._empty.pop(name, None)
        self._cluster = self._empty_space = None
        self._set(name, None)

    def can_do_without(self, name: str, needs: Sequence[Resources]) -> bool:
        """Tell whether workers of every kind would find a place if a node were not there."""
        others = Cluster(tuple(node for other, node in self._empty.items() if other != name))
        return all(others.why_not(need) is None for need in needs)

    def free(self) -> Mapping[str, FreeCapacity]:
        """Return what is free on each node."""
        return self._free

    def space(self) -> Space:
        """Return what is free, equal nodes counted together."""
        if sum(len(memo.room) for memo in self._memos.values()) > _MANY_STATES:
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
