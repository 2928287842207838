"""Grant credit for outputs where the pools downstream need them, and hold it back where they have enough."""

from __future__ import annotations

import heapq
from math import ceil

from penstock.schedule.actions import GrantCredit
from penstock.schedule.clock import pause, resume
from penstock.schedule.credit import Charge
from penstock.schedule.demands import unloading
from penstock.schedule.items import running_batch
from penstock.schedule.state import Batch, Item, PoolState, RunState
from penstock.schedule.workforce import file_by_load

# Credit reserved for the outputs of a batch, relative to the mean of earlier batches.
_RESERVE_FACTOR = 1.1
# A pool has enough in its queue when that keeps it busy for this long.
_ENOUGH_QUEUE_SECONDS = 5.0
# The same in batches, before the speed of the pool is known.
_ENOUGH_QUEUE_BATCHES = 16
# A request for a small output is granted for this many outputs of its size, within these bytes and this fraction of the
# available credit.
_OUTPUTS_PER_GRANT = 64
_MAX_GRANT_AHEAD_BYTES = 2**20
_GRANT_AHEAD_FRACTION = 1 / 8
# Every batch gets this many bytes without a request, if they are at most this fraction of the available credit.
_FREE_CREDIT_BYTES = 4096
_FREE_CREDIT_FRACTION = 1 / 1024


def note_want(run: RunState, worker_id: str, batch_id: int, size: int) -> None:
    """Let a worker wait whose output exceeds its credit."""
    batch = running_batch(run, worker_id, batch_id)
    if batch is None:
        return
    worker, pool = run.workers[worker_id], run.pools[batch.pool]
    if not worker.waits_for_credit:
        pause(run, worker)
        file_by_load(pool, worker)
    pool.wants[worker_id] = (batch, size)
    heapq.heappush(pool.wants_in_order, (batch.order, worker_id))


def grant_credit(run: RunState) -> None:
    """Grant credit to waiting workers, the last pool first: downstream pools free bytes."""
    for pool in reversed(run.pools):
        while pool.wants and (worker_id := _first_waiting(pool)):
            batch, size = pool.wants[worker_id]
            if run.is_last(pool.index):
                _grant(run, worker_id, None)  # results leave the run: nothing to bound
                continue
            awaited = is_awaited(run, pool, batch.items)
            if not awaited and unloading(pool, run.credits):
                break  # its outputs would take the memory that the awaited ones need
            charge = run.credits.acquire(pool.index, size, shared_only=not awaited)
            if charge is None and not run.credits.edges[pool.index].spills:
                break
            more = 0
            if charge is not None:
                more = _grant_ahead(run.credits.available(pool.index, shared_only=not awaited), size)
                charge = charge.plus(run.credits.reserve(pool.index, more, shared_only=not awaited))
            _grant(run, worker_id, charge, more)


def spill_one(run: RunState) -> bool:
    """Let the first waiting worker spill its output to disk; False if no worker waits."""
    for pool in reversed(run.pools):
        if pool.wants and (worker_id := _first_waiting(pool)):
            _grant(run, worker_id, None)
            return True
    return False


def reserve(run: RunState, pool: PoolState, batch: Batch) -> None:
    """Reserve credit for the expected outputs of a batch, so that its worker need not ask."""
    if run.is_last(pool.index) or batch.is_probe or unloading(pool, run.credits):
        return  # outputs that exceed the budget anyway are granted one by one
    expected = ceil(pool.estimate.output_bytes_per_item * len(batch.items) * _RESERVE_FACTOR)
    shared_only = not is_awaited(run, pool, batch.items)
    available = run.credits.available(pool.index, shared_only=shared_only)
    without_request = min(_FREE_CREDIT_BYTES, int(available * _FREE_CREDIT_FRACTION))
    batch.charge = run.credits.reserve(pool.index, max(expected, without_request), shared_only=shared_only)


def has_credit(run: RunState, pool: PoolState, count: int) -> bool:
    """Tell whether there is credit for at least one output of the next batch."""
    if run.is_last(pool.index) or run.credits.edges[pool.index].spills:
        return True
    first = run.items[pool.waiting[0][1]]
    awaited = is_awaited(run, pool, (first,))
    ordered = run.next_ordered[pool.index] is not None
    if not (ordered and awaited) and is_sated(run, run.pools[pool.index + 1]):
        return False
    if unloading(pool, run.credits):
        return True  # its outputs never fit as a whole: the next batch runs while the last one is being stored
    expected = min(pool.estimate.output_bytes_per_item * count, pool.estimate.outputs.largest)
    return run.credits.available(pool.index) >= expected


def is_sated(run: RunState, pool: PoolState) -> bool:
    """Tell whether the queue of a pool keeps it busy for a while, so that more would only take memory from others."""
    if pool.spec.barrier or run.settings.batch_mode:
        return False
    need = pool.spec.need
    if not pool.staffed and any(other.spec.need.requires_gpu == need.requires_gpu for other in run.pools[: pool.index]):
        return False  # it takes turns with a pool upstream: with a longer queue its turn is longer
    rate = pool.estimate.rate.rate()
    if rate is None and run.credits.keeps_within_private(pool.index - 1):
        return pool.queued > _ENOUGH_QUEUE_BATCHES * pool.spec.batch_size  # its speed is unknown
    return pool.queued > max(1, pool.staffed) * (2 * pool.spec.batch_size + (rate or 0.0) * _ENOUGH_QUEUE_SECONDS)


def is_awaited(run: RunState, pool: PoolState, items: tuple[Item, ...]) -> bool:
    """Tell whether the next ordered pool downstream waits for these items, or there is no ordered pool.

    Only then may they use private credit: outputs out of order would take the memory that the awaited ones need.
    """
    ordered = run.next_ordered[pool.index]
    return ordered is None or run.frontiers[ordered].waits_for(items)


def _first_waiting(pool: PoolState) -> str | None:
    while pool.wants_in_order:
        order, worker_id = pool.wants_in_order[0]
        want = pool.wants.get(worker_id)
        if want is not None and want[0].order == order:
            return worker_id
        heapq.heappop(pool.wants_in_order)
    return None


def _grant_ahead(available: int, size: int) -> int:
    """Return the bytes granted beyond the request, so that a source that lists many files need not ask for each."""
    most = min(_MAX_GRANT_AHEAD_BYTES - size, int(available * _GRANT_AHEAD_FRACTION))
    more = min((_OUTPUTS_PER_GRANT - 1) * size, most)
    return more if more >= size else 0


def _grant(run: RunState, worker_id: str, charge: Charge | None, more: int = 0) -> None:
    worker = run.workers[worker_id]
    pool = run.pools[worker.pool]
    batch, size = pool.wants.pop(worker_id)
    spill = charge is None and not run.is_last(pool.index)
    run.credits.spilled += spill
    if charge is not None:
        batch.charge = charge if batch.charge is None else batch.charge.plus(charge)
    resume(run, worker)
    file_by_load(pool, worker)
    run.actions.append(GrantCredit(worker_id, batch.id, 0 if spill else size + more, spill))
