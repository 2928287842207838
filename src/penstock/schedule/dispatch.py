"""Who works on what next: one queue per pool, the deepest pool first, work bound to a worker as late as can be."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice
from math import ceil

from penstock.schedule.actions import RunBatch
from penstock.schedule.clock import clock_in
from penstock.schedule.granting import has_credit, reserve, spill_one
from penstock.schedule.state import MAX_AHEAD, Batch, Item, PoolState, RunState, WorkerState
from penstock.schedule.workforce import file_by_load

# Tasks longer than that are not given ahead: the way of a message does not matter then.
_SHORT_SECONDS = 0.1
# Items that are done in a small part of a message's way are ordered together, where so many wait for each worker: at
# most so many, and no more than a quarter of what a worker holds.
_MANY = 16
_MOST_TOGETHER = 64
_PART_OF_AHEAD = 4
# Among so many workers that are free alike, one on the machine where a batch lies is preferred.
_LOOKED_AT = 16
# That much takes a millisecond to another machine; for less, everybody should get something to do.
_WORTH_STAYING_FOR = 2**20


def dispatch(run: RunState) -> None:
    """Give work to free workers, and a little ahead where messages take long."""
    for pool in reversed(run.pools):
        if not (pool.waiting or pool.early or pool.retries):
            continue
        _give_to(run, pool, 0)
        if not pool.idle:
            for load in range(1, _batches_ahead(run, pool) + 1):
                _give_to(run, pool, load)


def is_runnable(run: RunState, pool: PoolState, *, with_credit: bool = True) -> bool:
    """Tell whether a worker of this pool would find something to do, for which there is credit."""
    return bool(pool.retries) or (_batch_length(run, pool) > 0 and (not with_credit or has_credit(run, pool, 1)))


def unstick(run: RunState) -> bool:
    """If nothing moves and nothing is about to, let one thing through beyond the budget; False if that was no help."""
    if run.busy or run.in_transition or spill_one(run):
        return True
    for pool in reversed(run.pools):
        if pool.idle and (batch := _next_batch(run, pool, force=True)) is not None:
            _give(run, pool, pool.workers[next(iter(pool.idle))], batch)
            return True
    return False


def _give_to(run: RunState, pool: PoolState, load: int) -> None:
    """Give one batch more to each worker that holds so many."""
    workers = pool.by_load[load]
    while workers and (batch := _next_batch(run, pool)) is not None:
        _give(run, pool, _nearest(pool, workers, batch), batch)


def _nearest(pool: PoolState, workers: Iterable[str], batch: Batch) -> WorkerState:
    """Return the worker that a batch goes to: if much of it lies on one machine, and one of the first few is there."""
    first = pool.workers[next(iter(workers))]
    largest = batch.items[0] if len(batch.items) == 1 else max(batch.items, key=lambda item: item.size)
    if largest.size < _WORTH_STAYING_FOR or first.placement.node == largest.node:
        return first
    candidates = (pool.workers[worker] for worker in islice(workers, _LOOKED_AT))
    return next((worker for worker in candidates if worker.placement.node == largest.node), first)


def _give(run: RunState, pool: PoolState, worker: WorkerState, batch: Batch) -> None:
    reserve(run, pool, batch)
    worker.batches.append(batch)
    if len(worker.batches) == 1:
        clock_in(run, worker)
    file_by_load(pool, worker)
    credit = batch.charge.total if batch.charge is not None else 0
    keys = tuple(item.key for item in batch.items)
    already = frozenset(batch.emitted)
    batch.asked_for = batch.owed
    run.actions.append(
        RunBatch(
            worker.id,
            batch.id,
            keys,
            credit,
            already,
            batch.selections,
            batch.is_probe,
            again=batch.is_again,
            alone=pool.spec.timeout_s is not None or pool.has_lost_workers,
        )
    )


def _batches_ahead(run: RunState, pool: PoolState) -> int:
    """Return how many batches a worker holds beside the one it runs: to cover a message's way; none at the end."""
    service = pool.estimate.rate.service_seconds
    if not 0 < service < _SHORT_SECONDS or len(pool.waiting) <= len(pool.workers) * pool.spec.batch_size * 2:
        return 0
    return min(MAX_AHEAD, ceil(run.settings.round_trip_s / service))


def _next_batch(run: RunState, pool: PoolState, *, force: bool = False) -> Batch | None:
    if pool.retries:
        return pool.retries.popleft()
    count = _batch_length(run, pool)
    if count == 0 or not (force or has_credit(run, pool, count)):
        return None
    run.batch_count += 1
    if _in_the_tail(run, pool):
        return Batch(run.batch_count, pool.index, (_take_largest(run, pool),))
    return Batch(run.batch_count, pool.index, tuple(run.items[pool.pop()] for _ in range(count)))


def _in_the_tail(run: RunState, pool: PoolState) -> bool:
    """Tell whether this is the last of it: then a large item begun late would keep everybody waiting."""
    return pool.spec.batch_size == 1 and run.first_open >= pool.index and len(pool.waiting) <= 2 * len(pool.workers)


def _take_largest(run: RunState, pool: PoolState) -> Item:
    key = max(pool.waiting, key=lambda entry: (run.items[entry[1]].size, [-part for part in entry[0]]))[1]
    pool.waiting = [entry for entry in pool.waiting if entry[1] != key]
    heapq.heapify(pool.waiting)
    return run.items[key]


def _batch_length(run: RunState, pool: PoolState) -> int:
    """Return how many items the next batch has: a full one, or the rest when no more can come."""
    if run.waits_for_all(pool):
        return 0
    if pool.early:
        _let_through(run, pool)
    size = pool.spec.batch_size
    if len(pool.waiting) >= size:
        return _together(run, pool) if size == 1 else size
    return len(pool.waiting) if run.first_open >= pool.index else 0


def _together(run: RunState, pool: PoolState) -> int:
    """Return how many items go as one batch where each is its own: several if they are done sooner than ordered.

    A worker still runs them one by one. Only where many wait, and nobody counts or times single ones.
    """
    rate, spec, waiting_for_each = pool.estimate.rate, pool.spec, len(pool.waiting) // max(1, len(pool.workers))
    if waiting_for_each < _MANY or rate.items <= 0 or pool.survived < _MANY:
        return 1
    if spec.timeout_s is not None or spec.max_tasks_per_worker is not None:
        return 1
    ahead = run.settings.round_trip_s * rate.items / max(rate.seconds, 1e-9)
    return max(1, min(_MOST_TOGETHER, int(ahead) // _PART_OF_AHEAD, waiting_for_each))


def _let_through(run: RunState, pool: PoolState) -> None:
    """Take in what came early as far as nothing can come before it any more."""
    frontier = run.frontiers[pool.index]
    while pool.early and frontier.passed(pool.early[0][0]):
        heapq.heappush(pool.waiting, heapq.heappop(pool.early))
