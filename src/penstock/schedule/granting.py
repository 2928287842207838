"""Who may store how much: credit for outputs, given where it keeps the run moving and held back where it would clog."""

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

# What is set aside for a batch's outputs beyond what such batches gave on average.
_HEADROOM = 1.1
# A pool has enough in its queue when that keeps it busy for so long.
_QUEUE_SECONDS = 5.0
# Before anybody knows how long that is.
_FEW_BATCHES = 16
# Whoever asks for a little gets enough for so many like it, within so many bytes and this part of what is left.
_AT_ONCE = 64
_SMALL_BYTES = 2**20
_OF_WHAT_IS_LEFT = 8
# Where there is so many times as much, everybody gets this little at once: a name or a count is not worth a question.
_LITTLE_BYTES = 4096
_OF_PLENTY = 1024


def note_want(run: RunState, worker_id: str, batch_id: int, size: int) -> None:
    """Let a worker wait that has more to store than it has credit for."""
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
    """Let waiting workers store what they ask for, the deepest pool first: it is the one that frees bytes."""
    for pool in reversed(run.pools):
        while pool.wants and (worker_id := _first_in_line(pool)):
            batch, size = pool.wants[worker_id]
            if run.is_last(pool.index):
                _grant(run, worker_id, None)  # results leave the run: nothing to bound
                continue
            awaited = is_awaited(run, pool, batch.items)
            if not awaited and unloading(pool, run.credits):
                break  # all of it would lie in the way of what is awaited
            charge = run.credits.acquire(pool.index, size, shared_only=not awaited)
            if charge is None and not run.credits.edges[pool.index].spills:
                break
            more = 0
            if charge is not None:
                more = _for_the_next(run.credits.available(pool.index, shared_only=not awaited), size)
                charge = charge.plus(run.credits.reserve(pool.index, more, shared_only=not awaited))
            _grant(run, worker_id, charge, more)


def spill_one(run: RunState) -> bool:
    """Let the first one that waits store on disk; False if nobody waits."""
    for pool in reversed(run.pools):
        if pool.wants and (worker_id := _first_in_line(pool)):
            _grant(run, worker_id, None)
            return True
    return False


def reserve(run: RunState, pool: PoolState, batch: Batch) -> None:
    """Set credit aside for what a batch will probably give, so that it need not ask."""
    if run.is_last(pool.index) or batch.is_probe or unloading(pool, run.credits):
        return  # what overflows anyway is asked for piece by piece, by whoever has something to store now
    expected = ceil(pool.estimate.output_bytes_per_item * len(batch.items) * _HEADROOM)
    shared_only = not is_awaited(run, pool, batch.items)
    little = min(_LITTLE_BYTES, run.credits.available(pool.index, shared_only=shared_only) // _OF_PLENTY)
    batch.charge = run.credits.reserve(pool.index, max(expected, little), shared_only=shared_only)


def has_credit(run: RunState, pool: PoolState, count: int) -> bool:
    """Tell whether there is room for at least one output of what would be begun next."""
    if run.is_last(pool.index) or run.credits.edges[pool.index].spills:
        return True
    first = run.items[pool.waiting[0][1]]
    awaited = is_awaited(run, pool, (first,))
    ordered = run.next_ordered[pool.index] is not None
    if not (ordered and awaited) and is_sated(run, run.pools[pool.index + 1]):
        return False
    if unloading(pool, run.credits):
        return True  # there is never room for all of it: it is made while the one before is being stored
    expected = min(pool.estimate.output_bytes_per_item * count, pool.estimate.outputs.largest)
    return run.credits.available(pool.index) >= expected


def is_sated(run: RunState, pool: PoolState) -> bool:
    """Tell whether a pool has enough in its queue to be busy for a while: more would only take memory from others."""
    if pool.spec.barrier or run.settings.batch_mode:
        return False
    need = pool.spec.need
    if not pool.staffed and any(other.spec.need.requires_gpu == need.requires_gpu for other in run.pools[: pool.index]):
        return False  # it waits for its turn behind somebody upstream: the more is ready then, the longer the turn
    rate = pool.estimate.rate.rate()
    if rate is None and run.credits.keeps_within_private(pool.index - 1):
        return pool.queued > _FEW_BATCHES * pool.spec.batch_size  # nobody knows how fast it is, and nobody is in need
    return pool.queued > max(1, pool.staffed) * (2 * pool.spec.batch_size + (rate or 0.0) * _QUEUE_SECONDS)


def is_awaited(run: RunState, pool: PoolState, items: tuple[Item, ...]) -> bool:
    """Tell whether a pool behind that takes things in order waits for these items, or none does so.

    Only then may they use private credit: bytes out of turn would lie there and keep away what is awaited.
    """
    ordered = run.next_ordered[pool.index]
    return ordered is None or run.frontiers[ordered].waits_for(items)


def _first_in_line(pool: PoolState) -> str | None:
    while pool.wants_in_order:
        order, worker_id = pool.wants_in_order[0]
        want = pool.wants.get(worker_id)
        if want is not None and want[0].order == order:
            return worker_id
        heapq.heappop(pool.wants_in_order)
    return None


def _for_the_next(available: int, size: int) -> int:
    """Return what is granted beyond what was asked for: a source that lists many files must not ask for each."""
    more = min((_AT_ONCE - 1) * size, _SMALL_BYTES - size, available // _OF_WHAT_IS_LEFT)
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
