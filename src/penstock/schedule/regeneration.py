"""Regenerate items that were lost with the node that stored them, from the nearest ancestor that still exists.

An item refers to the batch that made it, and that batch to its own items, so every item can be traced back to a source.
A lost item keeps its position (in a queue, or in a batch that waits for it) while the batch that made it is run again
for the missing outputs only. If the inputs of that batch are lost as well, the batches that made them are run first,
and so on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from penstock.schedule.credit import Charge
from penstock.schedule.state import Batch, Item, RunState


def lose_items(run: RunState, keys: Iterable[str]) -> None:
    """Mark items that no worker is processing as lost, and regenerate them."""
    for key in keys:
        item = run.items.get(key)
        if item is not None and not item.is_lost:
            _lose(run, item)


def hold(run: RunState, batch: Batch, missing: Iterable[str]) -> None:
    """Hold a batch back until its missing items are regenerated."""
    for item in batch.items:
        if item.key in missing and not item.is_lost:
            _lose(run, item)
    if not batch.missing and batch not in run.pools[batch.pool].retries:
        run.pools[batch.pool].retries.append(batch)


def regain(run: RunState, item: Item, size: int, charge: Charge | None) -> None:
    """Put a regenerated item back into its queue or batch."""
    item.is_lost = False
    item.size, item.charge = size, charge
    pool = run.pools[item.pool]
    if item.batch is None:
        pool.push(item)
        return
    item.batch.missing -= {item.key}
    if not item.batch.missing:
        pool.retries.append(item.batch)


def goes_again(run: RunState, batch: Batch) -> bool:
    """Tell whether a finished batch is run again, for outputs that were lost in the meantime."""
    if not batch.owed:
        return False
    refused = batch.owed & batch.asked_for
    if refused:
        name = run.pools[batch.pool].spec.name
        run.fatal = run.fatal or (
            f"task {min(refused)} was lost with its machine, and pool '{name}' did not make it again from the "
            "same input; its stages have to return the same tasks each time"
        )
        return False
    batch.is_again = True
    run.pools[batch.pool].retries.append(batch)
    return True


def _lose(run: RunState, item: Item) -> None:
    maker = item.made_by
    if maker is None:
        run.fatal = run.fatal or f"task {item.id}, which the run began with, was lost"
        return
    item.is_lost = True
    if item.charge is not None:
        run.credits.release(item.charge)
        item.charge = None
    pool = run.pools[item.pool]
    if item.batch is not None:
        item.batch.missing |= {item.key}
        if item.batch in pool.retries:
            pool.retries.remove(item.batch)
    else:
        pool.waiting = [entry for entry in pool.waiting if entry[1] != item.key]
        pool.early = [entry for entry in pool.early if entry[1] != item.key]
        if pool.ordered:  # no later item may be taken before it is regenerated
            pool.early += pool.waiting
            pool.waiting = []
        heapq.heapify(pool.waiting)
        heapq.heapify(pool.early)
    _ask_again(run, maker, item.id)


def _ask_again(run: RunState, maker: Batch, output: str) -> None:
    """Run the batch that made an output again; if it is still running, after it has ended."""
    maker.emitted.discard(output)
    maker.owed |= {output}
    if maker.is_closed:
        _reopen(run, maker)
    for index, frontier in run.frontiers.items():
        if maker.pool < index:
            for item in maker.items:
                frontier.enter(item)


def _reopen(run: RunState, batch: Batch) -> None:
    pool = run.pools[batch.pool]
    batch.is_closed, batch.is_again, batch.attempts = False, True, 0
    for item in batch.items:
        run.items[item.key] = item
        pool.items += 1
        pool.done -= 1
    run.first_open = min(run.first_open, pool.index)
    pool.retries.append(batch)
    run.ask_for_plan(f"something that '{pool.spec.name}' made was lost")
