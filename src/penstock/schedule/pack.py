"""Whether workers fit onto machines, and where each goes.

Nodes in the same state are one group with a count, so that a thousand equal machines cost no more than one. A worker
takes CPUs and memory of its node and either a share of one GPU or several whole ones; a share is never rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf
from typing import NamedTuple

from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources

_EPSILON = 1e-9
_SEARCH_STEPS = 5_000


class FreeGpu(NamedTuple):
    """What is left of one GPU: a share of it, and how large the whole is."""

    share: float
    memory_gb: float


class Free(NamedTuple):
    """What is left of a node."""

    cpus: float
    memory_gb: float
    gpus: tuple[FreeGpu, ...]

    def room_for(self, need: Resources) -> int:
        """Return how many such workers still fit here.

        >>> Free(4, 16, (FreeGpu(1.0, 80),)).room_for(Resources(cpus=1, gpu_memory_gb=20))
        4
        """
        limits = [_ratio(self.cpus, need.cpus), _ratio(self.memory_gb, need.memory_gb or 0.0)]
        if need.requires_gpu:
            limits.append(self._gpu_room(need))
        smallest = min(limits)
        return 0 if smallest == 0 else int(min(smallest, 10**9))

    def _gpu_room(self, need: Resources) -> float:
        if need.gpus > 1:
            return _whole(self.gpus) // int(need.gpus)
        return sum(_ratio(gpu.share, need.gpu_share(gpu.memory_gb)) for gpu in self.gpus)

    def take(self, need: Resources) -> tuple[Free, tuple[int, ...]]:
        """Return what is left after one worker more, and which GPUs it got; the caller knows that it fits."""
        chosen = self._choose_gpus(need)
        gpus = list(self.gpus)
        for index in chosen:
            share = 1.0 if need.gpus > 1 else need.gpu_share(gpus[index].memory_gb)
            gpus[index] = FreeGpu(_exact(gpus[index].share - share), gpus[index].memory_gb)
        left = Free(_exact(self.cpus - need.cpus), _exact(self.memory_gb - (need.memory_gb or 0.0)), tuple(gpus))
        return left, chosen

    def take_many(self, need: Resources, count: int) -> Free:
        """Return what is left after several workers more, as if they were taken one by one."""
        gpus = self.gpus
        if need.gpus > 1:
            gpus = _without_whole(gpus, int(need.gpus) * count)
        elif need.requires_gpu:
            gpus = _without_shares(gpus, need, count)
        cpus, memory = self.cpus - need.cpus * count, self.memory_gb - (need.memory_gb or 0.0) * count
        return Free(_exact(cpus), _exact(memory), gpus)

    def give_back(self, need: Resources, gpus: Sequence[int]) -> Free:
        """Return what is left after a worker is gone."""
        left = list(self.gpus)
        for index in gpus:
            share = 1.0 if need.gpus > 1 else need.gpu_share(left[index].memory_gb)
            left[index] = FreeGpu(_exact(left[index].share + share), left[index].memory_gb)
        return Free(_exact(self.cpus + need.cpus), _exact(self.memory_gb + (need.memory_gb or 0.0)), tuple(left))

    def _choose_gpus(self, need: Resources) -> tuple[int, ...]:
        if not need.requires_gpu:
            return ()
        if need.gpus > 1:
            whole = [i for i, gpu in enumerate(self.gpus) if gpu.share >= 1 - _EPSILON]
            return tuple(whole[: int(need.gpus)])
        fitting = [
            (gpu.share - need.gpu_share(gpu.memory_gb), i)
            for i, gpu in enumerate(self.gpus)
            if gpu.share + _EPSILON >= need.gpu_share(gpu.memory_gb)
        ]
        return (min(fitting)[1],)  # best fit: the fullest one that still has room


def free_node(node: Node) -> Free:
    """Return the state of a node on which nothing runs."""
    return Free(node.cpus, node.memory_gb, tuple(FreeGpu(1.0, gpu.memory_gb) for gpu in node.gpus))


@dataclass
class Space:
    """What is free on all nodes, equal ones counted together."""

    groups: dict[Free, int] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster) -> Space:
        """Return the space of an empty cluster."""
        space = cls()
        kinds = Counter((node.cpus, node.memory_gb, node.gpus) for node in cluster.nodes)
        for (cpus, memory_gb, gpus), nodes in kinds.items():
            space._add(free_node(Node("", cpus, memory_gb, gpus)), nodes)
        return space

    def copy(self) -> Space:
        """Return a space that can be filled without changing this one."""
        return Space(dict(self.groups))

    def place(self, need: Resources, count: int) -> int:
        """Put up to so many workers somewhere, and return how many found a place."""
        placed = 0
        for free in sorted(self.groups, key=lambda free: _preference(free, need)):
            if placed == count:
                break
            placed += self._place_in(free, need, count - placed)
        return placed

    def room_for(self, need: Resources) -> int:
        """Return how many such workers fit if nothing else comes."""
        return sum(free.room_for(need) * nodes for free, nodes in self.groups.items())

    def change(self, before: Free, after: Free) -> None:
        """Note that one node has another state now."""
        self._add(before, -1)
        self._add(after, 1)

    def _place_in(self, free: Free, need: Resources, count: int) -> int:
        room = free.room_for(need)
        if room == 0:
            return 0
        nodes = self.groups[free]
        full_nodes = min(nodes, count // room)
        rest = min(room, count - full_nodes * room) if full_nodes < nodes else 0
        for workers, how_many in ((room, full_nodes), (rest, 1 if rest else 0)):
            if how_many:
                left = free.take_many(need, workers)
                self._add(free, -how_many)
                self._add(left, how_many)
        return full_nodes * room + rest

    def _add(self, free: Free, nodes: int) -> None:
        self.groups[free] = self.groups.get(free, 0) + nodes
        if self.groups[free] == 0:
            del self.groups[free]


def packs(cluster: Cluster, counts: Sequence[tuple[Resources, int]], space: Space | None = None) -> bool:
    """Tell whether so many workers of each kind fit at the same time.

    >>> from penstock.core.cluster import Gpu
    >>> machine = Cluster((Node("a", 8, 64, (Gpu(80), Gpu(80))),))
    >>> packs(machine, [(Resources(gpus=1), 1), (Resources(gpus=0.5), 2)])
    True
    >>> packs(machine, [(Resources(gpus=0.6), 3)])
    False
    """
    ordered = sorted(((need, count) for need, count in counts if count), key=lambda entry: packing_order(entry[0]))
    space = Space.of(cluster) if space is None else space
    trial = space.copy()
    if all(trial.place(need, count) == count for need, count in ordered):
        return True
    workers = [need for need, count in ordered for _ in range(count)] if sum(c for _, c in ordered) <= 64 else []
    return bool(workers) and _pooled_bound(space, ordered) and _search(space, workers)


def _pooled_bound(space: Space, counts: Sequence[tuple[Resources, int]]) -> bool:
    """Tell whether everything would fit if all nodes were one; if not, no search can help."""
    cpus = sum(free.cpus * nodes for free, nodes in space.groups.items())
    shares = sum(gpu.share * nodes for free, nodes in space.groups.items() for gpu in free.gpus)
    largest = max((gpu.memory_gb for free in space.groups for gpu in free.gpus), default=1.0)
    needs_cpus = sum(need.cpus * count for need, count in counts)
    needs_shares = sum(need.gpu_share(largest) * count for need, count in counts)
    return needs_cpus <= cpus + _EPSILON and needs_shares <= shares + _EPSILON


def _search(space: Space, workers: Sequence[Resources]) -> bool:
    """Try other places than the best-looking ones, worker by worker; gives up after a bounded number of steps."""
    steps = 0
    stack = [(space.copy(), 0)]
    seen: set[tuple[frozenset[tuple[Free, int]], int]] = set()
    while stack and steps < _SEARCH_STEPS:
        state, done = stack.pop()
        if done == len(workers):
            return True
        key = (frozenset(state.groups.items()), done)
        if key in seen:
            continue
        seen.add(key)
        for free in sorted(state.groups, key=lambda free: _preference(free, workers[done]), reverse=True):
            for left in _every_way(free, workers[done]):
                steps += 1
                after = state.copy()
                after.change(free, left)
                stack.append((after, done + 1))
    return False


def _every_way(free: Free, need: Resources) -> list[Free]:
    """Return what a node may look like with one worker more: for a share, on each GPU that has room for it."""
    if not free.room_for(need):
        return []
    if not need.requires_gpu or need.gpus > 1:
        return [free.take(need)[0]]
    ways = []
    for index, gpu in enumerate(free.gpus):
        share = need.gpu_share(gpu.memory_gb)
        if gpu.share + _EPSILON >= share:
            gpus = (*free.gpus[:index], FreeGpu(_exact(gpu.share - share), gpu.memory_gb), *free.gpus[index + 1 :])
            ways.append(Free(_exact(free.cpus - need.cpus), _exact(free.memory_gb - (need.memory_gb or 0.0)), gpus))
    return list(dict.fromkeys(ways))


def packing_order(need: Resources) -> tuple[float, ...]:
    """Put what is hardest to place first: many GPUs, then large shares, then many CPUs."""
    return (-need.gpus, -need.gpu_memory_gb, -need.cpus, -(need.memory_gb or 0.0))


def _preference(free: Free, need: Resources) -> tuple[float, ...]:
    """Say where to put a worker first: CPU work where no GPU is, several GPUs where fewest are free, shares tightly."""
    if not need.requires_gpu:
        return (len(free.gpus), -free.cpus)
    if need.gpus > 1:
        return (_whole(free.gpus), free.cpus)
    return (sum(gpu.share for gpu in free.gpus), free.cpus)


def _without_whole(gpus: Sequence[FreeGpu], count: int) -> tuple[FreeGpu, ...]:
    left = []
    for gpu in gpus:
        taken = count > 0 and gpu.share >= 1 - _EPSILON
        count -= taken
        left.append(FreeGpu(0.0, gpu.memory_gb) if taken else gpu)
    return tuple(left)


def _without_shares(gpus: Sequence[FreeGpu], need: Resources, count: int) -> tuple[FreeGpu, ...]:
    """Fill the fullest GPU that has room before touching the next: what best fit does, again and again."""
    left = list(gpus)
    for index in sorted(range(len(left)), key=lambda i: left[i].share - need.gpu_share(left[i].memory_gb)):
        share = need.gpu_share(left[index].memory_gb)
        here = min(count, int(_ratio(left[index].share, share)))
        left[index] = FreeGpu(_exact(left[index].share - here * share), left[index].memory_gb)
        count -= here
    return tuple(left)


def _whole(gpus: Sequence[FreeGpu]) -> int:
    return sum(gpu.share >= 1 - _EPSILON for gpu in gpus)


def _exact(amount: float) -> float:
    """Take off what floating-point sums add, so that equal nodes stay equal and a full node is full."""
    return round(amount, 9)


def _ratio(have: float, need: float) -> float:
    return inf if need == 0 else floor(have / need + _EPSILON)


@dataclass(frozen=True)
class Placement:
    """Where one worker runs."""

    node: str
    gpus: tuple[int, ...] = ()


class Nodes:
    """The nodes by name, with what is free on each: where real workers are put."""

    def __init__(self, cluster: Cluster) -> None:
        self._free = {node.name: free_node(node) for node in cluster.nodes}

    def place(self, need: Resources, avoid: frozenset[str] = frozenset()) -> Placement | None:
        """Put a worker on the node that suits it best; None if it fits nowhere."""
        fitting = [(_preference(free, need), name) for name, free in self._free.items()
                   if name not in avoid and free.room_for(need)]  # fmt: skip
        if not fitting:
            return None
        _, name = min(fitting)
        self._free[name], gpus = self._free[name].take(need)
        return Placement(name, gpus)

    def release(self, need: Resources, placement: Placement) -> None:
        """Give back what a worker had."""
        if placement.node in self._free:
            self._free[placement.node] = self._free[placement.node].give_back(need, placement.gpus)

    def add(self, node: Node) -> None:
        """Take a new node in."""
        self._free[node.name] = free_node(node)

    def remove(self, name: str) -> None:
        """Forget a node that is gone."""
        self._free.pop(name, None)

    def free(self) -> Mapping[str, Free]:
        """Return what is free on each node."""
        return self._free

    def space(self) -> Space:
        """Return what is free, equal nodes counted together."""
        space = Space()
        for free in self._free.values():
            space._add(free, 1)
        return space

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._free)
