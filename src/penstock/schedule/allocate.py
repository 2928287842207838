"""Compute how many workers each pool gets, so that all remaining work ends soonest.

Pool i with n workers of rate r (items per second each) and w remaining items finishes in w / (n r). The slowest pool
decides. So start from the minimum; add a worker to the slowest pool; stop when that worker does not fit. That is
optimal (any better plan needs at least that worker too). It is found by bisection over the common speed instead of one
worker at a time, so that a thousand machines take milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from penstock.core.cluster import Cluster
from penstock.core.resources import Resources
from penstock.schedule.pack import Space, may_pack, packs

_EPSILON = 1e-9
_MAX_WORKERS = 10**7
# The bisection stops when the two bounds differ by at most this many workers; the rest is added one by one.
_MAX_WORKERS_AFTER_BISECTION = 4


@dataclass(frozen=True)
class Demand:
    """The resources, speed and remaining work of one pool."""

    need: Resources
    # Items per second of one worker; None while unknown: then the pool gets its minimum number of workers.
    rate: float | None
    # Items that this pool still has to process, the queue included. Only proportions between pools matter.
    work: float
    least: int = 1
    most: int | None = None
    # How many of its workers wait at any time for memory to store their outputs: less than one, because the pool
    # downstream takes from one at a time.
    unloading: float = 0.0

    def speed(self, workers: int) -> float:
        """Return the share of the remaining work that ``workers`` do per second."""
        if self.rate is None or self.work <= 0:
            return inf
        # A single worker computes half of the time and stores its outputs in the other half.
        working = workers if not self.unloading else max(workers - self.unloading, workers / (1 + self.unloading))
        return working * self.rate / self.work

    def workers_for(self, speed: float) -> int:
        """Return how many workers reach a speed, within the bounds of the pool."""
        if self.rate is None or self.work <= 0:
            return self.least
        working = speed * self.work / self.rate * (1 - _EPSILON)
        wanted = min(_MAX_WORKERS, ceil(min(working + self.unloading, working * (1 + self.unloading))))
        wanted = max(self.least, wanted)
        return wanted if self.most is None else min(wanted, self.most)


@dataclass(frozen=True)
class Allocation:
    """Worker counts, the speed they reach, and an upper bound of the speed."""

    workers: tuple[int, ...]
    speed: float
    fluid: float
    # The slowest pool; None if no pool limits the speed.
    bottleneck: int | None

    @property
    def efficiency(self) -> float:
        """The speed relative to the upper bound, which allows fractions of workers."""
        return self.speed / self.fluid if 0 < self.fluid < inf else 1.0


def allocate(demands: Sequence[Demand], cluster: Cluster, empty: Space | None = None) -> Allocation | None:
    """Return the best plan; None if the minimum numbers of workers of all pools do not fit at the same time.

    ``empty`` is the space of the empty cluster, if the caller has it already.

    >>> from penstock.core.cluster import Gpu, Node
    >>> machine = Cluster((Node("a", 16, 64, (Gpu(80),) * 7),))
    >>> stages = [Demand(Resources(gpus=1), rate, 200) for rate in (4.0, 1.0, 2.0)]
    >>> allocate(stages, machine).workers
    (1, 4, 2)
    """
    empty = Space.of(cluster) if empty is None else Space(dict(empty.groups))
    if not _fits(demands, [demand.least for demand in demands], cluster, empty):
        return None
    fluid = _fluid_speed(demands, empty)
    needs = [demand.need for demand in demands]
    top = fluid * (1 + 1e-6) if fluid < inf else 0.0
    # Rounding costs at most one worker of each pool, so the answer is near the fluid speed on large clusters. Try that
    # first, and compare totals before anything is packed.
    near = top * (1 - _rounding_loss(demands, empty))
    pooled, top = _narrow(demands, top, [near], lambda trial: may_pack(empty, list(zip(needs, trial, strict=True))))
    speed, _ = _narrow(demands, top, [pooled, near], lambda trial: _fits(demands, trial, cluster, empty))
    counts = [demand.workers_for(speed) for demand in demands]
    counts = _add_while_it_fits(demands, counts, cluster, empty)
    reached = min((demand.speed(count) for demand, count in zip(demands, counts, strict=True)), default=inf)
    if reached < inf:  # drop workers that do not help because another pool stays slower
        counts = [demand.workers_for(reached) for demand in demands]
    speeds = [demand.speed(count) for demand, count in zip(demands, counts, strict=True)]
    slowest = min(range(len(speeds)), key=lambda i: speeds[i], default=None)
    bottleneck = slowest if slowest is not None and speeds[slowest] < inf else None
    return Allocation(tuple(counts), min(speeds, default=inf), fluid, bottleneck)


def _narrow(
    demands: Sequence[Demand], high: float, guesses: Sequence[float], fits: Callable[[list[int]], bool]
) -> tuple[float, float]:
    """Narrow the range of speeds by bisection until few worker counts are left; try the guesses first."""
    low = 0.0
    at_low, at_high = ([demand.workers_for(speed) for demand in demands] for speed in (low, high))
    untried = list(guesses)
    while sum(at_high) - sum(at_low) > _MAX_WORKERS_AFTER_BISECTION:
        middle = untried.pop(0) if untried else (low + high) / 2
        if not low < middle < high:
            if untried:
                continue
            break
        trial = [demand.workers_for(middle) for demand in demands]
        if fits(trial):
            low, at_low = middle, trial
        else:
            high, at_high = middle, trial
    return low, high


def fluid_speed(demands: Sequence[Demand], cluster: Cluster) -> float:
    """Return the speed with fractions of workers allowed: an upper bound of every plan."""
    return _fluid_speed(demands, Space.of(cluster))


def _fluid_speed(demands: Sequence[Demand], empty: Space) -> float:
    largest_gpu = max((gpu.memory_gb for node in empty.groups for gpu in node.gpus), default=1.0)
    capacity = {
        "cpus": sum(node.cpus * count for node, count in empty.groups.items()),
        "memory": sum(node.memory_gb * count for node, count in empty.groups.items()),
        "gpus": float(sum(len(node.gpus) * count for node, count in empty.groups.items())),
    }
    used = dict.fromkeys(capacity, 0.0)
    fastest = inf
    for demand in demands:
        if demand.rate is None or demand.work <= 0:
            continue
        workers_per_speed = demand.work / demand.rate
        used["cpus"] += demand.need.cpus * workers_per_speed
        used["memory"] += (demand.need.memory_gb or 0.0) * workers_per_speed
        used["gpus"] += demand.need.gpu_share(largest_gpu) * workers_per_speed
        if demand.most is not None:
            fastest = min(fastest, demand.speed(demand.most))
    return min([fastest, *(capacity[name] / used[name] for name in capacity if used[name] > 0)])


def _rounding_loss(demands: Sequence[Demand], empty: Space) -> float:
    """Return the largest share of a resource that one worker of every pool takes: the most that rounding can cost."""
    cpus = sum(node.cpus * count for node, count in empty.groups.items())
    gpus = sum(len(node.gpus) * count for node, count in empty.groups.items())
    one_each_cpus = sum(demand.need.cpus for demand in demands)
    one_each_gpus = sum(min(1.0, demand.need.gpus) or demand.need.requires_gpu for demand in demands)
    return min(0.5, max(one_each_cpus / max(cpus, 1e-9), one_each_gpus / max(gpus, 1)))


def _add_while_it_fits(demands: Sequence[Demand], counts: Sequence[int], cluster: Cluster, empty: Space) -> list[int]:
    """Add workers to the slowest pool until one does not fit or does not help."""
    best = list(counts)
    while True:
        speeds = [demand.speed(count) for demand, count in zip(demands, best, strict=True)]
        slowest = min(range(len(best)), key=lambda i: speeds[i], default=None)
        if slowest is None or speeds[slowest] == inf:
            return best
        most = demands[slowest].most
        if most is not None and best[slowest] >= most:
            return best
        trial = [count + (i == slowest) for i, count in enumerate(best)]
        if not _fits(demands, trial, cluster, empty):
            return best
        best = trial


def _fits(demands: Sequence[Demand], counts: Sequence[int], cluster: Cluster, empty: Space) -> bool:
    return packs(cluster, [(d.need, n) for d, n in zip(demands, counts, strict=True)], empty)
