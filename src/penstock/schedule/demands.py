"""Compute the demand of each pool from its remaining work and its measured speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf

from penstock.core.cluster import Cluster
from penstock.schedule.allocate import Demand
from penstock.schedule.credit import Credits
from penstock.schedule.pack import Space, packs
from penstock.schedule.state import PoolState, Settings

# A task that runs for this many times the longest mean task time bounds the speed of its pool before it ends.
_SLOW_TASK_IN_SERVICES = 2.0
# How long pools wait at least for others to be measured, in seconds and in mean task times; and the longest start-up
# time that is added to that.
_HOLD_S = 10.0
_HOLD_IN_SERVICES = 5.0
_MAX_START_UP_S = 60.0
# A pool whose worker waited for credit within this time counts as waiting.
_RECENT_WAIT_S = 1.0


def remaining_items(pools: Sequence[PoolState]) -> list[float]:
    """Return an estimate of the number of items that each pool still has to process."""
    coming, result = 0.0, []
    for pool in pools:
        here = coming + pool.items
        result.append(here)
        coming = here * pool.estimate.fan_out
    return result


def demands_of(
    pools: Sequence[PoolState],
    cluster: Cluster,
    settings: Settings,
    budget: Credits,
    now: float,
    elapsed: float,
    *,
    insist: bool = True,
) -> list[Demand]:
    """Return the demands of all pools; ``insist`` on fixed numbers of workers, or treat them as upper bounds."""
    demands = []
    items_upstream = waits = False
    for pool, work in zip(pools, remaining_items(pools), strict=True):
        # Pools downstream of a barrier that waits have nothing to do, unless items have reached them already.
        waits = (waits and not pool.items) or ((pool.spec.barrier or settings.batch_mode) and items_upstream)
        items_upstream = items_upstream or pool.items > 0
        known = all(upstream.estimate.knows_fan_out for upstream in pools[: pool.index])
        if waits or (work == 0 and known) or not work:
            demands.append(Demand(pool.spec.need, None, 0.0, least=0, most=0))
            continue
        # Before the pools upstream are measured, the remaining work is unknown and does not bound the workers.
        most = ceil(work / pool.spec.batch_size) if known else None
        if (fed := _batches_that_fit(pools, pool, budget)) is not None:
            most = fed if most is None else min(most, fed)
        demand = _demand(pool, pools, work, most, now, insist=insist)
        demands.append(replace(demand, unloading=unloading(pool, budget)))
    demands = _with_sole_users(demands, cluster)
    return _held_back(pools, demands, now) if elapsed < _hold_seconds(pools, elapsed) else demands


def _demand(
    pool: PoolState, pools: Sequence[PoolState], work: float, most: int | None, now: float, *, insist: bool
) -> Demand:
    fixed = pool.spec.workers
    if fixed is not None:
        most = fixed if most is None else min(fixed, most)
    if pool.ceiling is not None:
        most = pool.ceiling if most is None else min(pool.ceiling, most)
    if fixed is not None and insist:
        return Demand(pool.spec.need, None, work, least=most or 1, most=most or 1)
    return Demand(pool.spec.need, _rate(pool, pools, now), work, least=1, most=most)


def _rate(pool: PoolState, pools: Sequence[PoolState], now: float) -> float | None:
    """Return the rate of a pool; if its first task runs for long, the upper bound that follows from its age."""
    rate = pool.rate(now)
    if rate is not None or not pool.running:
        return rate
    age = pool.age_in_flight(now) / pool.running
    longest = max((other.estimate.rate.service_seconds for other in pools), default=0.0)
    return pool.spec.batch_size / age if 0 < _SLOW_TASK_IN_SERVICES * longest < age else None


def unloading(pool: PoolState, budget: Credits) -> float:
    """Return how many workers of a pool wait for credit at any time, because the outputs of one batch do not fit."""
    if pool.index >= len(budget.edges):
        return 0.0
    items = 1 if pool.spec.barrier else pool.spec.batch_size  # the size of a barrier's batch is unknown
    return budget.overflow(pool.index, ceil(pool.estimate.output_bytes_per_item * items))


def _batches_that_fit(pools: Sequence[PoolState], pool: PoolState, budget: Credits) -> int | None:
    """Return how many workers of a pool can be busy before their inputs fill the budget."""
    if pool.index == 0 or budget.edges[pool.index - 1].spills:
        return None
    size = pools[pool.index - 1].estimate.outputs.mean * pool.spec.batch_size
    return max(1, int(budget.capacity(pool.index - 1) / size)) if size > 0 else None


def _is_unmeasured(demand: Demand) -> bool:
    return demand.rate is None and demand.work > 0 and demand.least != demand.most


def _hold_seconds(pools: Sequence[PoolState], elapsed: float) -> float:
    """Return how long pools wait for others to be measured before they take all free resources."""
    service = max((pool.estimate.rate.service_seconds for pool in pools), default=0.0)
    start_up = max((pool.estimate.start_up_seconds or (pool.starting and elapsed) for pool in pools), default=0.0)
    return max(_HOLD_S, _HOLD_IN_SERVICES * service) + min(_MAX_START_UP_S, start_up)


def _held_back(pools: Sequence[PoolState], demands: list[Demand], now: float) -> list[Demand]:
    """Limit the growth of pools while others are not measured yet: they would have to shrink again at once.

    A batch whose outputs do not fit in memory ends only when the pool downstream has consumed them. Until then both
    pools are measured in part: they may double, but not grow more.
    """
    emitting = {pool.index for pool in pools if _is_emitting_its_first(pool, now)}
    if not any(_is_unmeasured(demand) for demand in demands) and not emitting:
        return demands
    held = []
    for pool, demand in zip(pools, demands, strict=True):
        most = max(1, pool.staffed)
        if {pool.index, pool.index - 1} & emitting:
            most = min(2 * most, demand.most or 2 * most)
        elif demand.rate is None:
            held.append(demand)
            continue
        work = demand.work
        if pool.index - 1 in emitting and demand.rate and (before := demands[pool.index - 1]).rate:
            work = max(
                work, before.work / before.rate * demand.rate
            )  # the pool that is waited for is not the faster one
        held.append(replace(demand, work=work, least=min(most, max(1, pool.staffed)), most=most))
    return held


def _is_emitting_its_first(pool: PoolState, now: float) -> bool:
    return not pool.estimate.items_in and now - pool.waited_at <= _RECENT_WAIT_S


def _is_modest(demand: Demand, cluster: Cluster, pools: int) -> bool:
    """Tell whether one worker for each remaining batch takes no more than an equal share of the machines."""
    if demand.most is None:
        return False
    gpus = [gpu for node in cluster.nodes for gpu in node.gpus]
    smallest = min((gpu.memory_gb for gpu in gpus), default=1.0)
    return (
        demand.most * demand.need.cpus <= sum(node.cpus for node in cluster.nodes) / pools
        and demand.most * demand.need.gpu_share(smallest) <= len(gpus) / pools
    )


def _with_sole_users(demands: list[Demand], cluster: Cluster) -> list[Demand]:
    """Raise the minimum of an unmeasured pool to all workers it can use, if that takes nothing from other pools.

    That is the case if no other pool can use the resource, or if one worker for each of its batches fits into its equal
    share.
    """
    growable = [i for i, demand in enumerate(demands) if demand.work > 0 and demand.least != demand.most]
    for i in growable:
        demand = demands[i]
        rivals = [j for j in growable if j != i and demands[j].need.requires_gpu >= demand.need.requires_gpu]
        if demand.rate is not None or (rivals and not _is_modest(demand, cluster, len(growable))):
            continue
        if not packs(cluster, [(other.need, other.least) for other in demands]):
            continue
        space = Space.of(cluster)
        for j, other in enumerate(demands):
            if j != i:
                space.place(other.need, other.least)
        room = space.room_for(demand.need)
        # One item and nothing measured: a source that has not run yet, so the amount of its output is unknown.
        most = inf if demand.most is None and demand.work <= 1 else demand.most or ceil(demand.work)
        demands[i] = replace(demand, least=max(1, int(min(room, most))))
    return demands
