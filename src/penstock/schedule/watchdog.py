"""Explain why a run makes no progress: for each pool with work, from the state of the run alone."""

from __future__ import annotations

from penstock.core.resources import Resources
from penstock.core.sizes import human_bytes
from penstock.schedule.dispatch import is_runnable
from penstock.schedule.granting import is_sated
from penstock.schedule.pack import gpu_room
from penstock.schedule.state import PoolState, RunState, Status, WorkerState


def why_nothing_moves(run: RunState) -> dict[str, str]:
    """Return for each pool with items or starting workers what it does or waits for.

    >>> from penstock.core.cluster import Cluster, Node
    >>> from penstock.schedule.events import Output
    >>> from penstock.schedule.scheduler import Scheduler
    >>> from penstock.schedule.state import PoolSpec, Settings
    >>> scheduler = Scheduler([PoolSpec("read")], Cluster((Node("here", 2, 8),)), Settings(memory_budget=1000))
    >>> actions = scheduler.begin(0.0, [Output("0", (0,), 0)])
    >>> scheduler.state.now = 40.0
    >>> why_nothing_moves(scheduler.state)
    {'read': 'a worker starting for 40 s'}
    """
    return {pool.spec.name: _why(run, pool) for pool in run.pools if pool.items or pool.starting}


def state_of(run: RunState) -> str:
    """Return what each pool waits for, one line each, for an error that ends the run.

    >>> from penstock.core.cluster import Cluster, Node
    >>> from penstock.schedule.events import Output
    >>> from penstock.schedule.scheduler import Scheduler
    >>> from penstock.schedule.state import PoolSpec, Settings
    >>> scheduler = Scheduler([PoolSpec("read")], Cluster((Node("here", 2, 8),)), Settings(memory_budget=1000))
    >>> actions = scheduler.begin(0.0, [Output("0", (0,), 0)])
    >>> print(state_of(scheduler.state))
      read: 1 item to do, 1 worker; a worker starting for 0 s
    """
    reasons = why_nothing_moves(run)
    return "\n".join(
        f"  {pool.spec.name}: {_count(pool.items, 'item')} to do, {_count(len(pool.workers), 'worker')}; "
        f"{reasons[pool.spec.name]}"
        for pool in run.pools
        if pool.spec.name in reasons
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _why(run: RunState, pool: PoolState) -> str:
    running = [worker for worker in pool.workers.values() if worker.batches and not worker.waits_for_credit]
    reasons = [
        _longest(run, running) if running else "",
        _wants_credit(run, pool) if pool.wants else "",
        _starting(run, pool) if pool.starting else "",
    ]
    return "; ".join(reason for reason in reasons if reason) or _idle(run, pool)


def _longest(run: RunState, running: list[WorkerState]) -> str:
    first = min(running, key=lambda worker: worker.running_since)
    others = f" ({len(running)} run)" if len(running) > 1 else ""
    return f"batch {first.batches[0].id} runs for {run.now - first.running_since:.0f} s{others}"


def _wants_credit(run: RunState, pool: PoolState) -> str:
    size = sum(size for _, size in pool.wants.values())
    return f"waiting for {human_bytes(size)} of credit{_holder(run)}"


def _holder(run: RunState) -> str:
    """Name the pool whose input holds most of the bytes in flight."""
    held, index = max((edge.held_private + edge.held_shared, i) for i, edge in enumerate(run.credits.edges))
    return f": '{run.pools[index + 1].spec.name}' holds {human_bytes(held)}" if held else ""


def _starting(run: RunState, pool: PoolState) -> str:
    starting = [worker for worker in pool.workers.values() if worker.status is Status.STARTING]
    first = min(starting, key=lambda worker: worker.started_at)
    what = "starting" if first.placed_at is not None else f"waiting for a place on node '{first.placement.node}'"
    workers = "a worker" if pool.starting == 1 else f"{pool.starting} workers"
    return f"{workers} {what} for {run.now - first.started_at:.0f} s"


def _idle(run: RunState, pool: PoolState) -> str:
    """Return why no worker of a pool is busy although it has items."""
    if run.waits_for_all(pool):
        first = run.pools[run.first_open]
        return f"waits until '{first.spec.name}' has done its {first.items} items"
    if not pool.staffed:
        return _no_worker(run, pool)
    if not pool.retries and not is_runnable(run, pool, with_credit=False):
        missing = f"has {pool.queued} of the {pool.spec.batch_size} items of a batch"
        return f"{missing}, and waits for one that comes before them" if pool.early else missing
    if not is_runnable(run, pool):
        if is_sated(run, run.pools[pool.index + 1]):
            return f"'{run.pools[pool.index + 1].spec.name}' has enough in its queue"
        return f"no credit for its outputs{_holder(run)}"
    return "about to start a batch"


def _no_worker(run: RunState, pool: PoolState) -> str:
    leaving = [worker for worker in run.workers.values() if worker.status in (Status.DRAINING, Status.STOPPING)]
    need = pool.spec.need
    if any(free.room_for(need) for free in run.nodes.free().values()):
        return "no worker yet; there is room for one"
    waits = f"; {_count(len(leaving), 'worker')} stopping" if leaving else ""
    if taken := sorted({placement.node for _, _, placement in run.withheld}):
        waits += f"; others have taken its place on {', '.join(taken)}, seen {_count(pool.unplaced, 'time')}"
    return f"no worker fits: needs {need}, {_nearest(run, need)}{waits}"


def _nearest(run: RunState, need: Resources) -> str:
    """Return how much of the missing resource the best node has free."""
    free = list(run.nodes.free().values())
    if need.requires_gpu and not any(gpu_room(node.gpus, need) for node in free):
        best = max((sum(gpu.share for gpu in node.gpus) for node in free), default=0.0)
        return f"{best:g} GPUs free" if best else "no GPU free"
    if not any(node.cpus >= need.cpus for node in free):
        return f"{max((node.cpus for node in free), default=0.0):g} CPUs free"
    if not any(node.memory_gb >= (need.memory_gb or 0.0) for node in free):
        return f"{max((node.memory_gb for node in free), default=0.0):g} GB of memory free"
    return "which no single node has free"
