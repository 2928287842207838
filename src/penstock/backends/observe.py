"""Summarize the state of the scheduler for the progress display and the run summary."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.core.snapshot import PoolSnapshot, RunSnapshot
from penstock.plan.plan import Plan
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolState, Status


def snapshot(scheduler: Scheduler, plan: Plan, elapsed: float, now: float, failed: int) -> RunSnapshot:
    """Return the current state of the run."""
    remaining = scheduler.staffing.remaining()
    pools = tuple(
        _pool(scheduler, pool, plan, left, now) for pool, left in zip(scheduler.pools, remaining, strict=True)
    )
    allocation = scheduler.staffing.allocation
    slowest = None if allocation is None or allocation.bottleneck is None else scheduler.pools[allocation.bottleneck]
    etas = [pool.eta_seconds for pool in pools if pool.remaining > 0]
    return RunSnapshot(
        pipeline=plan.pipeline,
        elapsed=elapsed,
        pools=pools,
        held_bytes=scheduler.credits.held,
        budget_bytes=scheduler.credits.budget,
        bottleneck=None if slowest is None else slowest.spec.name,
        bound_by="" if slowest is None else _bound_by(slowest),
        efficiency=-1.0 if allocation is None or slowest is None else allocation.efficiency,
        failed=failed,
        eta_seconds=max((eta for eta in etas if eta is not None), default=None) if None not in etas else None,
    )


def pool_records(scheduler: Scheduler, plan: Plan) -> list[dict[str, Any]]:
    """Return the measurements of each pool as plain data: enough to simulate the run elsewhere."""
    return [
        {
            "name": pool.spec.name,
            "stages": [stage.name for stage in planned.stages],
            "border": planned.border,
            "resources": asdict(pool.spec.need),
            "batch_size": pool.spec.batch_size,
            "workers": pool.spec.workers,
            "items_in": pool.estimate.items_in,
            "items_out": pool.estimate.items_out,
            "busy_seconds": pool.estimate.busy_seconds,
            "output_bytes": pool.estimate.outputs.total,
            "output_bytes_p95": round(pool.estimate.outputs.quantile(0.95)),
            "output_bytes_largest": pool.estimate.outputs.largest,
            "resident_bytes_p95": round(pool.estimate.resident.quantile(0.95)),
            "resident_bytes_largest": pool.estimate.resident.largest,
            "start_up_seconds": pool.estimate.start_up_seconds,
            "bound_by": _bound_by(pool),
        }
        for pool, planned in zip(scheduler.pools, plan.pools, strict=True)
    ]


def _pool(scheduler: Scheduler, pool: PoolState, plan: Plan, remaining: float, now: float) -> PoolSnapshot:
    ready = sum(worker.status is Status.READY for worker in pool.workers.values())
    busy = sum(bool(worker.batches) and not worker.waits_for_credit for worker in pool.workers.values())
    rate = pool.rate(now) or 0.0
    edges = scheduler.credits.edges
    held = edges[pool.index - 1] if 0 < pool.index <= len(edges) else None
    return PoolSnapshot(
        name=pool.spec.name,
        stages=tuple(stage.name for stage in plan.pools[pool.index].stages),
        ready=ready,
        wanted=pool.wanted if remaining else 0,
        items_per_second=rate * busy,
        queue=pool.queued,
        held_bytes=0 if held is None else held.held_private + held.held_shared,
        busy=busy / len(pool.workers) if pool.workers else 0.0,
        done=pool.done,
        remaining=remaining,
        # Based on what the ready workers could do, even if they are waiting now.
        eta_seconds=0.0 if remaining == 0 else remaining / (rate * ready) if rate * ready > 0 else None,
    )


def _bound_by(pool: PoolState) -> str:
    return "GPUs" if pool.spec.need.requires_gpu else "CPUs"
