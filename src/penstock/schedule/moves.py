"""Where missing workers go, and who has to leave for them: of pools with too many first, then who is in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from penstock.schedule.nodes import Nodes, Placement
from penstock.schedule.pack import packing_order, packs
from penstock.schedule.state import PoolState, WorkerState

# So many workers are looked at one by one to see who of them need not be moved after all.
_FEW = 16
# To move more than that is never worth what they would do meanwhile.
_MOST_MOVED = 64
# How long to look for a way to fit them in, each time.
_SEARCH_STEPS = 1_000


@dataclass(frozen=True)
class Move:
    """A way from the workers there are to those there should be."""

    # Who goes for good, and who comes back elsewhere.
    leaving: tuple[WorkerState, ...] = ()
    moved: tuple[WorkerState, ...] = ()
    # Where new workers go, by pool, once whoever is there has left.
    places: tuple[tuple[int, Placement], ...] = ()

    @property
    def moved_by_pool(self) -> Counter[int]:
        """How many workers of each pool are moved."""
        return Counter(worker.pool for worker in self.moved)


def find_move(pools: Sequence[PoolState], want: Sequence[int], nodes: Nodes, *, everybody_stays: bool = False) -> Move:
    """Return how to get to so many workers with the fewest having to go, or as near as can be if nobody has to."""
    missing = [(pool, wanted - pool.staffed) for pool, wanted in zip(pools, want, strict=True) if wanted > pool.staffed]
    future = nodes.copy()
    _let_go(pools, future, [w for pool in pools if len(pool.workers) > pool.staffed
                            for w in pool.workers.values() if not w.is_staff])  # fmt: skip
    leaving: list[WorkerState] = []
    moved: list[WorkerState] = []

    def fits(gone: Sequence[WorkerState], again: Sequence[WorkerState]) -> bool:
        trial = future.copy()
        _let_go(pools, trial, gone)
        back = Counter(pools[worker.pool].spec.need for worker in again)
        wanted = [*((pool.spec.need, count) for pool, count in missing), *back.items()]
        return packs(nodes.cluster, wanted, trial.space(), search_steps=_SEARCH_STEPS)

    if not everybody_stays and not fits((), ()):
        wants_gpu = any(pool.spec.need.requires_gpu for pool, _ in missing)
        spare = [
            worker
            for pool in sorted(pools, key=lambda pool: pool.spec.need.requires_gpu != wants_gpu)
            for worker in pool.least_busy()[: max(0, pool.staffed - want[pool.index])]
        ]
        leaving = spare[: _fewest(lambda count: fits(spare[:count], ()), len(spare))]
        if not fits(leaving, ()):
            moved = _who_is_in_the_way(pools, leaving, fits)
            if not moved:
                leaving = []  # nobody goes for a plan that does not come true
    _let_go(pools, future, [*leaving, *moved])
    need_places = Counter({pool.index: count for pool, count in missing})
    need_places.update(worker.pool for worker in moved)
    places = future.place_all([(pools[index].spec.need, count) for index, count in need_places.items()])
    where = [(index, place) for index, found in zip(need_places, places, strict=True) for place in found]
    return Move(tuple(leaving), tuple(moved), tuple(where))


def _who_is_in_the_way(
    pools: Sequence[PoolState],
    leaving: list[WorkerState],
    fits: Callable[[Sequence[WorkerState], Sequence[WorkerState]], bool],
) -> list[WorkerState]:
    """Choose workers that come back elsewhere, so that scattered pieces become a large one; small ones move easily."""
    gone = {worker.id for worker in leaving}
    easiest_first = (
        worker
        for pool in sorted(pools, key=lambda pool: packing_order(pool.spec.need), reverse=True)
        for worker in pool.least_busy()
        if worker.id not in gone
    )
    movable = list(islice(easiest_first, _MOST_MOVED))

    def fits_after(moved: Sequence[WorkerState]) -> bool:
        return fits([*leaving, *moved], moved)

    moved = movable[: _fewest(lambda count: fits_after(movable[:count]), len(movable))]
    if not fits_after(moved):
        return []  # not even if all were moved, as far as can be seen
    for worker in list(moved) if len(moved) <= _FEW else ():
        without = [other for other in moved if other is not worker]
        if fits_after(without):
            moved = without
    return moved


def _let_go(pools: Sequence[PoolState], nodes: Nodes, workers: Sequence[WorkerState]) -> None:
    for worker in workers:
        nodes.release(pools[worker.pool].spec.need, worker.placement)


def _fewest(is_enough: Callable[[int], bool], most: int) -> int:
    """Return the least number that is enough; all of them if even that is not."""
    low, high = 0, min(1, most)
    while high < most and not is_enough(high):  # most often it is a few of very many
        low, high = high + 1, min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return high
