"""Convert a planned pool to the specification that the scheduler uses."""

from __future__ import annotations

from math import ceil

from penstock.plan.plan import Pool
from penstock.runtime.machine import GB
from penstock.runtime.speeds import Speed
from penstock.schedule.state import PoolSpec


def pool_spec(pool: Pool, timeout: float | None, nodes: int, known: Speed | None = None) -> PoolSpec:
    """Return the specification of a planned pool for the scheduler."""
    limits = pool.stages[0].worker_limits()
    return PoolSpec(
        name=pool.name,
        need=pool.resources,
        batch_size=pool.batch_size,
        workers=pool.num_workers if pool.num_workers is not None else _workers_on(pool, nodes),
        barrier=any(stage.is_barrier for stage in pool.stages),
        timeout_s=timeout,
        max_tasks_per_worker=limits.max_tasks_per_worker,
        max_lifetime_s=limits.max_worker_lifetime_s,
        restart_interval_s=limits.worker_restart_interval_s,
        max_resident_growth=_growth(pool, limits.max_worker_growth_gb),
        expected_seconds=known.seconds_per_item if known else None,
        expected_fan_out=known.fan_out if known else None,
        expected_output_bytes=known.output_bytes if known else None,
        expected_start_up_s=known.start_up_s if known else None,
    )


def _workers_on(pool: Pool, nodes: int) -> int | None:
    """Return the fixed number of workers of a pool if one of its stages sets ``num_workers_per_node``."""
    per_node = [count for stage in pool.stages if (count := stage.num_workers_per_node()) is not None]
    return max(1, ceil(max(per_node) * nodes)) if per_node else None


def _growth(pool: Pool, asked_gb: float | None) -> int | None:
    """Return the growth in bytes after which a worker is replaced: as set, or half of its declared memory."""
    gigabytes = asked_gb if asked_gb is not None else (pool.resources.memory_gb or 0.0) / 2
    return int(gigabytes * GB) or None
