"""Find places for missing workers: stop workers of oversized pools first, then move workers elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from penstock.schedule.nodes import Nodes, Placement
from penstock.schedule.pack import packing_order, packs
from penstock.schedule.state import PoolState, WorkerState

# Up to this many moved workers are checked one by one for whether they can stay.
_MAX_CHECKED_ONE_BY_ONE = 16
# To move more workers than this costs more work than it gains.
_MAX_MOVED = 64
# Steps of each search for a packing.
_SEARCH_STEPS = 1_000


@dataclass(frozen=True)
class Move:
    """Changes that lead from the present workers to the wanted ones."""

    # Workers that are stopped, and workers that are stopped and started elsewhere.
    leaving: tuple[WorkerState, ...] = ()
    moved: tuple[WorkerState, ...] = ()
    # The places of new workers, with their pool; some become free only when a worker has left.
    places: tuple[tuple[int, Placement], ...] = ()

    @property
    def moved_by_pool(self) -> Counter[int]:
        """The number of moved workers of each pool."""
        return Counter(worker.pool for worker in self.moved)


def find_move(pools: Sequence[PoolState], want: Sequence[int], nodes: Nodes, *, keep_all: bool = False) -> Move:
    """Return how to reach the wanted worker counts with the fewest stops; with ``keep_all`` only use free places."""
    missing = [(pool, wanted - pool.staffed) for pool, wanted in zip(pools, want, strict=True) if wanted > pool.staffed]
    future = nodes.copy()
    _release(pools, future, [w for pool in pools if len(pool.workers) > pool.staffed
                            for w in pool.workers.values() if not w.is_staff])  # fmt: skip
    leaving: list[WorkerState] = []
    moved: list[WorkerState] = []

    def fits(gone: Sequence[WorkerState], again: Sequence[WorkerState]) -> bool:
        trial = future.copy()
        _release(pools, trial, gone)
        back = Counter(pools[worker.pool].spec.need for worker in again)
        wanted = [*((pool.spec.need, count) for pool, count in missing), *back.items()]
        return packs(nodes.cluster, wanted, trial.space(), search_steps=_SEARCH_STEPS)

    if not keep_all and not fits((), ()):
        wants_gpu = any(pool.spec.need.requires_gpu for pool, _ in missing)
        spare = [
            worker
            for pool in sorted(pools, key=lambda pool: pool.spec.need.requires_gpu != wants_gpu)
            for worker in pool.least_busy()[: max(0, pool.staffed - want[pool.index])]
        ]
        leaving = spare[: _fewest(lambda count: fits(spare[:count], ()), len(spare))]
        if not fits(leaving, ()):
            moved = _choose_moved(pools, leaving, fits)
            if not moved:
                leaving = []  # the plan is not possible, so no worker is stopped for it
    _release(pools, future, [*leaving, *moved])
    need_places = Counter({pool.index: count for pool, count in missing})
    need_places.update(worker.pool for worker in moved)
    places = future.place_all([(pools[index].spec.need, count) for index, count in need_places.items()])
    where = [(index, place) for index, found in zip(need_places, places, strict=True) for place in found]
    return Move(tuple(leaving), tuple(moved), tuple(where))


def _choose_moved(
    pools: Sequence[PoolState],
    leaving: list[WorkerState],
    fits: Callable[[Sequence[WorkerState], Sequence[WorkerState]], bool],
) -> list[WorkerState]:
    """Choose workers to move, so that scattered free resources become contiguous; small workers are moved first."""
    gone = {worker.id for worker in leaving}
    easiest_first = (
        worker
        for pool in sorted(pools, key=lambda pool: packing_order(pool.spec.need), reverse=True)
        for worker in pool.least_busy()
        if worker.id not in gone
    )
    movable = list(islice(easiest_first, _MAX_MOVED))

    def fits_after(moved: Sequence[WorkerState]) -> bool:
        return fits([*leaving, *moved], moved)

    moved = movable[: _fewest(lambda count: fits_after(movable[:count]), len(movable))]
    if not fits_after(moved):
        return []  # no packing was found even with all of them moved
    for worker in list(moved) if len(moved) <= _MAX_CHECKED_ONE_BY_ONE else ():
        without = [other for other in moved if other is not worker]
        if fits_after(without):
            moved = without
    return moved


def _release(pools: Sequence[PoolState], nodes: Nodes, workers: Sequence[WorkerState]) -> None:
    for worker in workers:
        nodes.release(pools[worker.pool].spec.need, worker.placement)


def _fewest(is_enough: Callable[[int], bool], most: int) -> int:
    """Return the smallest number that is enough, or ``most`` if none is."""
    low, high = 0, min(1, most)
    while high < most and not is_enough(high):  # mostly a few of very many are enough
        low, high = high + 1, min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return high
