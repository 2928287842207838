"""The life of an item: it enters the queue of a pool, is consumed by a batch, and the outputs enter the next queue."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.schedule.actions import DropItems
from penstock.schedule.clock import note_heard
from penstock.schedule.credit import Charge
from penstock.schedule.events import Output
from penstock.schedule.regeneration import goes_again, regain
from penstock.schedule.state import Batch, Item, RunState, item_key
from penstock.schedule.workforce import drain


def enqueue(run: RunState, item: Item) -> None:
    """Add an item to the queue of its pool."""
    pool = run.pools[item.pool]
    run.items[item.key] = item
    pool.items += 1
    if run.stopping and _is_left_undone(run, item):
        _abandon(run, item)
        return
    pool.push(item)
    for index, frontier in run.frontiers.items():
        if item.pool < index:
            frontier.enter(item)
    if pool.items == 1 and not pool.staffed and not run.waits_for_all(pool):
        run.ask_for_plan(f"there is work for '{pool.spec.name}'")


def running_batch(run: RunState, worker_id: str, batch_id: int) -> Batch | None:
    """Return the running batch of a worker if it has this id, else None."""
    worker = run.workers.get(worker_id)
    if worker is None or not worker.batches or worker.batches[0].id != batch_id:
        return None
    return worker.batches[0]


def take_outputs(run: RunState, worker_id: str, batch_id: int, outputs: Sequence[Output]) -> None:
    """Add the outputs of a batch: each output once, however often the batch is retried."""
    batch = running_batch(run, worker_id, batch_id)
    if batch is None:
        _refuse(run, worker_id, outputs)
        return
    pool = run.pools[batch.pool]
    note_heard(run, run.workers[worker_id])
    node = run.workers[worker_id].placement.node
    frontiers = [frontier for index, frontier in run.frontiers.items() if batch.pool < index]
    for output in outputs:
        if output.id in batch.emitted:
            continue
        batch.emitted.add(output.id)
        if batch.owed:
            batch.owed -= {output.id}
        pool.estimate.outputs.observe(output.size)
        if run.is_last(batch.pool):
            run.results += 1
            continue
        charge = _charge(run, batch, output.size)
        known = run.items.get(item_key(batch.pool + 1, output.id))
        for frontier in frontiers:
            for item in batch.items:
                frontier.advance(item, output.order)
        if known is not None and known.is_lost:
            regain(run, known, output.size, charge)
            known.node = node
        else:
            made = Item(output.id, output.order, batch.pool + 1, output.size, output.rows, charge, batch, node=node)
            enqueue(run, made)


def close(run: RunState, batch: Batch) -> None:
    """Count a batch as done, and free its items."""
    if goes_again(run, batch):
        return
    batch.is_closed = True
    run.pools[batch.pool].done += len(batch.items)
    _forget(run, batch.items)


def abandon_sources(run: RunState) -> None:
    """Drop work that has not begun: initial items, tasks that a source has listed, and everything after a barrier.

    A barrier would otherwise take the part that was done before the stop for its complete input.
    """
    run.stopping = True
    for pool in run.pools:
        for queue in (pool.waiting, pool.early):
            kept = []
            for order, key in queue:
                item = run.items[key]
                if _is_left_undone(run, item):
                    _abandon(run, item)
                else:
                    kept.append((order, key))
            queue[:] = sorted(kept)


def note_completed_pools(run: RunState) -> None:
    """Advance the first open pool past pools that have no items; items only move to later pools."""
    while run.first_open < len(run.pools) and not (pool := run.pools[run.first_open]).items:
        run.ask_for_plan(f"'{pool.spec.name}' has nothing left to do")
        run.first_open += 1
        pool.wanted = pool.needed = 0
        for worker in list(pool.workers.values()):  # stopping may take long, so it begins now
            drain(run, worker)


def release_credit(run: RunState, batch: Batch) -> None:
    """Release the unused credit of a batch."""
    if batch.charge is not None:
        run.credits.release(batch.charge)
        batch.charge = None


def _charge(run: RunState, batch: Batch, size: int) -> Charge:
    """Split the charge for one output off the credit of its batch."""
    run.credits.learn(batch.pool, size)
    have = batch.charge or Charge(batch.pool)
    if have.total < size:  # a backend stored more than it was granted: counted, never hidden
        have = have.plus(run.credits.force(batch.pool, size - have.total))
    charge, batch.charge = have.split(size)
    return charge


def _refuse(run: RunState, worker_id: str, outputs: Sequence[Output]) -> None:
    """Drop late outputs of an abandoned attempt, unless a later attempt has emitted them too."""
    pool = run.pool_of.get(worker_id)
    if pool is None or run.is_last(pool):
        return
    keys = [item_key(pool + 1, output.id) for output in outputs]
    if dropped := tuple(key for key in keys if key not in run.items):
        run.actions.append(DropItems(dropped))


def _is_left_undone(run: RunState, item: Item) -> bool:
    """Tell whether an item is dropped when the run stops: it has not begun, or follows a barrier."""
    return _is_source(run, item) or any(pool.spec.barrier for pool in run.pools[: item.pool + 1])


def _is_source(run: RunState, item: Item) -> bool:
    """Tell whether an item was only listed and not processed yet."""
    return item.pool == 0 or (item.pool == 1 and run.begins_with_root and len(item.order) == 2)


def _abandon(run: RunState, item: Item) -> None:
    run.abandoned += 1
    _forget(run, (item,))


def _forget(run: RunState, items: tuple[Item, ...]) -> None:
    """Remove items of one pool, and free their credit and storage."""
    pool = items[0].pool
    run.pools[pool].items -= len(items)
    frontiers = [frontier for index, frontier in run.frontiers.items() if pool < index]
    for item in items:
        for frontier in frontiers:
            frontier.leave(item)
        if item.charge is not None:
            run.credits.release(item.charge)
            item.charge = None
        del run.items[item.key]
    run.actions.append(DropItems(tuple([item.key for item in items])))
    note_completed_pools(run)
