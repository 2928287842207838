"""Decide whether workers fit onto machines, and where each is placed.

Nodes in the same state are one group with a count, so that a thousand equal machines cost no more than one. A worker
takes CPUs and memory of its node and either a share of one GPU or several whole ones; a share is never rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, inf
from typing import NamedTuple

from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources

_EPSILON = 1e-9
# Steps of a search for a packing.
SEARCH_STEPS = 2_000
# There is no search for more workers than this.
_MAX_SEARCH_WORKERS = 64
# Node states looked at in one search, and the number of steps that a search has at least.
_MAX_SEARCHED_STATES = 20_000
_MIN_SEARCH_STEPS = 20


class FreeGpu(NamedTuple):
    """The free share of one GPU, and its total memory."""

    share: float
    memory_gb: float


class FreeCapacity(NamedTuple):
    """The free resources of a node."""

    cpus: float
    memory_gb: float
    gpus: tuple[FreeGpu, ...]

    def room_for(self, need: Resources) -> int:
        """Return how many workers with these needs fit here.

        >>> FreeCapacity(4, 16, (FreeGpu(1.0, 80),)).room_for(Resources(cpus=1, gpu_memory_gb=20))
        4
        """
        return self.room_beside(need, gpu_room(self.gpus, need))

    def room_beside(self, need: Resources, on_gpus: float) -> int:
        """Return how many workers with these needs fit here, if ``on_gpus`` fit on the GPUs."""
        smallest = min(on_gpus, _ratio(self.cpus, need.cpus), _ratio(self.memory_gb, need.memory_gb or 0.0))
        return 0 if smallest == 0 else int(min(smallest, 10**9))

    def take(self, need: Resources) -> tuple[FreeCapacity, tuple[int, ...]]:
        """Return the free resources after adding a worker that fits, and the GPUs it gets."""
        chosen = self._choose_gpus(need)
        return self.take_at(need, chosen), chosen

    def take_at(self, need: Resources, chosen: Sequence[int]) -> FreeCapacity:
        """Return the free resources after adding a worker on certain GPUs."""
        gpus = list(self.gpus)
        for index in chosen:
            gpus[index] = FreeGpu(_exact(gpus[index].share - _share(need, gpus[index])), gpus[index].memory_gb)
        return FreeCapacity(
            _exact(self.cpus - need.cpus), _exact(self.memory_gb - (need.memory_gb or 0.0)), tuple(gpus)
        )

    def has_room_at(self, need: Resources, chosen: Sequence[int]) -> bool:
        """Tell whether another worker fits on certain GPUs."""
        return (
            self.cpus + _EPSILON >= need.cpus
            and self.memory_gb + _EPSILON >= (need.memory_gb or 0.0)
            and all(self.gpus[index].share + _EPSILON >= _share(need, self.gpus[index]) for index in chosen)
        )

    def less(self, need: Resources, count: int, gpus: tuple[FreeGpu, ...]) -> FreeCapacity:
        """Return the free resources after adding several workers that leave these GPUs."""
        cpus, memory = self.cpus - need.cpus * count, self.memory_gb - (need.memory_gb or 0.0) * count
        return FreeCapacity(_exact(cpus), _exact(memory), gpus)

    def released(self, need: Resources, gpus: Sequence[int]) -> FreeCapacity:
        """Return the free resources after removing a worker."""
        left = list(self.gpus)
        for index in gpus:
            left[index] = FreeGpu(_exact(left[index].share + _share(need, left[index])), left[index].memory_gb)
        return FreeCapacity(
            _exact(self.cpus + need.cpus), _exact(self.memory_gb + (need.memory_gb or 0.0)), tuple(left)
        )

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
        return (min(fitting)[1],)  # best fit: the fullest GPU that has room


def free_node(node: Node) -> FreeCapacity:
    """Return the free resources of an empty node."""
    return FreeCapacity(node.cpus, node.memory_gb, tuple(FreeGpu(1.0, gpu.memory_gb) for gpu in node.gpus))


@dataclass
class Memo:
    """Cached results for one kind of worker: the same node states occur many times."""

    room: dict[FreeCapacity, int] = field(default_factory=dict)
    preference: dict[FreeCapacity, tuple[float, ...]] = field(default_factory=dict)
    # Results for the GPUs alone: nodes differ in their CPUs far more often.
    gpu_room: dict[tuple[FreeGpu, ...], float] = field(default_factory=dict)
    gpus_left: dict[tuple[tuple[FreeGpu, ...], int], tuple[FreeGpu, ...]] = field(default_factory=dict)

    def learn(self, free: FreeCapacity, need: Resources) -> int:
        """Compute and cache how many workers fit on a node in this state, and how suitable it is."""
        on_gpus = self.gpu_room.get(free.gpus)
        if on_gpus is None:
            on_gpus = self.gpu_room[free.gpus] = gpu_room(free.gpus, need)
        room = self.room[free] = free.room_beside(need, on_gpus)
        if room:
            self.preference[free] = preference(free, need)
        return room

    def after(self, free: FreeCapacity, need: Resources, count: int) -> FreeCapacity:
        """Return the free resources of a node after adding several workers."""
        gpus = self.gpus_left.get((free.gpus, count))
        if gpus is None:
            gpus = self.gpus_left[free.gpus, count] = gpus_without(free.gpus, need, count)
        return free.less(need, count, gpus)


Memos = dict[Resources, Memo]


@dataclass
class Space:
    """The free resources of all nodes, with equal nodes counted together."""

    groups: dict[FreeCapacity, int] = field(default_factory=dict)
    _memos: Memos = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, cluster: Cluster) -> Space:
        """Return the space of an empty cluster."""
        kinds = Counter((node.cpus, node.memory_gb, node.gpus) for node in cluster.nodes)
        return cls({free_node(Node("", *kind)): nodes for kind, nodes in kinds.items()})

    def copy(self) -> Space:
        """Return a copy that can be changed without changing this space."""
        return Space(dict(self.groups), self._memos)

    def place(self, need: Resources, count: int) -> int:
        """Place up to ``count`` workers, and return how many were placed."""
        memo = self._memos.setdefault(need, Memo())
        fitting = []
        for free in self.groups:
            room = memo.room.get(free)
            if room is None:
                room = memo.learn(free, need)
            if room:
                fitting.append(free)
        fitting.sort(key=memo.preference.__getitem__)
        placed = 0
        for free in fitting:
            if placed == count:
                break
            placed += self._place_in(free, need, count - placed, memo)
        return placed

    def room_for(self, need: Resources) -> int:
        """Return how many workers with these needs fit if no others are added."""
        return sum(free.room_for(need) * nodes for free, nodes in self.groups.items())

    def change(self, before: FreeCapacity, after: FreeCapacity) -> None:
        """Record that the state of one node has changed."""
        self._add(before, -1)
        self._add(after, 1)

    def _place_in(self, free: FreeCapacity, need: Resources, count: int, memo: Memo) -> int:
        room, nodes = memo.room[free], self.groups[free]
        full_nodes = min(nodes, count // room)
        rest = min(room, count - full_nodes * room) if full_nodes < nodes else 0
        for workers, how_many in ((room, full_nodes), (rest, 1 if rest else 0)):
            if how_many:
                self._add(free, -how_many)
                self._add(memo.after(free, need, workers), how_many)
        return full_nodes * room + rest

    def _add(self, free: FreeCapacity, nodes: int) -> None:
        count = self.groups.get(free, 0) + nodes
        if count:
            self.groups[free] = count
        else:
            del self.groups[free]


def packs(
    cluster: Cluster,
    counts: Sequence[tuple[Resources, int]],
    space: Space | None = None,
    *,
    search_steps: int = SEARCH_STEPS,
) -> bool:
    """Tell whether these numbers of workers fit at the same time.

    First the workers are placed greedily, the largest first; if that fails, other packings are searched, with at most
    ``search_steps`` steps.

    >>> from penstock.core.cluster import Gpu
    >>> machine = Cluster((Node("a", 8, 64, (Gpu(80), Gpu(80))),))
    >>> packs(machine, [(Resources(gpus=1), 1), (Resources(gpus=0.5), 2)])
    True
    >>> packs(machine, [(Resources(gpus=0.6), 3)])
    False
    """
    together: dict[Resources, int] = {}
    for need, count in counts:
        if count:
            together[need] = together.get(need, 0) + count
    ordered = sorted(together.items(), key=lambda entry: packing_order(entry[0]))
    space = Space.of(cluster) if space is None else space
    if not may_pack(space, ordered):
        return False
    trial = space.copy()
    if all(trial.place(need, count) == count for need, count in ordered):
        return True
    return search(space, ordered, search_steps) is not None


def may_pack(space: Space, counts: Sequence[tuple[Resources, int]]) -> bool:
    """Tell whether the workers fit if all nodes are counted as one; if not, a search is useless."""
    cpus = sum(free.cpus * nodes for free, nodes in space.groups.items())
    shares = sum(gpu.share * nodes for free, nodes in space.groups.items() for gpu in free.gpus)
    largest = max((gpu.memory_gb for free in space.groups for gpu in free.gpus), default=1.0)
    needs_cpus = sum(need.cpus * count for need, count in counts)
    needs_shares = sum(need.gpu_share(largest) * count for need, count in counts)
    return needs_cpus <= cpus + _EPSILON and needs_shares <= shares + _EPSILON


# The placement of one worker in a search: the state of its node before, and the GPUs it gets.
Step = tuple[FreeCapacity, tuple[int, ...]]


def search(space: Space, counts: Sequence[tuple[Resources, int]], max_steps: int) -> list[Step] | None:
    """Search for a packing, worker by worker, also on less suitable nodes; None if none is found in ``max_steps``."""
    if sum(count for _, count in counts) > _MAX_SEARCH_WORKERS:
        return None
    workers = [need for need, count in counts for _ in range(count)]
    # A step looks at every node state: with many states there are fewer steps.
    max_steps = min(max_steps, max(_MIN_SEARCH_STEPS, _MAX_SEARCHED_STATES // max(1, len(space.groups))))
    steps = 0
    stack: list[tuple[Space, list[Step]]] = [(space.copy(), [])]
    seen: set[tuple[frozenset[tuple[FreeCapacity, int]], int]] = set()
    while stack and steps < max_steps:
        state, path = stack.pop()
        if len(path) == len(workers):
            return path
        key = (frozenset(state.groups.items()), len(path))
        if key in seen:
            continue
        seen.add(key)
        need = workers[len(path)]
        for free in sorted(state.groups, key=lambda free: preference(free, need), reverse=True):
            for left, gpus in _every_way(free, need):
                steps += 1
                after = state.copy()
                after.change(free, left)
                stack.append((after, [*path, (free, gpus)]))
    return None


def _every_way(free: FreeCapacity, need: Resources) -> list[tuple[FreeCapacity, tuple[int, ...]]]:
    """Return the possible states of a node after adding a worker: for a GPU share, one for each GPU with room."""
    if not free.room_for(need):
        return []
    if not need.requires_gpu or need.gpus > 1:
        return [free.take(need)]
    fitting = (i for i, gpu in enumerate(free.gpus) if free.has_room_at(need, (i,)))
    ways = {free.take_at(need, (i,)): (i,) for i in fitting}
    return list(ways.items())


def packing_order(need: Resources) -> tuple[float, ...]:
    """Return a sort key: the hardest to place first (many GPUs, then large shares, then many CPUs)."""
    return (-need.gpus, -need.gpu_memory_gb, -need.cpus, -(need.memory_gb or 0.0))


def preference(free: FreeCapacity, need: Resources) -> tuple[float, ...]:
    """Return a sort key for nodes: CPU workers on nodes without GPUs, GPU workers where the fewest GPUs are free."""
    if not need.requires_gpu:
        return (len(free.gpus), free.cpus)
    if need.gpus > 1:
        return (_whole(free.gpus), free.cpus)
    return (sum(gpu.share for gpu in free.gpus), free.cpus)


def gpu_room(gpus: Sequence[FreeGpu], need: Resources) -> float:
    """Return how many workers fit on the GPUs of a node, ignoring other resources."""
    if not need.requires_gpu:
        return inf
    if need.gpus > 1:
        return _whole(gpus) // int(need.gpus)
    return sum(_ratio(gpu.share, need.gpu_share(gpu.memory_gb)) for gpu in gpus)


def gpus_without(gpus: tuple[FreeGpu, ...], need: Resources, count: int) -> tuple[FreeGpu, ...]:
    """Return the free GPUs of a node after adding several workers."""
    if need.gpus > 1:
        return _without_whole(gpus, int(need.gpus) * count)
    return _without_shares(gpus, need, count) if need.requires_gpu else gpus


def _without_whole(gpus: Sequence[FreeGpu], count: int) -> tuple[FreeGpu, ...]:
    left = []
    for gpu in gpus:
        taken = count > 0 and gpu.share >= 1 - _EPSILON
        count -= taken
        left.append(FreeGpu(0.0, gpu.memory_gb) if taken else gpu)
    return tuple(left)


def _without_shares(gpus: Sequence[FreeGpu], need: Resources, count: int) -> tuple[FreeGpu, ...]:
    """Fill the fullest GPU that has room before the next one, as repeated best fit does."""
    left = list(gpus)
    for index in sorted(range(len(left)), key=lambda i: left[i].share - need.gpu_share(left[i].memory_gb)):
        share = need.gpu_share(left[index].memory_gb)
        here = min(count, int(_ratio(left[index].share, share)))
        left[index] = FreeGpu(_exact(left[index].share - here * share), left[index].memory_gb)
        count -= here
    return tuple(left)


def _share(need: Resources, gpu: FreeGpu) -> float:
    return 1.0 if need.gpus > 1 else need.gpu_share(gpu.memory_gb)


def _whole(gpus: Sequence[FreeGpu]) -> int:
    return sum(gpu.share >= 1 - _EPSILON for gpu in gpus)


def _exact(amount: float) -> float:
    """Round off floating-point errors, so that equal nodes stay equal and a full node is full."""
    return round(amount, 9)


def _ratio(have: float, need: float) -> float:
    return inf if need == 0 else floor(have / need + _EPSILON)
