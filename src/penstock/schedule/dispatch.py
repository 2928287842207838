"""Assign batches to workers: the last pool first, and each batch as late as possible."""

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

# Longer tasks are not assigned ahead: the latency of a message does not matter for them.
_MAX_TASK_SECONDS_AHEAD = 0.1
# Items that take much less time than a message are sent together, if at least this many wait for each worker and this
# many batches of the pool have been done.
_MIN_WAITING_TO_GROUP = 16
# The most items sent together, and the part of the items done within one round trip that is sent together.
_MAX_ITEMS_TOGETHER = 64
_GROUPS_PER_ROUND_TRIP = 4
# Among this many equally loaded workers, one on the node that stores the batch is preferred.
_LOCALITY_CANDIDATES = 16
# To send this much to another node takes about a millisecond; smaller batches are assigned to any worker.
_MIN_LOCAL_BYTES = 2**20


def dispatch(run: RunState) -> None:
    """Assign batches to idle workers, and some ahead where tasks are short compared with the latency of messages."""
    for pool in reversed(run.pools):
        if not (pool.waiting or pool.early or pool.retries):
            continue
        _assign_to_load(run, pool, 0)
        if not pool.idle:
            for load in range(1, _batches_ahead(run, pool) + 1):
                _assign_to_load(run, pool, load)


def is_runnable(run: RunState, pool: PoolState, *, with_credit: bool = True) -> bool:
    """Tell whether a worker of this pool could run a batch now, and, ``with_credit``, store an output of it."""
    return bool(pool.retries) or (_batch_length(run, pool) > 0 and (not with_credit or has_credit(run, pool, 1)))


def unstick(run: RunState) -> bool:
    """If no worker is busy, starting or stopping, admit one output or batch beyond the budget; False if none waits."""
    if run.busy or run.in_transition or spill_one(run):
        return True
    for pool in reversed(run.pools):
        if pool.idle and (batch := _next_batch(run, pool, force=True)) is not None:
            _assign(run, pool, pool.workers[next(iter(pool.idle))], batch)
            return True
    return False


def _assign_to_load(run: RunState, pool: PoolState, load: int) -> None:
    """Assign one more batch to each worker that holds ``load`` batches."""
    workers = pool.by_load[load]
    while workers and (batch := _next_batch(run, pool)) is not None:
        _assign(run, pool, _nearest(pool, workers, batch), batch)


def _nearest(pool: PoolState, workers: Iterable[str], batch: Batch) -> WorkerState:
    """Return the worker for a batch: one on the node that stores a large item of it, if there is one."""
    first = pool.workers[next(iter(workers))]
    largest = batch.items[0] if len(batch.items) == 1 else max(batch.items, key=lambda item: item.size)
    if largest.size < _MIN_LOCAL_BYTES or first.placement.node == largest.node:
        return first
    candidates = (pool.workers[worker] for worker in islice(workers, _LOCALITY_CANDIDATES))
    return next((worker for worker in candidates if worker.placement.node == largest.node), first)


def _assign(run: RunState, pool: PoolState, worker: WorkerState, batch: Batch) -> None:
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
    """Return how many batches a worker holds besides the running one, to cover the round trip; 0 near the end."""
    service = pool.estimate.rate.service_seconds
    if not 0 < service < _MAX_TASK_SECONDS_AHEAD or len(pool.waiting) <= len(pool.workers) * pool.spec.batch_size * 2:
        return 0
    return min(MAX_AHEAD, ceil(run.settings.round_trip_s / service))


def _next_batch(run: RunState, pool: PoolState, *, force: bool = False) -> Batch | None:
    if pool.retries:
        return pool.retries.popleft()
    count = _batch_length(run, pool)
    if count == 0 or not (force or has_credit(run, pool, count)):
        return None
    run.batch_count += 1
    if _is_near_end(run, pool):
        return Batch(run.batch_count, pool.index, (_take_largest(run, pool),))
    return Batch(run.batch_count, pool.index, tuple(run.items[pool.pop()] for _ in range(count)))


def _is_near_end(run: RunState, pool: PoolState) -> bool:
    """Tell whether few items are left: then the largest is begun first, so that the run does not wait for it."""
    return pool.spec.batch_size == 1 and run.first_open >= pool.index and len(pool.waiting) <= 2 * len(pool.workers)


def _take_largest(run: RunState, pool: PoolState) -> Item:
    key = max(pool.waiting, key=lambda entry: (run.items[entry[1]].size, [-part for part in entry[0]]))[1]
    pool.waiting = [entry for entry in pool.waiting if entry[1] != key]
    heapq.heapify(pool.waiting)
    return run.items[key]


def _batch_length(run: RunState, pool: PoolState) -> int:
    """Return the number of items in the next batch: a full batch, or the rest when no more items can arrive."""
    if run.waits_for_all(pool):
        return 0
    if pool.early:
        _admit_early(run, pool)
    size = pool.spec.batch_size
    if len(pool.waiting) >= size:
        return _group_length(run, pool) if size == 1 else size
    return len(pool.waiting) if run.first_open >= pool.index else 0


def _group_length(run: RunState, pool: PoolState) -> int:
    """Return how many items are sent as one batch in a pool with batch size 1.

    Several if they take less time than a message; a worker still runs them one by one. Only where many items wait, and
    single tasks are neither timed nor counted.
    """
    rate, spec, waiting_for_each = pool.estimate.rate, pool.spec, len(pool.waiting) // max(1, len(pool.workers))
    if min(waiting_for_each, pool.survived) < _MIN_WAITING_TO_GROUP or rate.items <= 0:
        return 1
    if spec.timeout_s is not None or spec.max_tasks_per_worker is not None:
        return 1
    ahead = run.settings.round_trip_s * rate.items / max(rate.seconds, 1e-9)
    return max(1, min(_MAX_ITEMS_TOGETHER, int(ahead) // _GROUPS_PER_ROUND_TRIP, waiting_for_each))


def _admit_early(run: RunState, pool: PoolState) -> None:
    """Move early items to the queue if no earlier item can still arrive."""
    frontier = run.frontiers[pool.index]
    while pool.early and frontier.passed(pool.early[0][0]):
        heapq.heappush(pool.waiting, heapq.heappop(pool.early))
